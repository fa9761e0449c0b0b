"""How right a density is: integrals on a grid in the plane, in float64.

    log Z         = log sum exp(-U) dA
    KL(p_d | p)   = sum p_d (log p_d - log p) dA          nats
    KL(p | p_d)   = sum p (log p - log p_d) dA
    TV            = sum |p_d - p| dA / 2

The grid covers more than the data's box, and the share of the model's mass outside the box is a
figure of its own: a model that puts its mass where no data is must not look right because nobody
looked there.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coldness.data import KnownDensity
from coldness.energies import Energy

POINTS_AT_ONCE = 20_000


def log_density_on_grid(energy: Energy, side: Tensor) -> tuple[Tensor, float]:
    """Normalised log p on side x side, (G, G) in float64, and log Z."""
    parameter = next(energy.parameters(), torch.empty(0))
    points = torch.cartesian_prod(side, side)
    with torch.no_grad():
        pieces = [
            energy(part.to(parameter)).double().cpu() for part in points.split(POINTS_AT_ONCE)
        ]
    potential = torch.cat(pieces).reshape(len(side), len(side))
    log_z = float(torch.logsumexp(-potential.flatten(), 0)) + 2 * math.log(float(side[1] - side[0]))
    return -potential - log_z, log_z


def compare_on_grid(
    energy: Energy, data: KnownDensity, points: int, widening: float
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Figures (kl, reverse_kl, tv, log_z, mass_outside) and the grids behind them."""
    edge = widening * data.box
    # Midpoints of equal cells: an even number of them never meets the singular centre of rings.
    cell = 2 * edge / points
    side = torch.arange(points, dtype=torch.float64) * cell - edge + cell / 2
    log_p, log_z = log_density_on_grid(energy, side)
    log_p_data = data.log_prob(torch.cartesian_prod(side, side)).reshape(points, points)
    p, p_data, area = log_p.exp(), log_p_data.exp(), cell**2
    outside = (side.abs() > data.box)[:, None] | (side.abs() > data.box)
    figures = {
        "kl": float((p_data * (log_p_data - log_p)).sum() * area),
        "reverse_kl": float((p * (log_p - log_p_data)).sum() * area),
        "tv": float((p_data - p).abs().sum() * area / 2),
        "log_z": log_z,
        "mass_outside": float(p[outside].sum() * area),
    }
    return figures, {"side": side, "log_p_data": log_p_data, "log_p_model": log_p}
