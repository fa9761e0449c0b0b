"""Metropolis-adjusted Langevin kernel.

    y = x - h M dU(x) + sqrt(2h) L xi,   accepted with min(1, exp(U(x) - U(y)) q(x|y) / q(y|x))

Leaves exp(-U) invariant. As h -> 0: the Langevin diffusion. With v = L^-1 (y - x), the noise of the
reverse move is xi' = (h L^T dU(y) - v) / sqrt(2h), and

    log q(x|y) / q(y|x) = (|xi|^2 - |xi'|^2) / 2.

Not to be confused with Langevin, which has no Metropolis test and an O(h) bias.
U and dU are carried over from the accepted state, so a step takes one gradient.

References:
    Exponential convergence of Langevin distributions and their discrete approximations
    (Roberts, Tweedie, 1996), section 1.4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.energies.coordinates import Coordinates
from coldness.kernels.base import (
    Field,
    Info,
    Kernel,
    State,
    draw_log_uniform,
    draw_normal,
    metropolis,
    total,
)


@dataclass(frozen=True)
class MALA(Kernel):
    """Langevin step with a Metropolis test.

    Args:
        step_size: h > 0, on the potential U.
    Shapes: x (B, ...), potentials (B,).
    """

    @property
    def affine(self) -> bool:
        return True

    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        return draw_normal(steps, x, generator), draw_log_uniform(steps, x, generator)

    def init(self, field: Field, x: Tensor) -> State:
        return (x, *field(x))

    def potential_in(self, state: State) -> Tensor:
        return state[1]

    def step(
        self, field: Field, state: State, noise: tuple[Tensor, ...], h: Tensor, at: Coordinates
    ) -> tuple[State, Info]:
        (x, potential, gradient), (xi, log_uniform) = state, noise
        s = (2 * h).sqrt()
        v = s * xi - h * at.pull(gradient)
        y = x + at.push(v)
        potential_y, gradient_y = field(y)
        xi_back = (h * at.pull(gradient_y) - v) / s
        log_ratio = potential - potential_y + (total(xi.square()) - total(xi_back.square())) / 2
        proposal = (y, potential_y, gradient_y)
        moved, acceptance = metropolis(state, proposal, log_ratio, log_uniform)
        return moved, Info(potential, gradient, acceptance)
