"""Out-of-distribution images.

    noise           uniform in [-1, 1], every value independent
    interpolated    mean of two test images
    constant        one colour, uniform

and sets from files, folders and names, converted to the size and the channels of the data.

References:
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), section 5.3, for
    interpolated images.
    Do Deep Generative Models Know What They Don't Know? (Nalisnick et al., 2019), section 3, for
    constant images, which likelihoods prefer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.data import Data
from coldness.data.image_files import read_images
from coldness.data.images import BadImages, in_channels

IMAGE_SETS = ("noise", "interpolated", "constant")

LARGEST_SET = 2000
"""Most images of a set that are used, drawn at random: AUROC is then known to 0.01."""


def image_sets(x_data: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """As many of each as there are test images (N, C, H, W), in random order."""
    noise = torch.rand(x_data.shape, generator=generator)
    colours = torch.rand(*x_data.shape[:2], 1, 1, generator=generator)
    return {
        "noise": 2 * noise - 1,
        "interpolated": (x_data + x_data.roll(1, 0)) / 2,
        "constant": (2 * colours - 1).expand(x_data.shape),
    }


def read_image_set(path: str, data: Data) -> Tensor:
    """Images (N, C, H, W) of a folder, a file or a name, in the form in which the model gets data.

    At most LARGEST_SET; in [-1, 1], dequantised if the data is.

    Raises:
        BadImages: in one line, what is wrong with them.
    """
    channels, height, width = data.shape
    images = read_images(path, height if height == width else None)
    if tuple(images.shape[2:]) != (height, width):
        raise BadImages(
            f"images of {path} are {images.shape[2]} x {images.shape[3]}, the data's are "
            f"{height} x {width}, and only squares are resized"
        )
    generator = torch.Generator().manual_seed(0)
    some = torch.randperm(len(images), generator=generator)[:LARGEST_SET]
    x = images[some].float()
    return data.from_bytes(in_channels(x, channels), generator)
