"""How curved a potential is over the length of a step, along its most curved direction.

    H v ~ (g(y + d v) - g(y - d v)) / 2d,     g = L^T dU,     d = sqrt(2h)

A step of size h is stable where h lambda < 2, with lambda the largest eigenvalue of the Hessian of
the potential that is followed: on U = lambda x^2 / 2 the Langevin step maps x to (1 - h lambda) x.
Leapfrog steps e are stable for e^2 lambda < 4 (Neal 2011, section 4.2), the same for h = e^2 / 2.

The eigenvalue is found by power iteration, for every example by itself: first the largest in size,
then, shifted by it, the largest of all, since only positive curvature makes steps overshoot. The
product with the Hessian is the secant above, over the displacement of a step, and not its
derivative: networks of piecewise linear layers have a Hessian of 0 almost everywhere and kinks
between, and what a step meets is the change of the gradient over its own length. On a quadratic
both are the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.energies import Energy
from coldness.kernels.run import frozen, tempered_field

LIMIT = 2.0
ITERATIONS = 12
"""Of each of the two power iterations. A Rayleigh quotient is off by the square of the error of its
direction: with eigenvalues 1 and 0.7 by less than a hundredth, with closer ones by less than they
differ; where the shift is needed, with 1 and 0.5."""


def gradient(energy: Energy, x: Tensor) -> Tensor:
    """L^T dU(x), in the coordinates that kernels move in, (B, ...)."""
    with frozen(list(energy.modules())), torch.no_grad():
        return energy.coordinates.pull(tempered_field(energy, x.new_ones(()))(x)[1])


def largest_curvature(
    energy: Energy, x: Tensor, displacement: float, generator: torch.Generator
) -> Tensor:
    """Largest eigenvalue at each of the examples x (B, ...), as above; (B,)."""
    v = _unit(torch.empty_like(x).normal_(generator=generator))
    for _ in range(ITERATIONS):
        v = _unit(_product(energy, x, v, displacement))
    curved = _product(energy, x, v, displacement)
    found = (v * curved).flatten(1).sum(1)
    shift = curved.flatten(1).norm(dim=1).reshape(-1, *[1] * (x.dim() - 1))
    v = _unit(torch.empty_like(x).normal_(generator=generator))
    for _ in range(ITERATIONS):
        v = _unit(_product(energy, x, v, displacement) + shift * v)
    shifted = (v * _product(energy, x, v, displacement)).flatten(1).sum(1)
    return torch.maximum(found, shifted)  # neither is above the largest eigenvalue


def _product(energy: Energy, x: Tensor, v: Tensor, displacement: float) -> Tensor:
    away = energy.coordinates.push(displacement * v)
    return (gradient(energy, x + away) - gradient(energy, x - away)) / (2 * displacement)


def _unit(v: Tensor) -> Tensor:
    """v / |v|; 0 where the potential is flat, which then counts as no curvature."""
    norm = v.flatten(1).norm(dim=1).reshape(-1, *[1] * (v.dim() - 1))
    return torch.where(norm > 0, v / norm, torch.where(norm == 0, 0.0, norm))
