"""The four diagnostic pictures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from coldness.diagnostics.oscillation import autocorrelation, cross_correlation
from coldness.report.figures import DARK, LIGHT
from coldness.report.training import LEAST
from coldness.report.training import single_updates as pictures


def run(n: int = 500, beta: float = 0.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {
        "iteration": np.arange(n, dtype=np.float64),
        "d": rng.normal(size=n) - 5 * beta,
        "r": 1 + rng.normal(size=n) / 9,
        "beta": np.full(n, beta),
    }


def heights(title: str, runs: list[dict[str, np.ndarray]]) -> list[float]:
    axes = Figure().add_subplot()
    curve = next(c for c in pictures(runs) if title in c.title)
    curve.draw(axes, runs, LIGHT)
    return [bar.get_height() for container in axes.containers for bar in container]


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_bars_are_correlations_and_d_is_centred_where_beta_is_not_0(beta: float) -> None:
    one = run(beta=beta)
    d, r = one["d"], one["r"]
    cross = cross_correlation(d, r, centred_x=beta != 0)
    np.testing.assert_allclose(heights("Correlation", [one]), cross)
    own = [*autocorrelation(d, centred=beta != 0)[1:], *autocorrelation(r)[1:]]
    np.testing.assert_allclose(heights("Autocorrelation", [one]), own)


def test_several_runs_on_light_and_dark() -> None:
    runs = [run(500), run(2500), run(LEAST)]
    curves = pictures(runs)
    assert len(curves) == 4
    assert len(heights("Correlation", runs)) == 3 * 31
    light, dark = curves[-1].render(runs, LIGHT), curves[-1].render(runs, DARK)
    assert light.startswith("data:image/png;base64,")
    assert light != dark


def test_chains_without_steps_have_no_gradients_to_correlate() -> None:
    still = {**run(), "r": np.zeros(500)}
    assert np.isnan(heights("Correlation", [still])).all()
    assert all(curve.render([still], LIGHT) for curve in pictures([still]))


def test_what_is_too_short_or_lacks_a_column_has_none() -> None:
    assert pictures([]) == []
    assert pictures([run(), run(LEAST - 1)]) == []
    lacking = run()
    del lacking["r"]
    assert pictures([lacking]) == []
