"""Weak and strong oscillation: whether updates undo the updates just before them.

    d_t = mean U(x_data) - mean U(x_model)         the computational loss
    r_t = mean over steps and chains of |dE|       the gradient strength along the chains

A gradient descent step lowers d on its own batch, for either sign of d. If d < 0, |d| grows: an
expansion, which makes the energy steeper, so that r rises. If d > 0, |d| shrinks: a contraction,
and r falls. Steeper energies bring chains to lower potentials, which raises d. So r_{t+1} is
negatively correlated with d_t, d_t positively with r_t, and contractions and expansions follow each
other: at once if updates are large.

    c_k = sum_t x_{t+k} y_t / sqrt(sum x^2 sum y^2),     lag k = -15 ... 15

over the last 2,000 values. The reference code does not centre d, because its mean is 0 in stable
training with beta = 0, and centres r; both are then normalised as above. For values that are
independent in time, c_k has mean 0 and standard deviation 1/sqrt(n).

Strong oscillation is defined by a variance ratio: the variance of sums of q = 16 successive values
over q times the variance of single values,

    V = 1 + 2 sum_{k=1}^{q-1} (1 - k/q) c_k,     standard deviation s = sqrt(2(2q-1)(q-1) / (3qn))

which is 1 for independent values, and 0 if each is undone within the 15 lags. A single lag would
not be enough: without momentum the response is at lag 1, with Adam's usual momentum at lags 3 to 7.
Oscillation is strong if V < 1/2 (half of every fluctuation is undone) and V is at least 4 s below
1, which happens by chance once in 30,000 times; with 2,000 values s is 0.098, so the first
condition is stricter.

c_k is computed of ranks: its distribution then does not depend on that of d, and a spike is one
value among many. A cubic in time is subtracted from the ranks, because a slow trend would hide fast
fluctuations. This also removes the mean, so d may lie below 0, as it does if beta makes chains
hotter.

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
"""Fewest values; with fewer, only V below 0.1 would differ significantly from 1."""

DEGREE = 3


@dataclass(frozen=True)
class Oscillation:
    """The variance ratio and its limit, below which oscillation is strong."""

    ratio: float
    limit: float

    @property
    def kind(self) -> Kind:
        return "strong" if self.ratio < self.limit else "weak"


@dataclass(frozen=True)
class Balance:
    """Fractions of updates with a value below 0 (expansion) and above 0 (contraction)."""

    expansion: float
    contraction: float


def autocorrelation(x: ArrayLike, lags: int = LAGS, centred: bool = True) -> Array:
    """c_0 ... c_lags of one series (n,); fewer if the series is shorter."""
    return cross_correlation(x, x, lags, centred, centred)[-min(lags, np.size(x) - 1) - 1 :]


def cross_correlation(
    x: ArrayLike,
    y: ArrayLike,
    lags: int = LAGS,
    centred_x: bool = True,
    centred_y: bool = True,
) -> Array:
    """c_-lags ... c_lags of two series (n,); lag k pairs x_{t+k} with y_t.

    NaN if a series is constant or not finite.

    Args:
        x: the paper's d.
        y: the paper's r.
        lags: largest lag; at most n - 1.
        centred_x: whether to subtract the mean of x; the paper does not for d.
        centred_y: whether to subtract the mean of y; the paper does for r.
    """
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    n = len(a)
    if len(b) != n or n < 2:
        raise ValueError(f"series must have equal lengths >= 2, got {n} and {len(b)}")
    lags = min(lags, n - 1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        a, b = a - centred_x * a.mean(), b - centred_y * b.mean()
        scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
        after = [np.sum(a[k:] * b[: n - k]) for k in range(lags + 1)]
        before = [np.sum(a[: n - k] * b[k:]) for k in range(lags, 0, -1)]
        return np.array([*before, *after]) / scale


def detrended(x: ArrayLike) -> Array:
    """The residual of a least-squares fit of a cubic in time."""
    values = np.asarray(x, np.float64)
    if not np.isfinite(values).all():
        return np.full(len(values), np.nan)
    time = np.linspace(-1, 1, len(values))
    basis = np.polynomial.legendre.legvander(time, min(DEGREE, len(values) - 1))
    return np.asarray(values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0])


def variance_ratio(x: ArrayLike, lags: int = LAGS) -> float:
    """V of the detrended ranks of a series; NaN if the series is not finite."""
    if not np.isfinite(x).all():
        return float("nan")
    c = autocorrelation(detrended(rankdata(x)), lags)[1:]
    weights = 1 - np.arange(1, len(c) + 1) / (len(c) + 1)
    return float(1 + 2 * np.sum(weights * c))


def oscillation(d: ArrayLike) -> Oscillation:
    """The oscillation of d over a window of at least 400 values."""
    n, q = np.size(d), LAGS + 1
    if n < LEAST:
        raise ValueError(f"oscillation needs at least {LEAST} values, got {n}")
    deviation = np.sqrt(2 * (2 * q - 1) * (q - 1) / (3 * q * n))
    return Oscillation(variance_ratio(d), float(1 - max(HALF, DEVIATIONS * deviation)))


def balance(d: ArrayLike) -> Balance:
    """Fractions of expansions and contractions; in a stable run both are near 1/2.

    With beta other than 0 chains follow (1 - beta) U, and d lies below 0 in a stable run too. The
    weighted difference, the loss, is around 0 there: its descent along the scale of U stops when
    the weighted potentials of both sides agree. NaN counts as neither.
    """
    values = np.asarray(d, np.float64)
    if not len(values):
        raise ValueError("balance needs at least one value")
    return Balance(float(np.mean(values < 0)), float(np.mean(values > 0)))
