"""A two-sample test for every pair of columns: which pairs do samples of a model get wrong?

    E(X, Y) = 2 E|x - y| - E|x - x'| - E|y - y'|          for two columns of both samples

of ranks among both samples, so that no scale and no far value decides. Its p-value is found by
permutation: with labels s = +1/n for X and -1/n for Y, and D the distances of all points,

    E = -s' D s,     and the same for random orders of s.

All pairs share the orders, and each statistic is standardised over them. The corrected p-value of
a pair is the fraction of orders, the given one among them, whose largest statistic over all pairs
is at least that of the pair. If X and Y have one distribution, the probability that any pair has a
corrected p-value of at most a is at most a, however the pairs depend on each other.

References:
    Energy statistics: a class of statistics based on distances (Szekely, Rizzo, 2013), section 6.
    Resampling-Based Multiple Testing (Westfall, Young, 1993), section 2.3, for the correction.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

ORDERS = 199
"""Random orders; the smallest p-value is 1 / 200."""

MOST_PAIRS = 780
"""Pairs that are tested: all of up to 40 columns, else as many at random."""

WORK = 5 * 10**7
"""Most distances over all pairs. It bounds the rows of a test: about a second of work."""

MOST_ROWS = 1000
"""Of either sample."""

Array = NDArray[np.float64]


def chosen_pairs(columns: int, seed: int) -> NDArray[np.int64]:
    """Pairs of columns (P, 2): all, or MOST_PAIRS of them at random."""
    pairs = np.array(list(combinations(range(columns), 2)), dtype=np.int64).reshape(-1, 2)
    if len(pairs) > MOST_PAIRS:
        kept = np.random.default_rng(seed).permutation(len(pairs))[:MOST_PAIRS]
        pairs = pairs[np.sort(kept)]
    return pairs


def rows_for(pairs: int) -> int:
    """Rows of either sample that so many pairs are tested with."""
    return min(MOST_ROWS, math.isqrt(WORK // max(pairs, 1)) // 2)


def compare_pairs(
    x: Array, y: Array, pairs: NDArray[np.int64], seed: int = 0, orders: int = ORDERS
) -> tuple[Array, Array]:
    """Energy distances of ranks, and corrected p-values, (P,) each.

    Args:
        x: one sample (n, C).
        y: the other (n, C), of equal size.
        pairs: of columns, (P, 2).
        seed: of the random orders.
        orders: number of them.
    """
    n = len(x)
    if len(y) != n:
        raise ValueError(f"the test needs samples of equal size, got {n} and {len(y)}")
    ranks = torch.from_numpy(rankdata(np.concatenate([x, y]), axis=0) / (2 * n)).float()
    labels = _labels(n, orders, seed)
    found = torch.stack([_statistics(ranks[:, pair.tolist()], labels) for pair in pairs]).double()
    spread = found.std(1, keepdim=True)
    scaled = (found - found.mean(1, keepdim=True)) / spread.clamp(min=1e-12)
    largest = scaled.max(0).values
    # A pair's own orders count by the same rule, up to rounding.
    p = (largest[None] >= scaled[:, :1] - 1e-9).double().mean(1)
    return found[:, 0].numpy(), p.numpy()


def _labels(n: int, orders: int, seed: int) -> Tensor:
    """(2n, 1 + orders): the given order of labels, then random ones."""
    generator = torch.Generator().manual_seed(seed)
    given = torch.cat([torch.ones(n), -torch.ones(n)]) / n
    others = [given[torch.randperm(2 * n, generator=generator)] for _ in range(orders)]
    return torch.stack([given, *others], 1)


def _statistics(points: Tensor, labels: Tensor) -> Tensor:
    """-s' D s for every column s of labels; D may be shifted, since each s sums to 0."""
    distance = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return -(labels * ((distance - distance.mean()) @ labels)).sum(0)
