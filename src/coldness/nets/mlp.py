"""Multilayer perceptron for vectors, optionally with Fourier features of its inputs.

    y  ->  y, sin(w y), cos(w y)   for w = 1, 2, 4, ..., 2^(K-1)       each input by itself

A plain network learns slow variation long before fast variation. In coordinates of unit scale,
K = 4 frequencies make variation within a tenth of the data's width as easy to learn as its overall
shape.

With widths 32, 64, 64, 64, leaky ReLU of slope 0.05 and two inputs this is the network of the
Anatomy paper's toy experiments (written there as 1x1 convolutions), with 10,593 parameters.

References:
    Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains
    (Tancik et al., 2020), section 5, positional encoding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with activations between them.

    Args:
        inputs: dimension D of an example; None to take it from the data, see `build`.
        widths: hidden widths.
        activation: `leaky_relu`, `silu` or `softplus`.
        slope: of the leaky ReLU, for negative inputs.
        frequencies: K >= 0, the number of frequencies; 0 for the inputs alone.
        zero_output: begin with a last layer of zeros, so that the output is 0 at first.
    Shapes: x (B, D), result (B, outputs) with `outputs` of `build`, by default 1.
    """

    def __init__(
        self,
        inputs: int | None = None,
        widths: Sequence[int] = (32, 64, 64, 64),
        activation: Literal["leaky_relu", "silu", "softplus"] = "leaky_relu",
        slope: float = 0.05,
        frequencies: int = 0,
        zero_output: bool = False,
    ) -> None:
        super().__init__()
        if (inputs is not None and inputs < 1) or not widths or min(widths) < 1:
            raise ValueError(f"inputs and widths must be >= 1, got {inputs} and {list(widths)}")
        if frequencies < 0:
            raise ValueError(f"frequencies must be >= 0, got {frequencies}")
        self.inputs: int | None = None
        self.frequencies = frequencies
        self.zero_output = zero_output
        self.widths, self.activation, self.slope = tuple(widths), activation, slope
        self.layers = nn.Sequential()
        if inputs is not None:
            self._make(inputs)

    def build(self, shape: tuple[int, ...], outputs: int = 1) -> None:
        """Build the layers for examples of this shape, which are flattened to vectors.

        Raises:
            ValueError: the network was built for another number of inputs.
        """
        inputs = math.prod(shape)
        if self.inputs is None or outputs != self.layers[-1].out_features:
            self._make(self.inputs or inputs, outputs)
        if self.inputs != inputs:
            raise ValueError(f"the network has {self.inputs} inputs, but the data has {inputs}")

    def _make(self, inputs: int, outputs: int = 1) -> None:
        layers: list[nn.Module] = []
        previous = inputs * (1 + 2 * self.frequencies)
        for width in self.widths:
            layers += [nn.Linear(previous, width), _activation(self.activation, self.slope)]
            previous = width
        last = nn.Linear(previous, outputs)
        if self.zero_output:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(*layers, last)
        self.inputs = inputs

    def forward(self, x: Tensor) -> Tensor:
        if self.inputs is None:
            raise ValueError("the network has no layers yet: give inputs, or call build(shape)")
        x = x.flatten(1)
        if self.frequencies:
            waves = torch.cat([2.0**k * x for k in range(self.frequencies)], 1)
            x = torch.cat([x, waves.sin(), waves.cos()], 1)
        return self.layers(x)


def _activation(name: str, slope: float) -> nn.Module:
    if name == "leaky_relu":
        return nn.LeakyReLU(slope)
    return nn.SiLU() if name == "silu" else nn.Softplus()
