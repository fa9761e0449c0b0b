"""The largest curvature of a potential, measured over the length of a step.

    H v ~ (g(y + d v) - g(y - d v)) / 2d,     g = L^T dU,     d = sqrt(2h)

A step of size h is stable if h lambda < 2, with lambda the largest eigenvalue of the Hessian of the
potential that chains follow: on U = lambda x^2 / 2 the Langevin step maps x to (1 - h lambda) x.
Leapfrog steps e are stable for e^2 lambda < 4 (Neal 2011, section 4.2), the same for h = e^2 / 2.

Power iteration finds the eigenvalue for every example separately: first the largest in absolute
value, then, shifted by it, the largest, because only positive curvature makes steps overshoot. The
product with the Hessian is the secant above, over the displacement of a step, and not a derivative:
networks of piecewise linear layers have a Hessian of 0 almost everywhere and kinks in between, and
a step is affected by the change of the gradient over its own length. On a quadratic potential both
are equal.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.energies import Energy
from coldness.kernels.run import frozen, tempered_field

LIMIT = 2.0
ITERATIONS = 12
"""Length of each of the two power iterations. The error of a Rayleigh quotient is quadratic in that
of its direction: less than a hundredth for eigenvalues 1 and 0.7, and less than their difference
for closer ones; with the shift, less than a hundredth for 1 and 0.5."""


def gradient(energy: Energy, x: Tensor) -> Tensor:
    """L^T dU(x), in the coordinates of the kernels, (B, ...)."""
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
    """v / |v|; 0 if the potential is flat, which counts as no curvature."""
    norm = v.flatten(1).norm(dim=1).reshape(-1, *[1] * (v.dim() - 1))
    return torch.where(norm > 0, v / norm, torch.where(norm == 0, 0.0, norm))
