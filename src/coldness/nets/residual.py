"""The residual network of CLEL: pre-activation blocks, average pooling, spectral normalisation.

    stem    conv 3x3, C -> n_1
    stages  one for each width, of `blocks` blocks; average pooling by 2 before all but the first
    block   y = conv 3x3 (a(conv 3x3 (a(x)))) + x
            if the width changes, a 1x1 convolution of x without bias replaces x
    head    a, mean over positions; linear to `hidden`, a, linear to the outputs

Convolutions are spectrally normalised, shortcuts included, and linear layers are not. There are no
norm layers. The input is standardised by constants. The activation before the mean over positions
is in the reference code, though not in the paper's table.

With several scales there is one such network, without its head, for each of x, x averaged over 2x2
and x averaged over 4x4 pixels; their features are concatenated before the linear layers.

Sizes for images of 3 x 32 x 32 and 128 outputs, in parameters:

    small                 widths 64, 64, 128, 128     1 block                   1.20 million
    base                  widths 128, 128, 256, 256   2 blocks                  6.43 million
    multi-scale base      widths 128, 128, 256, 256   2 blocks     3 scales    18.77 million
    large                 widths 256, 256, 256, 256   2 blocks     3 scales    30.18 million

The counts in the paper include the projector of the energy, 0.52 million.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix B,
    Table 8, and its code.
    Implicit Generation and Modeling with Energy-Based Models (Du, Mordatch, 2019).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coldness.nets.base import Activation, Convolutional, PreciseMean, activation
from coldness.nets.spectral import SpectralConv2d


class ResidualNet(Convolutional):
    """Residual blocks in stages, on one or several scales of the image.

    Args:
        widths: channels of each stage.
        blocks: number of blocks per stage.
        hidden: width of the hidden layer of the head.
        scales: number of resolutions, each half of the one before, with a network of its own.
        spectral_norm: whether convolutions are spectrally normalised.
        activation: `leaky_relu` or `silu`.
        slope: of the leaky ReLU, for negative inputs.
        input_mean: subtracted from the input.
        input_std: > 0, the input is divided by it. 0 and 0.5 are for images in [-1, 1]; 0 and 1 for
            whitened coordinates.
        linear_std: standard deviation of the initial weights of linear layers. None for
            sqrt(1.5 / inputs), which keeps the scale of the features, so that small networks learn
            from the first update; 0.01 is that of the paper.
    Shapes: x (B, C, H, W) of at least 2^(stages + scales - 2) pixels a side; result (B, 1), or
        (B, K).
    """

    def __init__(
        self,
        widths: Sequence[int] = (64, 64, 128, 128),
        blocks: int = 1,
        hidden: int = 2048,
        scales: int = 1,
        spectral_norm: bool = True,
        activation: Activation = "leaky_relu",
        slope: float = 0.2,
        input_mean: float = 0.0,
        input_std: float = 0.5,
        linear_std: float | None = 0.01,
    ) -> None:
        super().__init__()
        if not widths or min(*widths, blocks, hidden, scales) < 1:
            raise ValueError(
                "widths, blocks, hidden and scales must be >= 1, got "
                f"{list(widths)}, {blocks}, {hidden} and {scales}"
            )
        if not input_std > 0 or (linear_std is not None and not linear_std > 0):
            raise ValueError(
                f"input_std and linear_std must be > 0, got {input_std} and {linear_std}"
            )
        self.widths, self.blocks, self.hidden, self.scales = tuple(widths), blocks, hidden, scales
        self.spectral_norm, self.activation, self.slope = spectral_norm, activation, slope
        self.input_mean, self.input_std, self.linear_std = input_mean, input_std, linear_std

    def layers(self, shape: tuple[int, int, int], outputs: int) -> tuple[nn.Module, nn.Module]:
        side = 2 ** (len(self.widths) + self.scales - 2)
        if min(shape[1:]) < side:
            raise ValueError(
                f"ResidualNet with {len(self.widths)} stages and scales {self.scales} needs images "
                f"of at least {side} x {side}, got {shape[1]} x {shape[2]}"
            )
        trunks = [self._trunk(shape[0]) for _ in range(self.scales)]
        head = nn.Sequential(
            self._linear(self.scales * self.widths[-1], self.hidden),
            self._activation(inplace=True),
            self._linear(self.hidden, outputs),
        )
        return Scales(trunks, self.input_mean, self.input_std), head

    def _trunk(self, channels: int) -> nn.Module:
        """Stem and stages for one scale."""
        trunk: list[nn.Module] = [self._conv(channels, self.widths[0], 3)]
        inputs = self.widths[0]
        for stage, width in enumerate(self.widths):
            if stage:
                trunk.append(nn.AvgPool2d(2))
            for _ in range(self.blocks):
                trunk.append(self._block(inputs, width))
                inputs = width
        return nn.Sequential(*trunk, self._activation(inplace=True))

    def _block(self, inputs: int, outputs: int) -> Block:
        shortcut = nn.Identity() if inputs == outputs else self._conv(inputs, outputs, 1, False)
        # The first activation must not overwrite x, which the shortcut needs.
        return Block(
            self._activation(),
            self._conv(inputs, outputs, 3),
            self._activation(inplace=True),
            self._conv(outputs, outputs, 3),
            shortcut,
        )

    def _conv(self, inputs: int, outputs: int, side: int, bias: bool = True) -> nn.Module:
        """A convolution that keeps the size: weights N(0, 1 / fan_in), zero bias."""
        conv = nn.Conv2d(inputs, outputs, side, padding=side // 2, bias=bias)
        nn.init.kaiming_normal_(conv.weight, nonlinearity="linear")
        if conv.bias is not None:
            nn.init.zeros_(conv.bias)
        return SpectralConv2d(conv) if self.spectral_norm else conv

    def _linear(self, inputs: int, outputs: int) -> nn.Module:
        layer = nn.Linear(inputs, outputs)
        nn.init.normal_(layer.weight, 0.0, self.linear_std or math.sqrt(1.5 / inputs))
        nn.init.zeros_(layer.bias)
        return layer

    def _activation(self, inplace: bool = False) -> nn.Module:
        return activation(self.activation, self.slope, inplace)


class Block(nn.Module):
    """One residual block: the path through its two convolutions, and the shortcut.

    Args:
        before: activation of x; must not overwrite x.
        first: convolution.
        between: activation.
        second: convolution.
        shortcut: of x.
    """

    def __init__(
        self,
        before: nn.Module,
        first: nn.Module,
        between: nn.Module,
        second: nn.Module,
        shortcut: nn.Module,
    ) -> None:
        super().__init__()
        self.path = nn.Sequential(before, first, between, second)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        return self.path(x) + self.shortcut(x)


class Scales(nn.Module):
    """Networks on x, x averaged over 2x2 pixels, and so on; their mean features, concatenated.

    Args:
        trunks: one network for each scale, from (B, C, h, w) to (B, F, h', w').
        mean: subtracted from the input.
        std: the input is divided by it.
    Shapes: x (B, C, H, W), result (B, scales * F).
    """

    def __init__(self, trunks: Sequence[nn.Module], mean: float, std: float) -> None:
        super().__init__()
        self.trunks = nn.ModuleList(trunks)
        self.pool, self.halve = PreciseMean(), nn.AvgPool2d(2)
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.mean) / self.std
        features = []
        for k, trunk in enumerate(self.trunks):
            x = self.halve(x) if k else x
            features.append(self.pool(trunk(x)))
        return torch.cat(features, 1)
