"""Hamiltonian Monte Carlo kernel.

    H(x, p) = U(x) + |p|^2 / 2,   p ~ N(0, I) in the whitened coordinates
    n leapfrog steps:  p -= e/2 L^T dU(x);  x += e L p;  p -= e/2 L^T dU(x)
    accepted with min(1, exp(H - H'))

Leaves exp(-U) invariant. With one leapfrog step it is MALA with h = e^2 / 2.
Not to be confused with Langevin, whose single step is never rejected. `step_size` is the leapfrog
step e. Half steps between two full steps are merged, and U and dU are carried over, so a transition
of n leapfrog steps takes n gradients.

References:
    MCMC using Hamiltonian dynamics (Neal, 2011), sections 2.3 and 3.2, Fig. 2.
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
class HMC(Kernel):
    """Leapfrog trajectory with a Metropolis test.

    Args:
        step_size: leapfrog step e > 0.
        leapfrog_steps: n >= 1, the number of gradients per transition.
    Shapes: x (B, ...), potentials (B,).
    """

    leapfrog_steps: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leapfrog_steps < 1:
            raise ValueError(f"leapfrog_steps must be >= 1, got {self.leapfrog_steps}")

    @property
    def gradients_per_step(self) -> int:
        return self.leapfrog_steps

    @property
    def langevin_step(self) -> float:
        return self.step_size**2 / 2

    @classmethod
    def step_for_noise(cls, noise: float) -> float:
        """The leapfrog step e = s: its noise per step has standard deviation e."""
        return noise

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
        (_, potential, gradient), (p, log_uniform) = state, noise
        proposal, p_end = leapfrog(field, state, p, h, at, self.leapfrog_steps)
        kinetic, kinetic_end = total(p.square()) / 2, total(p_end.square()) / 2
        log_ratio = potential + kinetic - proposal[1] - kinetic_end
        moved, acceptance = metropolis(state, proposal, log_ratio, log_uniform)
        return moved, Info(potential, gradient, acceptance)


def leapfrog(
    field: Field, state: State, p: Tensor, e: Tensor, at: Coordinates, steps: int
) -> tuple[State, Tensor]:
    """The end of the trajectory, (x, U, dU), and its momentum in the whitened coordinates."""
    x, potential, gradient = state
    p = p - e / 2 * at.pull(gradient)
    for k in range(steps):
        x = x + at.push(e * p)
        potential, gradient = field(x)
        p = p - (e if k + 1 < steps else e / 2) * at.pull(gradient)
    return (x, potential, gradient), p
