"""Energies with a known normalising constant, for checking samplers and evaluations.

    Gaussian          E(x) = (x - m)^T S^-1 (x - m) / 2           log Z at coldness 1 in each
    GaussianMixture   E(x) = -log sum_k w_k N(x; m_k, s^2 I)      log Z = 0
    Rings             E(x) = -log sum_k w_k g(|x|; r_k, s)        log Z = 0

log Z is known at coldness 1, and for the Gaussian at every coldness. All tensors are float64
buffers; call `.to(dtype)` for another dtype.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 4.1, for the mixture and the radial rings.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), appendix A.1, for rings with planar noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from coldness.energies.base import Energy


def checked_weights(weights: Sequence[float] | None, count: int) -> Tensor:
    """Returns mixture weights, > 0 with sum 1, as a tensor; None gives equal weights."""
    if weights is None:
        return torch.full((count,), 1 / count, dtype=torch.float64)
    given = torch.tensor(list(weights), dtype=torch.float64)
    if len(given) != count:
        raise ValueError(f"got {len(given)} weights for {count} components: give one per component")
    if not bool((given > 0).all()) or abs(float(given.sum()) - 1) > 1e-9:
        raise ValueError(f"weights must be > 0 and sum to 1, got a sum of {float(given.sum()):g}")
    return given


class Gaussian(Energy):
    """Gaussian with mean m and covariance S.

    Args:
        mean: m, D numbers.
        covariance: S, D rows of D numbers.
        coldness: c, > 0; exp(-c E) is a Gaussian with covariance S / c.
    """

    mean: Tensor
    factor: Tensor

    def __init__(
        self, mean: Sequence[float], covariance: Sequence[Sequence[float]], coldness: float = 1.0
    ) -> None:
        super().__init__(coldness)
        self.register_buffer("mean", torch.tensor(list(mean), dtype=torch.float64))
        matrix = torch.tensor([list(row) for row in covariance], dtype=torch.float64)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if int(failed):
            raise ValueError("covariance must be positive definite")
        self.register_buffer("factor", factor)

    def energy(self, x: Tensor) -> Tensor:
        white = torch.linalg.solve_triangular(self.factor, (x - self.mean).T, upper=False)
        return white.square().sum(0) / 2

    @property
    def log_z(self) -> float:
        dimension = len(self.mean)
        log_det = float(self.factor.diagonal().log().sum())
        return dimension / 2 * math.log(2 * math.pi / self.coldness) + log_det


class GaussianMixture(Energy):
    """Mixture of isotropic Gaussians with a common standard deviation.

    Args:
        means: m_k, K rows of D numbers.
        std: s, the standard deviation, > 0.
        weights: w_k, K numbers > 0 that sum to 1; None for equal weights.
    """

    means: Tensor
    log_weights: Tensor

    def __init__(
        self, means: Sequence[Sequence[float]], std: float, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        if not std > 0:
            raise ValueError(f"std must be > 0, got {std}")
        centres = torch.tensor([list(row) for row in means], dtype=torch.float64)
        self.std = float(std)
        self.register_buffer("means", centres)
        self.register_buffer("log_weights", checked_weights(weights, len(centres)).log())

    def energy(self, x: Tensor) -> Tensor:
        squares = (x[:, None] - self.means).square().sum(2)
        constant = self.means.shape[1] * (math.log(self.std) + math.log(2 * math.pi) / 2)
        return constant - torch.logsumexp(self.log_weights - squares / (2 * self.std**2), 1)

    @property
    def log_z(self) -> float:
        return 0.0


class RadialRings(Energy):
    """Rings in the plane whose radius is Gaussian: r = |r_k + s xi|, angle uniform.

        p(x) = sum_k w_k [N(r; r_k, s^2) + N(-r; r_k, s^2)] / (2 pi r),     r = |x|

    This is the exact density of the sampler r = |r_k + s xi|. Not to be confused with
    `PlanarRings`, whose noise is in the plane and whose density at the centre is finite.

    Args:
        radii: r_k, numbers > 0.
        std: s, the standard deviation of the radius, > 0.
        weights: w_k, one number > 0 per radius, with sum 1; None for equal weights.
    """

    radii: Tensor
    log_weights: Tensor

    def __init__(
        self, radii: Sequence[float], std: float, weights: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        if not std > 0 or min(radii) <= 0:
            raise ValueError("radii and std must be > 0")
        self.std = float(std)
        self.register_buffer("radii", torch.tensor(list(radii), dtype=torch.float64))
        self.register_buffer("log_weights", checked_weights(weights, len(self.radii)).log())

    def energy(self, x: Tensor) -> Tensor:
        r = x.square().sum(1).sqrt()
        signed = torch.stack([r, -r], 1)[:, :, None]
        exponent = self.log_weights - (signed - self.radii).square() / (2 * self.std**2)
        constant = math.log(self.std) + 1.5 * math.log(2 * math.pi)
        return constant + r.log() - torch.logsumexp(exponent.flatten(1), 1)

    @property
    def log_z(self) -> float:
        return 0.0


class PlanarRings(Energy):
    """Rings in two dimensions with planar Gaussian noise, and Gaussians in all other dimensions.

        p(x1, x2) = sum_k w_k exp(-(l - r_k)^2 / (2 s^2)) i0e(r_k l / s^2) / (2 pi s^2)

    with l = |(x1, x2)|. The Gaussians have mean 0.

    Args:
        radii: r_k, numbers > 0.
        std: s, the standard deviation of the noise in the plane, > 0.
        other_stds: standard deviations of the dimensions after the second.
        weights: w_k, one number > 0 per radius, with sum 1; None for equal weights.
    """

    radii: Tensor
    log_weights: Tensor
    other_stds: Tensor

    def __init__(
        self,
        radii: Sequence[float],
        std: float,
        other_stds: Sequence[float] = (),
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if not std > 0 or min(radii) <= 0 or min(other_stds, default=1.0) <= 0:
            raise ValueError("radii and standard deviations must be > 0")
        self.std = float(std)
        self.register_buffer("radii", torch.tensor(list(radii), dtype=torch.float64))
        self.register_buffer("log_weights", checked_weights(weights, len(self.radii)).log())
        self.register_buffer("other_stds", torch.tensor(list(other_stds), dtype=torch.float64))

    def energy(self, x: Tensor) -> Tensor:
        # The gradient of the square root is infinite at 0. Clamping to the smallest positive
        # number keeps it finite.
        length = x[:, :2].square().sum(1).clamp_min(torch.finfo(x.dtype).tiny).sqrt()[:, None]
        bessel = torch.special.i0e(self.radii * length / self.std**2).log()
        exponent = self.log_weights - (length - self.radii).square() / (2 * self.std**2) + bessel
        planar = math.log(2 * math.pi * self.std**2) - torch.logsumexp(exponent, 1)
        others = (x[:, 2:] / self.other_stds).square().sum(1) / 2
        constant = self.other_stds.log().sum() + len(self.other_stds) / 2 * math.log(2 * math.pi)
        return planar + others + constant

    @property
    def log_z(self) -> float:
        return 0.0
