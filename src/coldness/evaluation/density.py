"""Errors of a density: integrals on a grid, in one or two dimensions, in float64.

    log Z         = log sum exp(-U) dA
    KL(p_d | p)   = sum p_d (log p_d - log p) dA          nats
    KL(p | p_d)   = sum p (log p - log p_d) dA
    TV            = sum |p_d - p| dA / 2

Where the data's density is unknown, log p of held-out points takes the place of KL(p_d | p), which
it equals up to sign and a constant. It is compared with that of two plain models of the same
training points.

The grid covers more than the data's box, and the fraction of the model's mass outside the box is a
metric of its own: mass where there is no data must not go unnoticed. Mass m outside the grid, which
weighted samples of the model find (elsewhere.py), is added: log Z = log Z_grid - log(1 - m).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coldness.data import HeldOut, KnownDensity
from coldness.energies import Energy
from coldness.evaluation.likelihood import SCORED
from coldness.likelihood.bracket import STANDARD_ERRORS
from coldness.likelihood.potential import potential

ON_GRID = 1e-4
"""Smaller fractions of mass outside the grid are ignored."""

LINE_FINENESS = 10
"""A grid in one dimension has this many times the points per side of one in two dimensions."""


def log_density_on_grid(energy: Energy, side: Tensor, dimension: int = 2) -> tuple[Tensor, float]:
    """Normalised log p on side x side (or side), (G, G) or (G,) in float64, and log Z."""
    u = potential(energy, _points(side, dimension)).reshape((len(side),) * dimension)
    log_cell = dimension * math.log(float(side[1] - side[0]))
    log_z = float(torch.logsumexp(-u.flatten(), 0)) + log_cell
    return -u - log_z, log_z


def compare_on_grid(
    energy: Energy,
    data: KnownDensity,
    points: int,
    widening: float,
    beyond: float = 0.0,
    error: float = 0.0,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Metrics (kl, reverse_kl, tv, log_z, mass_outside, kl_gaussian) and the grids behind them.

    kl_gaussian is KL(p_d | N(mean, covariance of p_d)): a model must be below it to have learned
    more than two moments. On the line there are no grids to draw. reverse_kl is left out where mass
    lies beyond the grid: weighted samples give it there.

    Args:
        energy: the model.
        data: of known density, in one or two dimensions.
        points: per side of the grid.
        widening: factor by which the grid is wider than the data's box.
        beyond: fraction of the model's mass outside the grid.
        error: its standard error.
    """
    (dimension,) = data.shape
    side = _side(grid_edge(data.box, widening), _fineness(points, dimension))
    log_p, log_z = log_density_on_grid(energy, side, dimension)
    inside = _log_inside(beyond, error)
    log_p, log_z = log_p + inside, log_z - inside
    at = _points(side, dimension)
    log_p_data = data.log_prob(at).reshape(log_p.shape)
    p, p_data, cell = log_p.exp(), log_p_data.exp(), float(side[1] - side[0]) ** dimension
    outside = 1 - math.exp(inside)
    metrics = {
        "kl": float((p_data * (log_p_data - log_p)).sum() * cell),
        "tv": float((p_data - p).abs().sum() * cell / 2) + outside / 2,
        "log_z": log_z,
        "mass_outside": _mass_outside(log_p, side, data.box) + outside,
        "kl_gaussian": _gaussian_cross_entropy(at, p_data.flatten()) - data.entropy,
    }
    if not outside:
        metrics["reverse_kl"] = float((p * (log_p - log_p_data)).sum() * cell)
    grids = {"side": side, "log_p_data": log_p_data, "log_p_model": log_p}
    return metrics, grids if dimension == 2 else {}


def score_on_grid(
    energy: Energy,
    data: HeldOut,
    points: int,
    widening: float,
    beyond: float = 0.0,
    error: float = 0.0,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Mean log p of test and training points, in nats and the data's own units, and the grid.

    log_z_error is the change of log Z when every other point of the grid is left out. Unless it is
    small, these log-likelihoods are not reliable. Arguments as in `compare_on_grid`.
    """
    (dimension,) = data.shape
    side = _side(grid_edge(data.box, widening), _fineness(points, dimension))
    log_p, log_z = log_density_on_grid(energy, side, dimension)
    _, coarse = log_density_on_grid(energy, side[::2], dimension)
    coarse_error, inside = abs(log_z - coarse), _log_inside(beyond, error)
    log_p, log_z = log_p + inside, log_z - inside
    parts = {"test": data.scored}
    if data.has_training_part:
        parts["train"] = data.train
    metrics = {
        f"log_likelihood_{of}": -float(potential(energy, x[:SCORED]).mean())
        - log_z
        - data.domain.log_scale_of(x[:SCORED])
        for of, x in parts.items()
    }
    metrics["log_z"] = log_z
    metrics["log_z_error"] = coarse_error
    metrics["mass_outside"] = _mass_outside(log_p, side, data.box) + 1 - math.exp(inside)
    return metrics, {"side": side, "log_p_model": log_p}


def grid_edge(box: float, widening: float) -> float:
    """Half the side of the grid."""
    return widening * box


def _fineness(points: int, dimension: int) -> int:
    return points if dimension == 2 else LINE_FINENESS * points


def _log_inside(beyond: float, error: float) -> float:
    """log(1 - m) of the mass m outside the grid; 0 where m is not significant."""
    if not beyond > max(ON_GRID, STANDARD_ERRORS * error):
        return 0.0
    return math.log1p(-min(beyond, 1 - 1e-9))


def compare_slices(
    energy: Energy, data: KnownDensity, points: int, widening: float
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Metrics on a slice of data in more dimensions: all coordinates but the first two are 0.

    slice_kl and slice_tv compare the two densities on that plane, each normalised on it: the
    model's density of the first two dimensions given the others.
    """
    assert data.plane is not None
    side = _side(grid_edge(data.box, widening), points)
    at = _points(side, 2)
    whole = torch.zeros(len(at), data.shape[0], dtype=at.dtype)
    whole[:, :2] = at
    area = float(side[1] - side[0]) ** 2
    log_p = -potential(energy, whole)
    log_p = log_p - torch.logsumexp(log_p, 0) - math.log(area)
    log_p_data = -potential(data.plane, at)
    p, p_data = log_p.exp(), log_p_data.exp()
    metrics = {
        "slice_kl": float((p_data * (log_p_data - log_p)).sum() * area),
        "slice_tv": float((p_data - p).abs().sum() * area / 2),
    }
    square = (points, points)
    grids = {
        "slice_log_p_data": log_p_data.reshape(square),
        "slice_log_p_model": log_p.reshape(square),
    }
    return metrics, {"slice_side": side, **grids}


def _side(edge: float, points: int) -> Tensor:
    """Midpoints of equal cells; an even number of them avoids the singular centre of rings."""
    cell = 2 * edge / points
    return torch.arange(points, dtype=torch.float64) * cell - edge + cell / 2


def _points(side: Tensor, dimension: int) -> Tensor:
    """(G^D, D), the last dimension fastest."""
    return torch.cartesian_prod(*[side] * dimension).reshape(-1, dimension)


def _mass_outside(log_p: Tensor, side: Tensor, box: float) -> float:
    """Fraction of the mass outside the cube of half side `box`."""
    outside = (_points(side, log_p.dim()).abs() > box).any(1)
    return float(log_p.flatten()[outside].exp().sum() * float(side[1] - side[0]) ** log_p.dim())


def _gaussian_cross_entropy(points: Tensor, mass: Tensor) -> float:
    """D/2 log(2 pi e) + 1/2 log det of the covariance of points (N, D) with weights (N,)."""
    dimension = points.shape[1]
    covariance = torch.cov(points.T, correction=0, aweights=mass).reshape(dimension, dimension)
    log_det = float(torch.linalg.slogdet(covariance).logabsdet)
    return (dimension * math.log(2 * math.pi * math.e) + log_det) / 2
