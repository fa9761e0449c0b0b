"""Multilayer perceptron for vectors.

With widths 32, 64, 64, 64, leaky ReLU of slope 0.05 and two inputs this is the network of the
Anatomy paper's toy experiments (there written as 1x1 convolutions), with 10,593 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with an activation between them, one output.

    Args:
        inputs: dimension D of an example.
        widths: hidden widths.
        activation: `leaky_relu`, `silu` or `softplus`.
        slope: of the leaky ReLU, for negative inputs.
    Shapes: x (B, D), result (B, 1).
    """

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int] = (32, 64, 64, 64),
        activation: Literal["leaky_relu", "silu", "softplus"] = "leaky_relu",
        slope: float = 0.05,
    ) -> None:
        super().__init__()
        if inputs < 1 or not widths or min(widths) < 1:
            raise ValueError(f"inputs and widths must be >= 1, got {inputs} and {list(widths)}")
        layers: list[nn.Module] = []
        previous = inputs
        for width in widths:
            layers += [nn.Linear(previous, width), _activation(activation, slope)]
            previous = width
        self.layers = nn.Sequential(*layers, nn.Linear(previous, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def _activation(name: str, slope: float) -> nn.Module:
    if name == "leaky_relu":
        return nn.LeakyReLU(slope)
    return nn.SiLU() if name == "silu" else nn.Softplus()
