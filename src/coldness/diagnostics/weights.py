"""Whether weighted negatives still provide a learning signal.

    ESS          1 / (M sum_j w_j^2), effective fraction of M negatives: 1 if even, 1/M at least
    largest      max_j w_j
    GradScale    g = mean_i (1 - w+_i), the factor by which weights shrink an update (Eq. 30)

A GradScale below 0.05 means that the objective shrinks the update to less than a twentieth: no
negative has a likelihood near that of data. Such updates should be negligible, but Adam and similar
optimisers turn a vanishing gradient into a full-size step. If this holds for half of a window, the
chains need to be improved (Appendix H): the run is starved.

A larger beta' makes the weights w_j exp(-(beta' - beta) U_j), up to their sum. With even weights at
beta = 0 their ESS falls as beta' grows: its logarithm is 2 K(beta') - K(2 beta') with the convex
K(b) = log mean exp(-b U), up to a constant.

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


def effective_fraction_at(u: ArrayLike, w: ArrayLike, change: float) -> float:
    """ESS of weights w_j exp(-change U_j), as a fraction of their number; NaN if U is not finite.

    Args:
        u: potentials U (M,) of the negatives.
        w: their weights (M,) now, with any positive sum.
        change: by which beta is larger.
    """
    u, w = np.asarray(u, np.float64), np.asarray(w, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_w = np.log(w) - change * (u - u.min())
        weights = np.exp(log_w - log_w.max())
    return float(weights.sum() ** 2 / (np.square(weights).sum() * len(u)))


def largest_beta_of(u: ArrayLike, w: ArrayLike, beta: float, fraction: float) -> float:
    """A beta from `beta` to 1 up to which negatives keep this effective fraction, by bisection.

    It is the largest one where the fraction falls as beta grows. Where the fraction is too small at
    `beta` already, or the potentials are not finite, it is `beta` itself.

    Args:
        u: potentials U (M,) of the negatives.
        w: their weights (M,) at this beta.
        beta: at which they were weighted.
        fraction: that they have to keep.
    """

    def keeps(value: float) -> bool:
        return effective_fraction_at(u, w, value - beta) >= fraction

    if beta >= 1 or not keeps(beta):
        return beta
    if keeps(1.0):
        return 1.0
    low, high = beta, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
