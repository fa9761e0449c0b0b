"""Whether long chains mix: R-hat across chains, and the effective sample size of their draws.

    R-hat       the spread of all draws over that within single chains, of ranks, the larger of two:
                of the values and of their distances to the median. 1 where every chain has been
                everywhere
    chain_ess   effective share of the draws: how many independent ones would say as much about a
                mean, over their number

Each is the worst of the potential and the coordinates. The reference asks for an R-hat below 1.01;
of correlated draws, n effective ones in each half of a chain, it is about sqrt(1 + 1/n). Above 1.1
chains keep to places of their own, as in separate modes, or hardly move. That is no fault of the
samples where starts were spread over the modes as data is; but then the shares of modes are those
of the starts, and no chain has checked them.

Computed by arviz-stats, whose array interface needs NumPy and SciPy alone.

References:
    Rank-normalization, folding, and localization: An improved R-hat for assessing convergence of
    MCMC (Vehtari, Gelman, Simpson, Carpenter, Burkner, 2021), sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SEPARATE = 1.1
"""The older, lenient limit of R-hat: of chains with five effective draws in each half."""


@dataclass(frozen=True)
class Mixing:
    """The worst of all quantities; not a number where one of them is constant or not finite."""

    rhat: float
    ess: float


def mixing(draws: NDArray[np.float64]) -> Mixing:
    """Of draws (quantities, chains, draws): at least 2 chains of 4 draws."""
    from arviz_stats.base.array import array_stats  # takes as long as all of coldness

    if draws.ndim != 3 or draws.shape[1] < 2 or draws.shape[2] < 4:
        raise ValueError(f"draws must be (quantities, >= 2, >= 4), got {draws.shape}")
    with np.errstate(all="ignore"):
        rhat = np.asarray(array_stats.rhat(draws, chain_axis=1, draw_axis=2, method="rank"))
        ess = np.asarray(array_stats.ess(draws, chain_axis=1, draw_axis=2, method="bulk"))
    return Mixing(float(rhat.max()), float(ess.min()) / (draws.shape[1] * draws.shape[2]))
