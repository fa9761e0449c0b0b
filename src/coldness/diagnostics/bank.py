"""The health of a bank of persistent chains, from what its slots hold.

    bank_age          mean number of steps since a slot was last filled from the start
    bank_untouched    share of slots that never ran
    bank_near_start   share of slots that are nearer to a fresh start than to an example of data
    bank_near_start_data   the same share of other examples: what the first is where chains arrived
    bank_saturated    share of slots whose potential is below the lowest hundredth of the data's:
                      0.01 where bank and data agree, near 1 where the model likes its chains better
                      than any data (Anatomy: oversaturated)
    bank_duplicates   share of slots that hold the same point as an earlier one
    bank_spacing      median distance of a slot to its nearest other, over that of as many examples:
                      1 where the bank is as spread out as data, near 0 where it has collapsed
    bank_lost         slots that are not finite; where there are any, there is no more to say

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
"""Slots, starts and examples that distances are taken of: shares are known to 0.016."""

LOWEST = 0.01


def bank_health(
    x: Tensor, age: Tensor, starts: Tensor, x_data: Tensor, u: Tensor, u_data: Tensor
) -> dict[str, float]:
    """Metrics of a bank.

    Args:
        x: slots (N, ...).
        age: steps of each (N,).
        starts: fresh draws of what slots are filled from (M, ...).
        x_data: examples (M, ...), at least twice as many as are compared or all of them count.
        u: potentials of the slots (N,).
        u_data: potentials of examples.
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
    return {
        **metrics,
        "bank_near_start": _nearer(some, fresh, data),
        "bank_near_start_data": _nearer(others, fresh, data),
        "bank_saturated": float((u.double().cpu() < lowest).double().mean()),
        "bank_duplicates": 1 - len(torch.unique(x, dim=0)) / len(x),
        "bank_spacing": _spacing(some) / _spacing(data),
    }


def _nearer(x: Tensor, a: Tensor, b: Tensor) -> float:
    """Share of x (N, D) whose nearest point of a (M, D) is nearer than that of b (M, D)."""
    return float((_nearest(x, a) < _nearest(x, b)).double().mean())


def _spacing(x: Tensor) -> float:
    """Median distance to the nearest other point."""
    return float(distances(x, x).fill_diagonal_(torch.inf).min(1).values.median())


def _nearest(x: Tensor, y: Tensor) -> Tensor:
    return distances(x, y).min(1).values
