"""Euclidean distances between all points of two samples.

    |x - y|^2 = sum of (x_i - y_i)^2               in few dimensions
              = |x|^2 + |y|^2 - 2 x.y              in many: thirty times as fast for 3072

In float64, the second form loses distances below about a millionth of |x| to rounding. In many
dimensions, points are not that close to each other unless they are equal.
"""

from __future__ import annotations

import torch
from torch import Tensor

MANY = 200
"""Number of dimensions from which matrix products are used."""

EXACT, PRODUCTS = "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist"


def distances(x: Tensor, y: Tensor) -> Tensor:
    """Distances (N, M) between points (N, D) and (M, D)."""
    mode = EXACT if x.shape[1] < MANY else PRODUCTS
    return torch.cdist(x, y, compute_mode=mode)
