"""Weak and strong oscillation: whether updates answer those just before them.

    d_t = mean U(x_data) - mean U(x_model)         the computational loss
    r_t = mean over steps and chains of |dE|       the gradient's strength along the chains

A step of descent lowers d on its own batch, whatever its sign. Where d < 0 the difference grows:
an expansion, which makes the energy steeper, so that r rises. Where d > 0 it shrinks: that is a
contraction, and r falls. Steeper energies carry chains lower, which raises d. So r_{t+1} goes
against d_t and d_t with r_t, and a contraction is answered by an expansion: at once where updates
are large.

    c_k = sum_t x_{t+k} y_t / sqrt(sum x^2 sum y^2),     lag k = -15 ... 15

over the last 2,000 values. The reference code leaves d uncentred, since its mean is 0 in training
that is stable with beta = 0, and centres r; both are then divided as above. Of values that are
independent in time c_k has mean 0 and standard deviation 1/sqrt(n).

Strong is a variance ratio: that of sums of q = 16 successive values over q times that of single
ones,

    V = 1 + 2 sum_{k=1}^{q-1} (1 - k/q) c_k,     standard deviation s = sqrt(2(2q-1)(q-1) / (3qn))

which is 1 for independent values, and 0 where each is taken back within the 15 lags. One lag alone
would not do: without momentum the answer is at lag 1, with Adam's usual one at lags 3 to 7. Strong
is V < 1/2, half of every fluctuation is taken back, and at least 4 s below 1, which chance does
once in 30,000 times; with 2,000 values s is 0.098, so that the first is the stricter.

c_k is here of ranks, for which its law holds whatever the law of d, and a spike is one value among
many. A cubic in time is taken off the ranks, since a slow trend would hide what is fast; the mean
goes with it, so that d may lie below 0, as it does where beta makes chains hotter.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), sections 3.1 and 3.2, practical appendix D and Figs. 1 and 2.
    Stock Market Prices Do Not Follow Random Walks (Lo, MacKinlay, 1988), Eqs. 14 and 18.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

Array = NDArray[np.float64]
Kind = Literal["weak", "strong"]

WINDOW = 2000
LAGS = 15

HALF = 0.5
DEVIATIONS = 4.0

LEAST = 400
"""Values; with fewer, V would have to be below 0.1 to be told from chance."""

DEGREE = 3


@dataclass(frozen=True)
class Oscillation:
    """Strong where the variance ratio is below the limit."""

    ratio: float
    limit: float

    @property
    def kind(self) -> Kind:
        return "strong" if self.ratio < self.limit else "weak"


@dataclass(frozen=True)
class Balance:
    """Shares of updates with a value below 0 (expansion) and above (contraction)."""

    expansion: float
    contraction: float


def autocorrelation(x: ArrayLike, lags: int = LAGS, centred: bool = True) -> Array:
    """c_0 ... c_lags of one series (n,); fewer where it is shorter."""
    return cross_correlation(x, x, lags, centred, centred)[-min(lags, np.size(x) - 1) - 1 :]


def cross_correlation(
    x: ArrayLike,
    y: ArrayLike,
    lags: int = LAGS,
    centred_x: bool = True,
    centred_y: bool = True,
) -> Array:
    """c_-lags ... c_lags of two series (n,); lag k pairs x_{t+k} with y_t.

    Not a number where a series is constant or not finite.

    Args:
        x: the paper's d.
        y: the paper's r.
        lags: at most n - 1 are there.
        centred_x: take the mean off; the paper does not for d.
        centred_y: likewise; the paper does for r.
    """
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    n = len(a)
    if len(b) != n or n < 2:
        raise ValueError(f"two series of one length >= 2 are needed, got {n} and {len(b)}")
    lags = min(lags, n - 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = a - centred_x * a.mean(), b - centred_y * b.mean()
        scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
        after = [np.sum(a[k:] * b[: n - k]) for k in range(lags + 1)]
        before = [np.sum(a[: n - k] * b[k:]) for k in range(lags, 0, -1)]
        return np.array([*before, *after]) / scale


def detrended(x: ArrayLike) -> Array:
    """Less a cubic in time, by least squares."""
    values = np.asarray(x, np.float64)
    if not np.isfinite(values).all():
        return np.full(len(values), np.nan)
    time = np.linspace(-1, 1, len(values))
    basis = np.polynomial.legendre.legvander(time, min(DEGREE, len(values) - 1))
    return np.asarray(values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0])


def variance_ratio(x: ArrayLike, lags: int = LAGS) -> float:
    """V of the ranks of a series, less their trend; not a number where it is not finite."""
    if not np.isfinite(x).all():
        return float("nan")
    c = autocorrelation(detrended(rankdata(x)), lags)[1:]
    weights = 1 - np.arange(1, len(c) + 1) / (len(c) + 1)
    return float(1 + 2 * np.sum(weights * c))


def oscillation(d: ArrayLike) -> Oscillation:
    """Of d over a window: at least 400 values."""
    n, q = np.size(d), LAGS + 1
    if n < LEAST:
        raise ValueError(f"oscillation needs at least {LEAST} values, got {n}")
    deviation = np.sqrt(2 * (2 * q - 1) * (q - 1) / (3 * q * n))
    return Oscillation(variance_ratio(d), float(1 - max(HALF, DEVIATIONS * deviation)))


def balance(d: ArrayLike) -> Balance:
    """Of expansions and contractions; in a stable run both are near 1/2.

    With beta other than 0 chains follow (1 - beta) U, and d lies below 0 in a stable run too. What
    is around 0 there is the weighted difference, the loss: its descent along the scale of U stops
    where the weighted potentials of both sides agree. A value that is not a number is neither.
    """
    values = np.asarray(d, np.float64)
    if not len(values):
        raise ValueError("balance needs at least one value")
    return Balance(float(np.mean(values < 0)), float(np.mean(values > 0)))
