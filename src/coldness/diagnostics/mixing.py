"""Whether long chains mix: R-hat across chains, and the effective sample size of their draws.

    R-hat       the spread of all draws relative to the spread within single chains, of ranks; the
                larger of two: of the values and of their distances to the median. 1 if every chain
                covers the whole distribution
    chain_ess   effective fraction of the draws: the number of independent draws with the same
                standard error of a mean, divided by the number of draws

Each is the worst value over the potential and the coordinates. The reference recommends an R-hat
below 1.01; with n effective draws in each half of a chain it is about sqrt(1 + 1/n). Above 1.1,
chains stay in separate regions, such as modes, or hardly move. The samples may still be good if the
starts were distributed over the modes as data is; but then the weights of modes are those of the
starts, and no chain has checked them.

Computed by arviz-stats, whose array interface needs only NumPy and SciPy.

References:
    Rank-normalization, folding, and localization: An improved R-hat for assessing convergence of
    MCMC (Vehtari, Gelman, Simpson, Carpenter, Burkner, 2021), sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEPARATE = 1.1
"""The older, more lenient limit of R-hat: about five effective draws in each half of a chain."""


@dataclass(frozen=True)
class Mixing:
    """The worst value over all quantities; NaN if one of them is constant or not finite."""

    rhat: float
    ess: float


def mixing(draws: NDArray[np.float64]) -> Mixing:
    """R-hat and ESS of draws (quantities, chains, draws): at least 2 chains of 4 draws."""
    from arviz_stats.base.array import array_stats  # takes as long to import as all of coldness

    if draws.ndim != 3 or draws.shape[1] < 2 or draws.shape[2] < 4:
        raise ValueError(f"draws must be (quantities, >= 2, >= 4), got {draws.shape}")
    with np.errstate(all="ignore"):
        rhat = np.asarray(array_stats.rhat(draws, chain_axis=1, draw_axis=2, method="rank"))
        ess = np.asarray(array_stats.ess(draws, chain_axis=1, draw_axis=2, method="bulk"))
    return Mixing(float(rhat.max()), float(ess.min()) / (draws.shape[1] * draws.shape[2]))
