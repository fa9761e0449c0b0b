"""The work that all contenders do: the two-dimensional toy of the Anatomy paper.

    x <- x - a dE(x) + s xi,   E a network 2-32-64-64-64-1 with leaky ReLU of slope 0.05

with a = 1 and s = 0.05: step h = 0.00125 on U = 800 E. All contenders have the same weights, draw
their starts from N(0, I), and see fresh data from the same sampler.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from coldness.data import Mixture2D
from coldness.energies.base import DriftNoise

WIDTHS = (32, 64, 64, 64)
SLOPE = 0.05
SCALE = DriftNoise(drift=1.0, noise=0.05)
BATCH = 100
STEPS = 20
LEARNING_RATE = 1e-4

Chain = Callable[[], Tensor]
"""Starts and runs all chains once; gives where they ended, (B, 2)."""

Iteration = Callable[[], object]
"""One update of the network."""


def network() -> nn.Sequential:
    """(B, 2) to (B, 1), with the same weights at every call.

    The last layer is four times its usual size, so that the drift of a 20-step chain shows.
    """
    layers: list[nn.Module] = []
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for inputs, outputs in zip((2, *WIDTHS), (*WIDTHS, 1), strict=True):
            layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(SLOPE)]
    net = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter in net[-1].parameters():
            parameter.mul_(4)
    return net


def data() -> Callable[[], Tensor]:
    """A function that draws a fresh batch."""
    mixture, generator = Mixture2D(), torch.Generator().manual_seed(0)
    return lambda: mixture.sample(BATCH, generator)
