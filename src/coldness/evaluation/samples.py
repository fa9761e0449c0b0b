"""How right samples are: the energy distance.

    D(X, Y) = 2 E|x - y| - E|x - x'| - E|y - y'|

Zero only for equal laws. The plug-in estimate, with all pairs, is never negative; for two samples
of n points of one law it is about 2 E|x - x'| / n: the floor, which belongs beside every figure.

References:
    Energy statistics: a class of statistics based on distances (Szekely, Rizzo, 2013), Eq. 5.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROWS_AT_ONCE = 1000


def energy_distance(x: Tensor, y: Tensor) -> float:
    """Of two samples (N, ...) and (M, ...)."""
    x, y = x.flatten(1).double(), y.flatten(1).double()
    return 2 * _mean_distance(x, y) - _mean_distance(x, x) - _mean_distance(y, y)


def _mean_distance(x: Tensor, y: Tensor) -> float:
    # Not through matrix products: these lose the small distances to rounding.
    exact = "donot_use_mm_for_euclid_dist"
    sums = [torch.cdist(rows, y, compute_mode=exact).sum() for rows in x.split(ROWS_AT_ONCE)]
    return float(torch.stack(sums).sum()) / (len(x) * len(y))
