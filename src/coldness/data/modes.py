"""Separated modes of unequal mass, in any number of dimensions.

    p(x) = sum_k w_k N(x1; m_k, s^2) prod_{j > 1} N(x_j; 0, s^2)

The means m_k lie at equal distances on the first axis, around 0. At a distance of 12 s the
potential between two modes rises 18 nats above their bottoms: local moves do not cross it, so what
a method learns about the weights w_k, it learns without chains that cross.

The other dimensions are independent, so the entropy is that of the first, integrated in float64,
and those of D - 1 Gaussians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from coldness.data.base import KnownDensity
from coldness.energies.analytic import GaussianMixture

LEAST_DISTANCE = 6
"""Least distance of neighbouring modes in standard deviations, at which regions and components
differ by at most 0.3% of the mass."""


class SeparatedModes(KnownDensity):
    """Gaussians of unequal weights on a line, in D dimensions.

    Args:
        dimensions: D, >= 1.
        shares: w_k, at least two numbers > 0 that sum to 1.
        distance: of neighbouring means, at least 6 standard deviations.
        std: s, the standard deviation in every dimension, > 0.
    """

    energy: GaussianMixture
    mode_shares: Tensor

    def __init__(
        self,
        dimensions: int = 2,
        shares: Sequence[float] = (0.75, 0.25),
        distance: float = 4.0,
        std: float = 1 / 3,
    ) -> None:
        if dimensions < 1:
            raise ValueError(f"dimensions must be >= 1, got {dimensions}")
        if len(shares) < 2:
            raise ValueError(f"shares must be at least two numbers, got {len(shares)}")
        if not distance >= LEAST_DISTANCE * std * (1 - 1e-9):
            raise ValueError(f"distance must be >= {LEAST_DISTANCE} std, got {distance}")
        self._means = [distance * (k - (len(shares) - 1) / 2) for k in range(len(shares))]
        others = [0.0] * (dimensions - 1)
        self.energy = GaussianMixture([[m, *others] for m in self._means], std, shares)
        self.box = self._means[-1] + 5 * std
        self.local_scales = torch.full((dimensions,), std)
        self.mode_shares = self.energy.log_weights.exp()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.local_scales.shape)

    @cached_property
    def entropy(self) -> float:
        std = self.energy.std
        line = GaussianMixture([[m] for m in self._means], std, self.mode_shares.tolist())
        x = torch.linspace(-self.box - 3 * std, self.box + 3 * std, 20_001, dtype=torch.float64)
        log_p = -line(x[:, None])
        others = (len(self.local_scales) - 1) * math.log(2 * math.pi * math.e * std**2) / 2
        return others - float(torch.trapezoid(log_p.exp() * log_p, x))

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        mode = torch.multinomial(self.mode_shares, count, replacement=True, generator=generator)
        x = self.energy.std * torch.randn(count, *self.shape, generator=generator)
        x[:, 0] += torch.tensor(self._means)[mode]
        return x

    def mode_of(self, x: Tensor) -> Tensor:
        """The mode whose mean is nearest on the first axis."""
        means = torch.tensor(self._means, dtype=x.dtype, device=x.device)
        return (x[:, :1] - means).abs().argmin(1)
