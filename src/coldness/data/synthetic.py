"""Synthetic data with known densities: two in the plane, one in ten or any number of dimensions.

    mixture2d    8 Gaussians of sd 0.15 on the unit circle, with unequal weights
    rings2d      radii 1, 2, 3, 4 with radial noise 0.15
    rings10d     radii 1, 2, 3 with planar noise 0.1; sd 0.1 in dimension 3, 0.01 in 4 to 10
    embedded     the same in D >= 3 dimensions

Entropies are computed by numerical integration in float64, on a grid for the mixture and along the
radius for rings.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 4.1 (mixture2d with equal weights, rings2d).
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 4.1 (unequal
    weights; the paper does not give their values, ours rise from .02 to .2).
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), appendix A.1 (rings10d).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from coldness.data.base import KnownDensity
from coldness.energies.analytic import GaussianMixture, PlanarRings, RadialRings
from coldness.energies.base import Energy

UNEQUAL = (0.02, 0.04, 0.08, 0.12, 0.16, 0.18, 0.2, 0.2)


class Mixture2D(KnownDensity):
    """Mixture of 8 Gaussians on a circle.

    Args:
        weights: weights of the Gaussians, 8 numbers > 0 that sum to 1.
        equal_weights: whether to use weights of 1/8 instead.
        radius: radius of the circle, > 0.
        std: standard deviation of each Gaussian, > 0.
    """

    energy: GaussianMixture

    def __init__(
        self,
        weights: Sequence[float] = UNEQUAL,
        equal_weights: bool = False,
        radius: float = 1.0,
        std: float = 0.15,
    ) -> None:
        if not radius > 0:
            raise ValueError(f"radius must be > 0, got {radius}")
        angles = [2 * math.pi * k / 8 for k in range(8)]
        means = [[radius * math.cos(a), radius * math.sin(a)] for a in angles]
        self.energy = GaussianMixture(means, std, None if equal_weights else weights)
        self.box = radius + 4 * std
        self.local_scales = torch.full((2,), std)
        self._weights = self.energy.log_weights.exp()
        self._means = self.energy.means.float()

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)

    @cached_property
    def entropy(self) -> float:
        side = torch.linspace(-self.box - 1, self.box + 1, 1201, dtype=torch.float64)
        log_p = self.log_prob(torch.cartesian_prod(side, side))
        return -float((log_p.exp() * log_p).sum() * (side[1] - side[0]) ** 2)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        component = torch.multinomial(self._weights, count, replacement=True, generator=generator)
        noise = torch.randn(count, 2, generator=generator)
        return self._means[component] + self.energy.std * noise


class Rings2D(KnownDensity):
    """Rings with radial noise: r = r_k + std * xi, angle uniform.

    Args:
        radii: r_k, numbers > 0.
        std: standard deviation of the radius, > 0.
    """

    energy: RadialRings

    def __init__(self, radii: Sequence[float] = (1.0, 2.0, 3.0, 4.0), std: float = 0.15) -> None:
        self.energy = RadialRings(radii, std)
        self.box = max(radii) + 4 * std
        self.local_scales = torch.full((2,), std)
        self._radii = torch.tensor(list(radii))

    @property
    def shape(self) -> tuple[int, ...]:
        return (2,)

    @cached_property
    def entropy(self) -> float:
        return _planar_entropy(self.energy, self.box + 1)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        ring = torch.randint(len(self._radii), (count,), generator=generator)
        r = self._radii[ring] + self.energy.std * torch.randn(count, generator=generator)
        return r[:, None] * _directions(count, generator)


class EmbeddedRings(KnownDensity):
    """Rings in the first two of D dimensions, narrow Gaussians in the others.

        p(x) = p(x1, x2) N(x3; 0, std^2) prod_{k > 3} N(x_k; 0, narrow_std^2)

    The slice of p at x3 = ... = x_D = 0, normalised, is p(x1, x2): the density of `plane`.

    Args:
        dimensions: D, >= 3.
        radii: radii of the rings, > 0.
        std: standard deviation in the plane of the rings and in the third dimension, > 0.
        narrow_std: standard deviation in the remaining D - 3 dimensions, > 0.
    """

    energy: PlanarRings
    plane: PlanarRings

    def __init__(
        self,
        dimensions: int = 10,
        radii: Sequence[float] = (1.0, 2.0, 3.0),
        std: float = 0.1,
        narrow_std: float = 0.01,
    ) -> None:
        if dimensions < 3:
            raise ValueError(f"dimensions must be >= 3, got {dimensions}")
        narrow = [narrow_std] * (dimensions - 3)
        self.energy = PlanarRings(radii, std, [std, *narrow])
        self.plane = PlanarRings(radii, std)
        self.box = max(radii) + 4 * std
        self._radii = torch.tensor(list(radii))
        self.local_scales = torch.tensor([std] * 3 + narrow)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.local_scales),)

    @cached_property
    def entropy(self) -> float:
        others = sum(
            0.5 * math.log(2 * math.pi * math.e * s**2) for s in self.local_scales[2:].tolist()
        )
        return _planar_entropy(self.plane, self.box + 1) + others

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        x = self.local_scales * torch.randn(count, *self.shape, generator=generator)
        ring = torch.randint(len(self._radii), (count,), generator=generator)
        x[:, :2] += self._radii[ring][:, None] * _directions(count, generator)
        return x


class Rings10D(EmbeddedRings):
    """EmbeddedRings in ten dimensions, as in the paper.

    Args:
        radii: radii of the rings, > 0.
        std: standard deviation in the plane of the rings and in the third dimension, > 0.
        narrow_std: standard deviation in the remaining seven dimensions, > 0.
    """

    def __init__(
        self,
        radii: Sequence[float] = (1.0, 2.0, 3.0),
        std: float = 0.1,
        narrow_std: float = 0.01,
    ) -> None:
        super().__init__(10, radii, std, narrow_std)


def _directions(count: int, generator: torch.Generator) -> Tensor:
    """Draws points uniformly on the unit circle, (count, 2)."""
    angle = 2 * math.pi * torch.rand(count, generator=generator)
    return torch.stack([angle.cos(), angle.sin()], 1)


def _planar_entropy(energy: Energy, farthest: float) -> float:
    """Integrates -2 pi r p(r) log p(r) for a normalised energy that depends on r only."""
    r = torch.linspace(0, farthest, 200_001, dtype=torch.float64)[1:]
    with torch.no_grad():
        log_p = -energy(torch.stack([r, torch.zeros_like(r)], 1))
    return -float(torch.trapezoid(2 * math.pi * r * log_p.exp() * log_p, r))
