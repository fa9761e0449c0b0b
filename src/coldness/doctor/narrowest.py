"""The narrowest local scale of data with an unknown distribution, from nearest neighbours.

If data is locally normal with standard deviation s along a direction, its variance v along that
direction within a Gaussian window of width b around a point is

    1 / v = 1 / s^2 + 1 / b^2,

wherever the window is centred; so s follows from v without bias. The direction is that of the least
variance of one half of the data in the window, and v is the variance of the other half along it:
the least of several sample variances would be biased downwards, this one is not.

Windows shrink from the width of the data by factors of sqrt(2). A point is used at a width if both
halves have enough neighbours; if v > 0.7 b^2 the window is narrower than the data, which then
counts as wide. At each width the 0.1 quantile of s over the points is used, because the noise of
steps spoils training even if only a part of the data is narrower. It is divided by the same
quantile of a chi-squared variable, so that data of a single scale gives this scale. The result is
the narrowest scale over all widths: in wide windows curved or separate pieces look thick, and
narrow windows have no neighbours.

In many dimensions narrow windows have no neighbours, so that rings hidden among wide coordinates
are not found. Therefore pairs of coordinates are also examined, each separately: data is never
narrower in a projection, so the least of all remains an upper bound.

Accuracy with known densities and 16,384 points, as estimate over true scale: 1.00 to 1.03 for
mixture2d, 1.09 to 1.13 for rings2d, 0.92 to 1.01 for rings in 3 to 20 dimensions, 1.02 to 1.14 for
the same in the coordinates of a diagonal preconditioner. With 1,600 points the estimate for rings2d
is twice the true scale, because there are too few neighbours within a ring. Each half needs
20 + 2 D neighbours in a window that is not much wider than the radius of curvature of the data.
Without them, or if D is large, the smallest standard deviation of a coordinate is returned.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import torch
from scipy.stats import chi2
from torch import Tensor

POINTS = 128
POINTS_OF_PAIR = 40
"""Numbers of points at which the scale is measured: the 0.1 quantile is the 13th or the 5th."""

LARGEST_PAIRS = 45
"""All pairs of ten coordinates; of more coordinates, this many pairs, evenly spaced in the list."""

PAIR_EXAMPLES = 2**13
"""Examples per pair of coordinates; rings10d needs 7,000."""

LARGEST_DIMENSION = 32
"""With more dimensions, covariances dominate the time and need more neighbours than there are."""

LEAST_WIDTH = 2.0**-15
"""Narrowest window, relative to the widest."""

QUANTILE = 0.1
WIDE = 0.7
"""Fraction of b^2 above which v is uninformative about s: the relative error of s^2 is that of v
over 1 - v / b^2."""


class LocalScale(NamedTuple):
    """scale: narrowest standard deviation. local: False if it is that of a whole coordinate."""

    scale: float
    local: bool


def narrowest_scale(y: Tensor) -> LocalScale:
    """The narrowest scale of distinct points (N, ...) in random order."""
    y = y.flatten(1).cpu().double()
    y = y - y.mean(0)
    whole = float(y.std(0).min()) if len(y) > 1 else math.nan
    dimension = y.shape[1]
    if dimension > LARGEST_DIMENSION or len(y) < 8:
        return LocalScale(whole, local=False)
    width = float(y.norm(dim=1).mean())
    best, narrowest_window = _scan(y, POINTS, width, math.sqrt(2))
    # Wider windows were already examined for every pair, with all other coordinates included.
    pairs = list(combinations(range(dimension), 2)) if dimension > 2 else []
    for pair in pairs[:: max(1, math.ceil(len(pairs) / LARGEST_PAIRS))]:
        of_pair, _ = _scan(y[:PAIR_EXAMPLES, pair], POINTS_OF_PAIR, narrowest_window, 2.0)
        best = min(best, of_pair)
    return LocalScale(best if best < whole else whole, local=math.isfinite(best))


def _scan(y: Tensor, at_most: int, widest: float, ratio: float) -> tuple[float, float]:
    """The narrowest scale over windows that shrink by the ratio, and the last window."""
    count = min(at_most, len(y) // 4)
    points, first, second = y[:count], y[count::2], y[count + 1 :: 2]
    least = 20 + 2 * y.shape[1]
    far_a, far_b = torch.cdist(points, first).square(), torch.cdist(points, second).square()
    products = (first[:, :, None] * first[:, None, :]).flatten(1)
    best = math.inf
    b, last = widest, widest
    while b > LEAST_WIDTH * widest:
        covariance, n_a = _covariance(first, products, far_a, b)
        direction = torch.linalg.eigh(covariance)[1][:, :, 0]
        v, n = _variance_along(direction, second, far_b, b)
        usable = (n_a >= least) & (n >= least)
        if float(usable.double().mean()) < QUANTILE:
            break
        v = v / torch.from_numpy(chi2.ppf(QUANTILE, n.numpy()) / n.numpy())
        s = torch.where(usable & (v <= WIDE * b**2), (1 / (1 / v - 1 / b**2)).sqrt(), math.inf)
        best = min(best, float(s.sort().values[int(QUANTILE * count)]))
        b, last = b / ratio, b
    return best, last


def share_of_copies(y: Tensor) -> float:
    """Fraction of points that have an exact copy: they are atoms with a local scale of 0."""
    _, counts = torch.unique(y.flatten(1), dim=0, return_counts=True)
    return float(counts[counts > 1].sum()) / len(y)


def _covariance(y: Tensor, products: Tensor, squares: Tensor, b: float) -> tuple[Tensor, Tensor]:
    """Covariances (Q, D, D) in windows around Q points; effective numbers of neighbours (Q,)."""
    p, n = _shares(squares, b)
    mean = p @ y
    covariance = (p @ products).unflatten(1, (y.shape[1], -1))
    return covariance - mean[:, :, None] * mean[:, None, :], n


def _variance_along(
    direction: Tensor, y: Tensor, squares: Tensor, b: float
) -> tuple[Tensor, Tensor]:
    """Variances (Q,) in the windows, each along a direction (Q, D) of its own."""
    p, n = _shares(squares, b)
    along = direction @ y.T
    along = along - (p * along).sum(1, keepdim=True)
    return (p * along.square()).sum(1) / (1 - 1 / n.clamp(min=1.5)), n


def _shares(squares: Tensor, b: float) -> tuple[Tensor, Tensor]:
    """Weights of the neighbours, which sum to 1, and the effective number of them."""
    p = torch.softmax(-squares / (2 * b**2), 1)
    return p, 1 / p.square().sum(1)
