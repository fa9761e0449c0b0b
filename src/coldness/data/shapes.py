"""Generated images with attributes of known law: coloured shapes, without a download."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from coldness.data.augmentation import Augmentation
from coldness.data.images import BadImages, ImageData, Pictures
from coldness.data.scenes import PROPERTIES, draw_scenes, render

SMALLEST = 8


class Shapes(ImageData):
    """Coloured shapes on grey backgrounds, with eleven attributes.

    Their shape (circle, square, triangle), colour (red, yellow, green, blue), size (small, large)
    and position (left, right) are independent, and all values of a property are equally likely.
    Place, hue, brightness, background and pixel noise vary continuously. The shape is also the
    class.

    Args:
        count: number of images in all parts together.
        size: side of the images in pixels, >= 8.
        noise: standard deviation of the pixel noise, as a fraction of the range of pixels, >= 0.
        seed: seed of the images.
        held_out: fraction of every class kept for testing.
        split_seed: seed of the random split.
        validation: fraction of every class of the training part kept for choosing when to stop.
        augmentation: augmentation of training batches; a flip would exchange left and right; None
            (null in YAML) for none.
        dequantise: whether to add uniform noise of one of 256 levels.
    """

    def __init__(
        self,
        count: int = 10_000,
        size: int = 16,
        noise: float = 0.02,
        seed: int = 0,
        held_out: float = 0.2,
        split_seed: int = 0,
        validation: float = 0.1,
        augmentation: Augmentation | None = None,
        dequantise: bool = False,
    ) -> None:
        if count < 1:
            raise BadImages(f"count must be >= 1, got {count}")
        if size < SMALLEST:
            raise BadImages(f"size must be >= {SMALLEST}, got {size}")
        if not 0 <= noise < float("inf"):
            raise BadImages(f"noise must be >= 0, got {noise:g}")
        self.noise = noise
        generator = torch.Generator().manual_seed(seed)
        scenes = draw_scenes(count, generator)
        pictures = Pictures(
            render(scenes, size, noise, generator),
            scenes.values[:, 0],
            PROPERTIES["shape"],
            scenes.attributes,
        )
        super().__init__(
            pictures,
            held_out=held_out,
            split_seed=split_seed,
            validation=validation,
            augmentation=augmentation,
            dequantise=dequantise,
        )

    def sample_given(
        self, attributes: Sequence[str], count: int, generator: torch.Generator
    ) -> Tensor:
        """Draws new images (count, 3, size, size) from p(x | attributes), the exact conditional.

        They are in the units of the model and in none of the parts.

        Raises:
            ValueError: if an attribute is unknown, or two are values of one property.
        """
        scenes = draw_scenes(count, generator, attributes)
        return self.shown(render(scenes, self.shape[-1], self.noise, generator), generator)
