"""Base of convolutional backbones: layers built for the shape of the data, and a precise head.

    f(x) = head(body(x))          body: convolutions;  head: pooling and linear layers

Under `torch.autocast` the body computes in bfloat16, which has 8 significant bits, and the head in
float32: energies are multiplied by the coldness, 20,000 in JEM, so that their last bits are worth
nats. Outside of autocast everything is in the dtype of the weights.

Weights and activations are stored channels last. CPU time of one Langevin step of WRN-10-2 (batch
64, 32 x 32, one thread, avx512_bf16), in milliseconds:

                      float32   bfloat16
    channels first      261       136
    channels last       210       112
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

Activation = Literal["leaky_relu", "silu"]


class Convolutional(nn.Module, ABC):
    """Base class; a subclass defines `layers(shape, outputs)`.

    Shapes: x (B, C, H, W), result (B, K) with K = `outputs` of `build`, by default 1.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shape: tuple[int, ...] | None = None
        self.outputs = 0
        self.body: nn.Module = nn.Sequential()
        self.head: nn.Module = nn.Sequential()

    @abstractmethod
    def layers(self, shape: tuple[int, int, int], outputs: int) -> tuple[nn.Module, nn.Module]:
        """Body and head for examples (C, H, W).

        Raises:
            ValueError: the network does not support this shape.
        """

    def build(self, shape: tuple[int, ...], outputs: int = 1) -> None:
        """Build the layers for examples of this shape.

        Raises:
            ValueError: the network does not support this shape, or was built for another one.
        """
        if len(shape) != 3:
            raise ValueError(
                f"{type(self).__name__} needs images (C, H, W), got {shape_text(shape)}"
            )
        if self.shape is None or outputs != self.outputs:
            channels, height, width = self.shape or shape
            self.body, self.head = self.layers((channels, height, width), outputs)
            self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.shape, self.outputs = (channels, height, width), outputs
        if self.shape != tuple(shape):
            built = shape_text(self.shape)
            raise ValueError(
                f"the network was built for images {built}, but the data has {shape_text(shape)}"
            )

    def forward(self, x: Tensor) -> Tensor:
        if self.shape is None:
            raise ValueError("the network has no layers yet: call build(shape)")
        features = self.body(x.contiguous(memory_format=torch.channels_last))
        with torch.autocast(x.device.type, enabled=False):
            return self.head(features.to(next(self.head.parameters()).dtype)).flatten(1)


class MeanOverPositions(nn.Module):
    """(B, C, H, W) to (B, C, 1, 1).

    Positions are averaged as rows of channels, their order in memory, so that the gradient has the
    same order. That of `AdaptiveAvgPool2d` does not, and the backward pass of the activation before
    it then takes twenty times as long: 2% of a Langevin step of WRN-10-2.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1).flatten(1, 2).mean(1)[:, :, None, None]


class PreciseMean(nn.Module):
    """(B, C, H, W) to (B, C): the mean over positions, in float32 or better under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = MeanOverPositions()

    def forward(self, x: Tensor) -> Tensor:
        return self.mean(x.to(torch.promote_types(x.dtype, torch.float32))).flatten(1)


def activation(name: Activation, slope: float, inplace: bool = False) -> nn.Module:
    """The activation layer with this name.

    Args:
        name: `leaky_relu` or `silu`.
        slope: of the leaky ReLU, for negative inputs.
        inplace: overwrite the input if the backward pass needs only the output. Saves memory and
            time; for inputs that nothing else reads.
    """
    return nn.LeakyReLU(slope, inplace and slope > 0) if name == "leaky_relu" else nn.SiLU()


def check_square(shape: tuple[int, int, int], net: str, sides: str, fits: bool) -> None:
    """Raise ValueError unless images are square and `fits` is true."""
    if shape[1] != shape[2] or not fits:
        raise ValueError(
            f"{net} needs square images with a side of {sides} pixels, got {shape_text(shape)}"
        )


def shape_text(shape: Sequence[int]) -> str:
    """(3, 32, 32), for messages."""
    return "(" + ", ".join(map(str, shape)) + ")"
