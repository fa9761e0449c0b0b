"""Errors of samples: the energy distance, and a 1-NN two-sample test.

    D(X, Y) = 2 E|x - y| - E|x - x'| - E|y - y'|

Zero only for equal distributions. The plug-in estimate, with all pairs, is never negative. For two
samples of n points of one distribution it is about 2 E|x - x'| / n: the floor, which every energy
distance is compared with.

The energy distance is sensitive to the large scale and hardly to the small: a Gaussian with the
moments of three rings is at their floor with a thousand samples. So there is a second metric, of
the 1-NN two-sample test,

    S(X, Y) = fraction of the points of both whose nearest other point is of their own sample,

1/2 for equal distributions and equal numbers (indistinguishable), 1 for separated samples.

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
    """D of two samples (N, ...) and (M, ...)."""
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
