"""Limits of sensible settings, which the doctor reports and the guard's remedies respect.

The effective fraction of negatives is the effective sample size, divided by the number of samples,
of samples of exp(-t U) with weights exp(-beta U). Where U is quadratic around its modes in all D
dimensions, it is

        (t (t + 2 beta) / (t + beta)^2)^(D/2),     (1 - beta^2)^(D/2) at t = 1 - beta

At t = 1 - beta it is 0.1 for beta = 0.89 in 3 dimensions, beta = 0.61 in 10 and beta = 0.077 in
768.

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


def effective_fraction(t: float, beta: float, dimensions: int) -> float:
    """Effective fraction of samples of exp(-t U) with weights exp(-beta U), for a quadratic U."""
    if t <= 0 or t + 2 * beta <= 0:
        return 0.0
    return float((t * (t + 2 * beta) / (t + beta) ** 2) ** (dimensions / 2))


def largest_beta(dimensions: int) -> float:
    """The largest beta, with tempering 1 - beta, whose effective fraction is GOOD_FRACTION."""
    return math.sqrt(1 - GOOD_FRACTION ** (2 / dimensions))
