"""Whether weighted negatives still provide a learning signal.

    ESS          1 / (M sum_j w_j^2), effective fraction of M negatives: 1 if even, 1/M at least
    largest      max_j w_j
    GradScale    g = mean_i (1 - w+_i), the factor by which weights shrink an update (Eq. 30)

A GradScale below 0.05 means that the objective shrinks the update to less than a twentieth: no
negative has a likelihood near that of data. Such updates should be negligible, but Adam and similar
optimisers turn a vanishing gradient into a full-size step. If this holds for half of a window, the
chains need to be improved (Appendix H): the run is starved.

With beta = 0 weights are even and GradScale is 1 for any negatives; GradScale is also 1 in the
variant `no_positive`. In these cases starvation cannot be detected here.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Eqs. 5 and 30,
    Appendices E and H.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coldness.limits import LEAST_GRAD_SCALE


@dataclass(frozen=True)
class WeightHealth:
    """Medians over a window, which a few outlying batches do not move, and the smallest ESS."""

    ess: float
    largest: float
    grad_scale: float
    least_ess: float


def weight_health(
    weight_ess: ArrayLike, largest_weight: ArrayLike, grad_scale: ArrayLike
) -> WeightHealth:
    """Summary of the columns (n,) of one contrast."""
    columns = (weight_ess, largest_weight, grad_scale)
    ess, largest, scale = (float(np.median(np.asarray(c, np.float64))) for c in columns)
    return WeightHealth(ess, largest, scale, float(np.asarray(weight_ess, np.float64).min()))


def starved_share(grad_scales: Sequence[ArrayLike]) -> float:
    """Fraction of updates in which no contrast had a GradScale of 0.05 or more.

    Args:
        grad_scales: the column (n,) of every contrast. NaN counts as starved.
    """
    best = np.max(np.stack([np.asarray(g, np.float64) for g in grad_scales]), axis=0)
    return float(np.mean(~(best >= LEAST_GRAD_SCALE)))
