"""Langevin kernel, without a Metropolis test.

    x' = x - h M dU(x) + sqrt(2h) L xi,     M = L L^T

Nearly leaves exp(-U) invariant: the bias is O(h). On N(0, s^2) the stationary variance is
s^2 / (1 - h / (2 s^2)). As h -> 0: the Langevin diffusion.
Not to be confused with MALA, which rejects moves and has no bias, nor with stochastic-gradient
Langevin dynamics on parameters. A paper's chain x - a dE(x) + s xi is this kernel with h = s^2 / 2
at coldness 2 a / s^2.

CLEL's chain x - 100 clip(dE(x), +-100) + 0.001 xi on pixels in [0, 1] has drift 400 and noise 0.002
in [-1, 1]: h = 2e-6 at coldness 2e8, clip_drift 2e4 and clamp [-1, 1]. With that clamp the clip has
no effect: 2e4 and every larger drift carry a coordinate across the box, which is 2 wide, onto its
wall. Only a clip_drift below the width of the box limits a step.

References:
    Bayesian Learning via Stochastic Gradient Langevin Dynamics (Welling, Teh, 2011), Eq. 4.
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), Eq. 2A.
    Guiding Energy-based Models via Contrastive Latent Variables (Lee et al., 2023), reference code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coldness.energies.coordinates import Coordinates
from coldness.kernels.base import Field, Info, Kernel, State, draw_normal
from coldness.kernels.mala import MALA


@dataclass(frozen=True)
class Langevin(Kernel):
    """Unadjusted Langevin step.

    Args:
        step_size: h > 0, on the potential U.
        clamp: [low, high], to which every coordinate is cut after a step; None for no clamp.
            Changes the law.
        clip_gradient: largest norm of dU, per chain; None for no clipping. Changes the law.
        clip_drift: largest absolute value of each coordinate of the drift h M dU; None for no
            clipping. Changes the law.
    Shapes: x (B, ...), potentials (B,).
    """

    clamp: tuple[float, float] | None = None
    clip_gradient: float | None = None
    clip_drift: float | None = None
    adjusted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clamp is not None and not self.clamp[0] < self.clamp[1]:
            raise ValueError(f"clamp must be [low, high] with low < high, got {list(self.clamp)}")
        if self.clip_gradient is not None and not self.clip_gradient > 0:
            raise ValueError(f"clip_gradient must be > 0, got {self.clip_gradient}")
        if self.clip_drift is not None and not self.clip_drift > 0:
            raise ValueError(f"clip_drift must be > 0, got {self.clip_drift}")

    @property
    def affine(self) -> bool:
        return self.clamp is None and self.clip_gradient is None and self.clip_drift is None

    @property
    def box(self) -> tuple[float, float] | None:
        return self.clamp

    @property
    def has_twin(self) -> bool:
        return self.affine

    def adjusted_twin(self) -> Kernel:
        if not self.has_twin:
            raise ValueError(
                "a Langevin kernel with clamp, clip_gradient or clip_drift has no "
                "Metropolis-adjusted version, so there is no acceptance rate to adapt to"
            )
        return MALA(self.step_size)

    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (draw_normal(steps, x, generator),)

    def init(self, field: Field, x: Tensor) -> State:
        return (x,)

    def step(
        self, field: Field, state: State, noise: tuple[Tensor, ...], h: Tensor, at: Coordinates
    ) -> tuple[State, Info]:
        (x,), (xi,) = state, noise
        potential, gradient = field(x)
        force = gradient
        if self.clip_gradient is not None:
            norm = gradient.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.dim() - 1))
            force = gradient * (self.clip_gradient / norm).clamp(max=1)
        if self.clip_drift is None:
            x = x + at.push((2 * h).sqrt() * xi - h * at.pull(force))
        else:
            drift = at.push(h * at.pull(force)).clamp(-self.clip_drift, self.clip_drift)
            x = x + at.push((2 * h).sqrt() * xi) - drift
        if self.clamp is not None:
            x = x.clamp(*self.clamp)
        return (x,), Info(potential, gradient, torch.ones_like(potential))
