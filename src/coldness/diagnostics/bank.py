"""The health of a bank (replay buffer) of persistent chains, from the contents of its slots.

    bank_age          mean number of steps since a slot was last filled from the start
    bank_untouched    fraction of slots that never ran
    bank_near_start   fraction of slots that are nearer to a fresh start than to a data example
    bank_near_start_data   the same fraction for other data examples: the value of bank_near_start
                      once chains have reached the data
    bank_saturated    fraction of slots whose potential is below the lowest percentile of data's:
                      0.01 if bank and data agree, near 1 if the model prefers its chains to data
                      (Anatomy: oversaturated)
    bank_duplicates   duplicate chains: fraction of slots with the same point as an earlier slot
    bank_spacing      median distance of a slot to its nearest neighbour, relative to that of as
                      many data examples: 1 if the bank is as spread out as data, near 0 if it
                      collapsed
    bank_lost         number of slots that are NaN or infinite; if there are any, only bank_age and
                      bank_untouched are measured

Distances are in units of the data's standard deviation in each coordinate.

References:
    Training Restricted Boltzmann Machines using Approximations to the Likelihood Gradient
    (Tieleman, 2008), section 3.
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 3.3.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.diagnostics.distances import distances

COMPARED = 1000
"""Slots, starts and examples used for distances: fractions have a standard error of 0.016."""

LOWEST = 0.01


def bank_health(
    x: Tensor, age: Tensor, starts: Tensor, x_data: Tensor, u: Tensor, u_data: Tensor
) -> dict[str, float]:
    """Metrics of a bank.

    Args:
        x: slots (N, ...).
        age: number of steps of each slot (N,).
        starts: fresh draws (M, ...) from the start that fills the slots.
        x_data: examples (M, ...); one half is compared with the other.
        u: potentials of the slots (N,).
        u_data: potentials of data examples.
    """
    metrics = {
        "bank_age": float(age.double().mean()),
        "bank_untouched": float((age == 0).double().mean()),
    }
    x, starts, x_data = (y.flatten(1).double().cpu() for y in (x, starts, x_data))
    lost = int((~(x.isfinite().all(1) & u.isfinite().cpu())).sum())
    if lost:
        return {**metrics, "bank_lost": float(lost)}
    lowest = torch.quantile(u_data.double().cpu(), LOWEST)
    scale = x_data.std(0)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    n = min(COMPARED, len(x), len(starts), len(x_data) // 2)
    some, fresh = x[:n] / scale, starts[:n] / scale
    data, others = x_data[:n] / scale, x_data[n : 2 * n] / scale
    found = {
        **metrics,
        "bank_near_start": _nearer(some, fresh, data),
        "bank_near_start_data": _nearer(others, fresh, data),
        "bank_saturated": float((u.double().cpu() < lowest).double().mean()),
        "bank_duplicates": 1 - len(torch.unique(x, dim=0)) / len(x),
    }
    between = _spacing(data)
    if between > 0:  # otherwise most examples are repeated, and there is no such ratio
        found["bank_spacing"] = _spacing(some) / between
    return found


def _nearer(x: Tensor, a: Tensor, b: Tensor) -> float:
    """Fraction of x (N, D) that is nearer to its nearest point of a (M, D) than to that of b."""
    return float((_nearest(x, a) < _nearest(x, b)).double().mean())


def _spacing(x: Tensor) -> float:
    """Median distance to the nearest other point."""
    return float(distances(x, x).fill_diagonal_(torch.inf).min(1).values.median())


def _nearest(x: Tensor, y: Tensor) -> Tensor:
    return distances(x, y).min(1).values
