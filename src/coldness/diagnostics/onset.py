"""When a run went wrong, in hindsight: from its series and those of a healthy run.

The onset of a metric is the first iteration from which it stays, for LASTS iterations or to the end
of the series, outside the range of the healthy run by a factor MARGIN. A running median over WIDTH
iterations removes single outliers from both series. The first WARM_UP iterations of the healthy
run, in which its first chains arrive, are ignored. NaN and infinite values are outside.

This uses the whole series and a healthy run, which a guard does not have, and can therefore measure
how late a guard was.
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
    """Index at which the series leaves the range of the healthy one for good; None if it does not.

    Args:
        series: values of a non-negative metric, one per iteration.
        healthy: the same metric of the healthy run.
        downwards: whether small values are the failure.
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
