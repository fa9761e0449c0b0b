"""Base of encoders: networks that map an image to features, and features to a latent vector.

    features(x) = body(x)              pooled, for nearest neighbours and linear classifiers
    h(x)        = head(features(x))    linear without bias, batch norm, ReLU, linear with bias

The latent vector is not normalised; the caller projects it onto the sphere. The input is
standardised by constants. Under `torch.autocast` the body computes in bfloat16, features and the
head are in float32.

Encoders learn by a loss of their own and are no energies: batch norm, which an energy must not
have, is what contrastive learning usually uses.

    encoder.patched     the same encoder as a Patched if it takes any subset of the patches of an
                        image, which a masked autoencoder needs; else None

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix B and
    its code, for the head.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from coldness.nets.base import shape_text


class Patched(Protocol):
    """What a masked autoencoder needs of an encoder."""

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches; there are N = rows * columns, row by row."""

    def patches(self, x: Tensor) -> Tensor:
        """Returns the pixels of the patches (B, N, P) of standardised images."""

    def embed(self, x: Tensor) -> Tensor:
        """Returns the embedded patches (B, N, D), with their positions."""

    def encode(self, tokens: Tensor) -> Tensor:
        """Returns the representations (B, n, D) of n <= N embedded patches."""


class Encoder(nn.Module, ABC):
    """Base class; a subclass defines `layers(shape)`.

    The constructor of a subclass also takes `shape`, None to take it from the data, and ends with
    `build(shape)` where it is given: a saved encoder is made again from its arguments alone.

    Args:
        latent: d, the dimension of the latent vector.
        hidden: width of the hidden layer of the head.
        input_mean: subtracted from the input.
        input_std: > 0, the input is divided by it. 0 and 0.5 are for images in [-1, 1].
    Shapes: x (B, C, H, W), features (B, F), result (B, d).
    """

    def __init__(
        self,
        latent: int = 128,
        hidden: int = 2048,
        input_mean: float = 0.0,
        input_std: float = 0.5,
    ) -> None:
        super().__init__()
        if min(latent, hidden) < 1:
            raise ValueError(f"latent and hidden must be >= 1, got {latent} and {hidden}")
        if not input_std > 0:
            raise ValueError(f"input_std must be > 0, got {input_std}")
        self.latent, self.hidden = latent, hidden
        self.input_mean, self.input_std = input_mean, input_std
        self.shape: tuple[int, int, int] | None = None
        self.body: nn.Module = nn.Sequential()
        self.head: nn.Module = nn.Sequential()
        self.feature_count = 0

    @property
    def patched(self) -> Patched | None:
        """This encoder if it takes subsets of the patches of an image, else None."""
        return None

    @abstractmethod
    def layers(self, shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
        """The body for images (C, H, W), and the number F of its features, which are in float32.

        Raises:
            ValueError: the encoder does not support this shape.
        """

    def build(self, shape: Sequence[int], outputs: int | None = None) -> None:
        """Build the layers for images of this shape; layers that are built already stay.

        Args:
            shape: (C, H, W).
            outputs: must be `latent`, if given.
        Raises:
            ValueError: the encoder does not support this shape, or was built for another one.
        """
        name = type(self).__name__
        if len(shape) != 3:
            raise ValueError(f"{name} needs images (C, H, W), got {shape_text(shape)}")
        if outputs not in (None, self.latent):
            raise ValueError(f"{name} has latent {self.latent}, but {outputs} outputs are needed")
        if self.shape is None:
            channels, height, width = shape
            self.body, features = self.layers((channels, height, width))
            self.head = nn.Sequential(
                nn.Linear(features, self.hidden, bias=False),
                nn.BatchNorm1d(self.hidden),
                nn.ReLU(),
                nn.Linear(self.hidden, self.latent),
            )
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.shape, self.feature_count = (channels, height, width), features
        if self.shape != tuple(shape):
            raise ValueError(
                f"the encoder was built for images {shape_text(self.shape)}, but the data has "
                f"{shape_text(shape)}"
            )

    def features(self, x: Tensor) -> Tensor:
        """Returns the features (B, F) that the head computes the latent vector from."""
        return self.body(self.standardised(x))

    def forward(self, x: Tensor) -> Tensor:
        features = self.features(x)
        with torch.autocast(x.device.type, enabled=False):
            return self.head(features)

    def standardised(self, x: Tensor) -> Tensor:
        """Returns the input of the body."""
        if self.shape is None:
            raise ValueError("the encoder has no layers yet: call build(shape)")
        x = x.contiguous(memory_format=torch.channels_last)
        return (x - self.input_mean) / self.input_std
