"""Whether weighted negatives still teach anything.

    ESS          1 / (M sum_j w_j^2), the effective share of M negatives: 1 even, 1/M a single one
    largest      max_j w_j
    GradScale    g = mean_i (1 - w+_i), what is left of an update (Eq. 30)

A GradScale below 0.05 is an update of which the objective wants less than a twentieth made: no
negative has a likelihood near that of data. It is meant to be left out, but an optimiser that
divides gradients by their own size makes a full step of what is left. Where that goes on for half
of a window, the chains have to be mended (Appendix H): the run is starved.

With beta = 0 weights are even and GradScale is 1, whatever the negatives are; likewise GradScale in
the variant `no_positive`. Then nothing here can say that a run is starved.

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
    """Medians over a window, which a few wild batches do not move, and the least ESS of all."""

    ess: float
    largest: float
    grad_scale: float
    least_ess: float


def weight_health(
    weight_ess: ArrayLike, largest_weight: ArrayLike, grad_scale: ArrayLike
) -> WeightHealth:
    """Of the columns of one contrast (n,)."""
    columns = (weight_ess, largest_weight, grad_scale)
    ess, largest, scale = (float(np.median(np.asarray(c, np.float64))) for c in columns)
    return WeightHealth(ess, largest, scale, float(np.asarray(weight_ess, np.float64).min()))


def starved_share(grad_scales: Sequence[ArrayLike]) -> float:
    """Share of updates in which no contrast had a GradScale of 0.05 or more.

    Args:
        grad_scales: the column (n,) of every contrast. What is not a number counts as starved.
    """
    best = np.max(np.stack([np.asarray(g, np.float64) for g in grad_scales]), axis=0)
    return float(np.mean(~(best >= LEAST_GRAD_SCALE)))
