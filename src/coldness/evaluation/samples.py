"""How right samples are: the energy distance, and what nearest neighbours can tell.

    D(X, Y) = 2 E|x - y| - E|x - x'| - E|y - y'|

Zero only for equal laws. The plug-in estimate, with all pairs, is never negative; for two samples
of n points of one law it is about 2 E|x - x'| / n: the floor, which belongs beside every figure.

The energy distance sees the large scale and little of the small: a Gaussian with the moments of
three rings is at their floor with a thousand samples. So there is a second figure,

    S(X, Y) = share of the points of both whose nearest other point is of their own sample,

1/2 for equal laws and equal numbers, 1 where the two can be told apart everywhere.

References:
    Energy statistics: a class of statistics based on distances (Szekely, Rizzo, 2013), Eq. 5.
    Multivariate Two-Sample Tests Based on Nearest Neighbors (Schilling, 1986), section 2.
    Revisiting Classifier Two-Sample Tests (Lopez-Paz, Oquab, 2017), section 3, for its use on
    samples of models.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.diagnostics.distances import distances

ROWS_AT_ONCE = 1000


def energy_distance(x: Tensor, y: Tensor) -> float:
    """Of two samples (N, ...) and (M, ...)."""
    x, y = x.flatten(1).double(), y.flatten(1).double()
    return 2 * _mean_distance(x, y) - _mean_distance(x, x) - _mean_distance(y, y)


def neighbour_share(x: Tensor, y: Tensor) -> float:
    """S of two samples (N, ...), of which the longer is cut to the length of the other."""
    n = min(len(x), len(y))
    both = torch.cat([x[:n].flatten(1), y[:n].flatten(1)]).double()
    own = 0
    for first in range(0, 2 * n, ROWS_AT_ONCE):
        rows = torch.arange(first, min(first + ROWS_AT_ONCE, 2 * n))
        distance = distances(both[rows], both)
        distance[torch.arange(len(rows)), rows] = torch.inf
        own += int(((distance.argmin(1) < n) == (rows < n)).sum())
    return own / (2 * n)


def _mean_distance(x: Tensor, y: Tensor) -> float:
    sums = [distances(rows, y).sum() for rows in x.split(ROWS_AT_ONCE)]
    return float(torch.stack(sums).sum()) / (len(x) * len(y))
