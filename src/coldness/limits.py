"""Limits of sensible settings, which the doctor reports and the guard's remedies respect.

The effective fraction of negatives is the effective sample size, divided by the number of samples,
of samples of exp(-t U) with weights exp(-beta U). Where U is quadratic around its modes in all D
dimensions, it is

        (t (t + 2 beta) / (t + beta)^2)^(D/2),     (1 - beta^2)^(D/2) at t = 1 - beta

At t = 1 - beta it is 0.1 for beta = 0.89 in 3 dimensions, beta = 0.61 in 10 and beta = 0.077 in
768. It is q for beta = L with t = 1 - beta, and for beta = t L / (1 - L) with a given t, where
L = sqrt(1 - q^(2/D)).

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Eq. 5 (the weights),
    Eq. 30 and Appendix H (GradScale).
"""

from __future__ import annotations

import math

LEAST_GRAD_SCALE = 0.05
"""Below this GradScale no negative has a likelihood near that of the data. The update is best
skipped."""

GOOD_FRACTION = 0.1
"""Smallest good value of the effective fraction of negatives once the density is learned."""

LEAST_NEGATIVES = 2.0
"""Fewest effective negatives. With fewer, the update contrasts the data with a single chain."""

HOPELESS_NEGATIVES = 0.1
"""Effective negatives below which training is not begun: not even one of them counts."""

MOST_STEPS = 8
"""Largest factor by which the guard lengthens chains. The cost of an iteration grows as much."""

LEAST_NOISE = 1 / MOST_STEPS
"""Smallest factor by which the guard reduces the noise per step. Chains that are also MOST_STEPS
times longer then still cover the distance that they cover without relief (doctor/steps.py)."""

LEAST_RATE = 1e-3
"""Smallest factor by which the guard reduces the learning rate. With less, a run of some thousand
iterations learns nothing, and an end without alarms would not be a recovery."""


def effective_fraction(t: float, beta: float, dimensions: int) -> float:
    """Effective fraction of samples of exp(-t U) with weights exp(-beta U), for a quadratic U."""
    if t <= 0 or t + 2 * beta <= 0:
        return 0.0
    return float((t * (t + 2 * beta) / (t + beta) ** 2) ** (dimensions / 2))


def least_fraction(negatives: int) -> float:
    """Smallest acceptable effective fraction of this many negatives.

    It is that of LEAST_NEGATIVES, or GOOD_FRACTION where that is less: 10% of up to 20 negatives,
    3.1% of 64, 2% of 100.
    """
    return min(GOOD_FRACTION, LEAST_NEGATIVES / negatives)


def largest_beta(dimensions: int, tempering: float | None = None) -> float:
    """The largest beta whose effective fraction is GOOD_FRACTION.

    Args:
        dimensions: D.
        tempering: t if it does not depend on beta; None for 1 - beta. The result is never above
            that of None.
    """
    largest = math.sqrt(1 - GOOD_FRACTION ** (2 / dimensions))
    if tempering is None:
        return largest
    return min(largest, max(tempering, 0.0) * largest / (1 - largest))
