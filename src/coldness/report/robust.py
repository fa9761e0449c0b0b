"""Axes that one far value does not spoil: from quantiles, with what lies outside counted."""

from __future__ import annotations

import numpy as np

from coldness.report.figures import Array

INNER = 0.005
"""Fraction of the data on either side that axes may leave out."""

MARGIN = 0.08
"""Added on either side, as a fraction of the range between these quantiles."""


def span(x: Array) -> tuple[float, float]:
    """Ends of an axis for data x (N,): its quantiles with a margin; values not finite are skipped.

    The margin is cut where it leaves the data.
    """
    x = x[np.isfinite(x)]
    if not len(x):
        return -1.0, 1.0
    low, high = map(float, np.quantile(x, [INNER, 1 - INNER]))
    margin = MARGIN * (high - low) or 0.5 * max(abs(high), 1.0) * 1e-3 + 0.5 * (high == low)
    return low - margin, high + margin


def outside(points: Array, *ends: tuple[float, float]) -> int:
    """Points (N,) or (N, K) that are finite and lie outside of these ends of K axes."""
    x = points.reshape(len(points), -1)
    low, high = np.array(ends).T
    inside = ((x >= low) & (x <= high)).all(1)
    return int((np.isfinite(x).all(1) & ~inside).sum())


def half_side(box: float, points: Array) -> float:
    """Half the side of a square panel around 0 for points (N, K).

    It is that of the box unless this is more than twice what all but the outermost points need.
    """
    far = np.abs(points)
    needed = [
        max(map(abs, span(column))) for column in np.where(np.isfinite(far), points, np.nan).T
    ]
    return box if box <= 2 * max(needed) else max(needed)
