"""Correlations and the variance ratio, on series whose laws are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coldness.diagnostics.oscillation import (
    LAGS,
    LEAST,
    autocorrelation,
    balance,
    cross_correlation,
    detrended,
    oscillation,
    variance_ratio,
)
from coldness.diagnostics.series import health_metrics

N = 2000


def white(n: int = N, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


def taken_back(share: float, n: int = N, seed: int = 0) -> np.ndarray:
    """x_t = e_t - share e_{t-1}: correlation -share / (1 + share^2) at lag 1, else none."""
    e = white(n + 1, seed)
    return e[1:] - share * e[:-1]


def test_the_papers_normalisation() -> None:
    """d to unit mean square and not centred, r to zero mean and unit variance, sums over n - 1."""
    d, r = white(seed=1) + 0.3, 2 + white(seed=2)
    unit = d / np.sqrt(np.sum(d * d) / (N - 1))
    normal = (r - r.mean()) / r.std(ddof=1)
    lags = slice(N - 1 - LAGS, N + LAGS)
    cross = np.correlate(unit, normal, "full")[lags] / (N - 1)
    np.testing.assert_allclose(cross_correlation(d, r, centred_x=False), cross, atol=1e-12)
    own = np.correlate(unit, unit, "full")[N - 1 : N + LAGS] / (N - 1)
    np.testing.assert_allclose(autocorrelation(d, centred=False), own, atol=1e-12)
    own = np.correlate(normal, normal, "full")[N - 1 : N + LAGS] / (N - 1)
    np.testing.assert_allclose(autocorrelation(r), own, atol=1e-12)


def test_lag_k_pairs_the_first_series_k_later() -> None:
    e = white(N + 3)
    c = cross_correlation(e[:-3], e[3:])  # x_t = y_{t-3}
    assert np.argmax(c) == LAGS + 3
    assert c[LAGS + 3] == pytest.approx(1, abs=0.01)


def test_alternating_signs_have_alternating_correlations() -> None:
    x = np.where(np.arange(100) % 2, 1.0, -1.0)
    expected = [(-1) ** k * (100 - k) / 100 for k in range(LAGS + 1)]
    np.testing.assert_allclose(autocorrelation(x), expected, atol=1e-12)


def test_correlations_of_independent_values_spread_as_one_over_root_n() -> None:
    c = np.array([autocorrelation(white(500, k))[1:] for k in range(100)])
    assert c.std() == pytest.approx(1 / math.sqrt(500), rel=0.08)


def test_short_and_constant_series() -> None:
    assert len(autocorrelation([1.0, 2.0, 4.0])) == 3
    assert len(cross_correlation([1.0, 2.0, 4.0], [1.0, 0.0, 0.0])) == 5
    assert np.isnan(autocorrelation(np.zeros(50))).all()
    assert np.isnan(cross_correlation(white(50), np.array([*white(49), np.inf]))).all()
    with pytest.raises(ValueError, match="equal lengths"):
        cross_correlation(white(50), white(49))


def test_detrending_takes_off_cubics_and_little_else() -> None:
    t = np.linspace(0, 3, N)
    assert np.abs(detrended(1 - t + 5 * t**3)).max() < 1e-9
    e = white()
    assert np.mean((detrended(e + 100 * t**2) - e) ** 2) == pytest.approx(4 / N, rel=3)
    assert np.isnan(detrended([1.0, np.nan, 2.0])).all()


@pytest.mark.parametrize("law", ["normal", "cauchy"])
def test_the_ratio_of_independent_values_is_one(law: str) -> None:
    """With the standard deviation of Lo and MacKinlay, whatever the law of the values."""
    draw = getattr(np.random.default_rng(5), f"standard_{law}")
    ratios = np.array([variance_ratio(draw(N)) for _ in range(60)])
    q = LAGS + 1
    deviation = math.sqrt(2 * (2 * q - 1) * (q - 1) / (3 * q * N))
    assert ratios.std() == pytest.approx(deviation, rel=0.35)
    # The cubic takes 4 of the N / q slow degrees of freedom with it.
    assert abs(ratios.mean() - (1 - 4 * q / N)) < 5 * deviation / math.sqrt(60)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_ratio_of_values_that_are_taken_back(share: float) -> None:
    """Ranks of normal values correlated by rho are correlated by 6/pi arcsin(rho/2)."""
    rho = -share / (1 + share**2)
    expected = 1 + 2 * (1 - 1 / (LAGS + 1)) * 6 / math.pi * math.asin(rho / 2)
    assert variance_ratio(taken_back(share, 50_000)) == pytest.approx(expected, abs=0.03)


def test_weak_and_strong() -> None:
    assert oscillation(white()).kind == "weak"
    assert oscillation(taken_back(0.5)).kind == "strong"
    assert oscillation(np.cumsum(white())).kind == "weak"
    # As late as with momentum: taken back at lags 3 to 6, and not at lag 1.
    e = white(N + 6)
    late = e[6:] - 0.25 * sum(e[6 - k : -k] for k in range(3, 7))
    assert autocorrelation(late)[1] > 0.05
    assert oscillation(late).kind == "strong"


def test_what_does_not_change_the_verdict() -> None:
    t = np.linspace(0, 1, N)
    # d below 0, as with beta, under a slow trend.
    assert oscillation(taken_back(0.8) - 6 - 20 * t**2).kind == "strong"
    # One spike that is taken back is one event, not an oscillation.
    spiky = white()
    spiky[700:702] = 1e6, -1e6
    assert autocorrelation(spiky)[1] < -0.4
    assert oscillation(spiky).kind == "weak"


def test_the_limit_is_a_half_unless_values_are_few() -> None:
    assert oscillation(white(2000)).limit == 0.5
    assert 0.1 < oscillation(white(LEAST)).limit < 0.2
    with pytest.raises(ValueError, match="at least 400"):
        oscillation(white(LEAST - 1))
    assert math.isnan(oscillation([*white(), math.inf]).ratio)


def test_balance_counts_signs() -> None:
    found = balance([-1.0, -2.0, 3.0, 0.0, math.nan])
    assert (found.expansion, found.contraction) == (0.4, 0.2)
    with pytest.raises(ValueError, match="at least one"):
        balance([])


def test_expansion_and_contraction_of_a_linear_model() -> None:
    """Steep energies carry chains low (d follows r), and d lowers r: d_t = r_t + e, r' = r - b d.

    Then r' = (1 - b) r - b e, whose variance is v = b^2 / (1 - (1 - b)^2) = b / (2 - b) for
    variance 1 of e. Cov(d_t, r_t) = v, Cov(d_t, r_{t+1}) = (1 - b) v - b, and
    Cov(d_t, d_{t+1}) = Cov(d_t, r_{t+1}); all with variance 1 + v of d.
    """
    b, n = 1.2, 40_000
    e, r = white(n, 3), np.zeros(n)
    for t in range(n - 1):
        r[t + 1] = r[t] - b * (r[t] + e[t])
    v = b / (2 - b)
    figures = health_metrics({"d": r + e, "r": r}, window=n)
    error = 5 / math.sqrt(n)
    assert figures["d_with_r"] == pytest.approx(math.sqrt(v / (1 + v)), abs=error)
    then = (1 - b) * v - b
    assert figures["d_then_r"] == pytest.approx(then / math.sqrt(v * (1 + v)), abs=error)
    assert figures["d_lag_1"] == pytest.approx(then / (1 + v), abs=error)
    assert figures["r_lag_1"] == pytest.approx(1 - b, abs=error)
    assert figures["d_lowest"] == figures["d_lag_1"]
    assert figures["r_lowest"] == figures["r_lag_1"]
    assert figures["variance_ratio"] < figures["variance_ratio_limit"]
    assert figures["expansion_share"] == pytest.approx(0.5, abs=error)
