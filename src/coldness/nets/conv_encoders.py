"""Convolutional encoders with batch norm: ResNet-18 for small images, and a smaller one for CPUs.

    ResNet-18   conv 3x3, w; norm, ReLU; four stages of two blocks, widths w, 2w, 4w, 8w,
                strides 1, 2, 2, 2; mean over positions               w = 64: 512 features
      block     y = ReLU(norm(conv 3x3 (ReLU(norm(conv 3x3 (x))))) + x)
                if the shape changes, a strided 1x1 convolution of x with norm replaces x

    small       conv 3x3 with norm and ReLU: w, 2w stride 2, 4w stride 2, 4w;
                mean over positions                                   w = 32: 128 features

ResNet-18 has the form that is usual for images of 32 x 32: its first convolution has no stride, and
no max-pooling follows. The last norm of a block is initialised to zero, so that a new block is its
shortcut. Convolutions have no bias.

References:
    Deep Residual Learning for Image Recognition (He et al., 2016), Table 1.
    A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020),
    appendix B.9, for the form without stride and max-pooling.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix B and
    its code.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from coldness.nets.base import PreciseMean
from coldness.nets.encoder import Encoder


class ResNet18Encoder(Encoder):
    """ResNet-18 for small images.

    Args:
        latent: d, the dimension of the latent vector.
        width: w, the channels of the first stage; 64 is ResNet-18.
        hidden: width of the hidden layer of the head.
        input_mean: subtracted from the input.
        input_std: > 0, the input is divided by it. 0 and 0.5 are for images in [-1, 1].
        shape: of images (C, H, W); None to take it from the data.
    Shapes: x (B, C, H, W) of at least 8 x 8, features (B, 8w), result (B, d).
    """

    def __init__(
        self,
        latent: int = 128,
        width: int = 64,
        hidden: int = 2048,
        input_mean: float = 0.0,
        input_std: float = 0.5,
        shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__(latent, hidden, input_mean, input_std)
        self.width = _checked(width)
        if shape is not None:
            self.build(shape)

    def layers(self, shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
        _check_size("ResNet18Encoder", shape)
        body, inputs = [_unit(shape[0], self.width)], self.width
        for stage in range(4):
            outputs = 2**stage * self.width
            body += [
                BasicBlock(inputs, outputs, 2 if stage else 1),
                BasicBlock(outputs, outputs, 1),
            ]
            inputs = outputs
        return nn.Sequential(*body, PreciseMean()), inputs


class SmallEncoder(Encoder):
    """Four convolutions, for images of 8 x 8 to 32 x 32 on a CPU.

    Args:
        latent: d, the dimension of the latent vector.
        width: w, the channels of the first convolution.
        hidden: width of the hidden layer of the head.
        input_mean: subtracted from the input.
        input_std: > 0, the input is divided by it. 0 and 0.5 are for images in [-1, 1].
        shape: of images (C, H, W); None to take it from the data.
    Shapes: x (B, C, H, W) of at least 8 x 8, features (B, 4w), result (B, d).
    """

    def __init__(
        self,
        latent: int = 128,
        width: int = 32,
        hidden: int = 256,
        input_mean: float = 0.0,
        input_std: float = 0.5,
        shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__(latent, hidden, input_mean, input_std)
        self.width = _checked(width)
        if shape is not None:
            self.build(shape)

    def layers(self, shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
        _check_size("SmallEncoder", shape)
        w = self.width
        body = nn.Sequential(
            _unit(shape[0], w), _unit(w, 2 * w, 2), _unit(2 * w, 4 * w, 2), _unit(4 * w, 4 * w)
        )
        return nn.Sequential(*body, PreciseMean()), 4 * w


class BasicBlock(nn.Module):
    """The block of ResNet-18.

    Args:
        inputs: number of input channels.
        outputs: number of output channels.
        stride: of the first convolution.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _unit(inputs, outputs, stride)
        self.second = nn.Sequential(_conv(outputs, outputs, 3), norm := nn.BatchNorm2d(outputs))
        nn.init.zeros_(norm.weight)
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride != 1:
            conv = _conv(inputs, outputs, 1)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(outputs))
        self.stride = stride
        self.last = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        # The stride of the shortcut is a slice. In torch 2.13, the backward pass of a strided 1x1
        # convolution of fewer than 16 channels in channels_last writes out of bounds on processors
        # with AVX2 or AVX-512, and something else crashes, later.
        strided = x[..., :: self.stride, :: self.stride]
        return self.last(self.second(self.first(x)) + self.shortcut(strided))


def _unit(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    """Convolution 3x3, norm, ReLU."""
    norm = nn.BatchNorm2d(outputs)
    return nn.Sequential(_conv(inputs, outputs, 3, stride), norm, nn.ReLU(inplace=True))


def _conv(inputs: int, outputs: int, side: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return conv


def _checked(width: int) -> int:
    if width < 1:
        raise ValueError(f"width must be >= 1, got {width}")
    return width


def _check_size(name: str, shape: tuple[int, int, int]) -> None:
    if min(shape[1:]) < 8:
        raise ValueError(f"{name} needs images of at least 8 x 8, got {shape[1]} x {shape[2]}")
