"""When a run went wrong, after the fact: measured on its series and those of a healthy run.

The onset of a figure is the first iteration from which it stays, for LASTS iterations or to the end
of the series, outside of all that it does in the healthy run, by a factor MARGIN. A running median
over WIDTH iterations takes single outliers away, of both series; the first WARM_UP iterations of
the healthy run, in which its first chains come in, do not count. What is not finite is outside.

This uses what no guard has, the whole series and a healthy run beside it, and so can say how late a
guard was.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import median_filter

Array = NDArray[np.float64]

MARGIN = 3.0
LASTS = 20
WIDTH = 5
WARM_UP = 5


def onset(series: ArrayLike, healthy: ArrayLike, downwards: bool = False) -> int | None:
    """Index at which the series leaves the healthy one's range for good; None where it does not.

    Args:
        series: of a figure that is not negative, one value an iteration.
        healthy: the same of the healthy run.
        downwards: it goes wrong by becoming small.
    """
    values = _smooth(series)
    range_ = _smooth(healthy)[WARM_UP:]
    if downwards:
        outside = ~(values >= range_.min() / MARGIN)
    else:
        outside = ~(values <= range_.max() * MARGIN)
    run = 0
    for t, out in enumerate(outside):
        run = run + 1 if out else 0
        if run and (run == LASTS or t == len(outside) - 1):
            return t - run + 1
    return None


def _smooth(series: ArrayLike) -> Array:
    values = np.asarray(series, np.float64)
    finite = np.isfinite(values)
    smooth = median_filter(np.where(finite, values, np.inf), WIDTH, mode="nearest")
    return np.where(finite, smooth, np.nan)
