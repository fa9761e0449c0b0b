"""Bounds of healthy settings: what the doctor states, and what the guard's remedies keep.

    effective fraction of negatives     samples of exp(-t U) with weights exp(-beta U), where U is
                                        quadratic around its modes in all D dimensions:

        (t (t + 2 beta) / (t + beta)^2)^(D/2),     (1 - beta^2)^(D/2) at t = 1 - beta

which is a tenth at beta 0.89 in 3 dimensions, at 0.61 in 10 and at 0.077 in 768.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Eq. 5 (the weights),
    Eq. 30 and Appendix H (GradScale).
"""

from __future__ import annotations

import math

LEAST_GRAD_SCALE = 0.05
"""Below it, no negative has a likelihood near that of data, and the update is best left out."""

GOOD_FRACTION = 0.1
"""Of negatives that count once the density is learned."""


def effective_fraction(t: float, beta: float, dimensions: int) -> float:
    """Of samples of exp(-t U) with weights exp(-beta U), for U quadratic in all dimensions."""
    if t <= 0 or t + 2 * beta <= 0:
        return 0.0
    return float((t * (t + 2 * beta) / (t + beta) ** 2) ** (dimensions / 2))


def largest_beta(dimensions: int) -> float:
    """The largest beta, with tempering 1 - beta, at which GOOD_FRACTION of the negatives count."""
    return math.sqrt(1 - GOOD_FRACTION ** (2 / dimensions))
