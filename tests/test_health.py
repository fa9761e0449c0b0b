"""Figures and states of trainings, on series and figures with known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coldness.diagnostics.health import ADVICE, health_metrics, training_state
from coldness.diagnostics.weights import starved_share, weight_health
from coldness.limits import LEAST_GRAD_SCALE

N = 3000
RNG = np.random.default_rng(0)
CONVERGED = {"u_shift": 0.1, "u_drift": -0.05}
OVERSATURATED = {"u_shift": -0.8, "u_drift": 0.0}
DRIFTING = {"u_shift": 0.1, "u_drift": 0.4}


def steady(**more: np.ndarray | float) -> dict[str, np.ndarray]:
    """Columns of a run that has come to rest, with d around 0."""
    columns = {
        "iteration": np.arange(N),
        "d": RNG.normal(size=N),
        "r": 0.04 + 0.002 * RNG.normal(size=N),
        "beta": 0.0,
        "weight_ess": 1.0,
        "largest_weight": 0.01,
        "grad_scale": 1.0,
        "d_std": 3.0,
        **more,
    }
    columns.setdefault("loss", columns["d"] / 800)
    return {name: np.broadcast_to(np.float64(v), N) for name, v in columns.items()}


def weighted(**more: np.ndarray | float) -> dict[str, np.ndarray]:
    """The same with beta 0.9: d is below 0, the weighted loss around it."""
    given = {
        "d": -6 + RNG.normal(size=N) / 2,
        "loss": RNG.normal(size=N) / 800,
        "beta": 0.9,
        "weight_ess": 0.2,
        "largest_weight": 0.1,
        "grad_scale": 0.95,
    }
    return steady(**{**given, **more})


def state(columns: dict[str, np.ndarray], **metrics: float) -> str | None:
    found = training_state({**health_metrics(columns), **metrics})
    return None if found is None else found.state


def test_figures_of_a_steady_run() -> None:
    figures = health_metrics(steady(bank_outside=np.arange(N) / N))
    assert figures["health_window"] == 2000
    assert figures["expansion_share"] == pytest.approx(0.5, abs=0.06)
    assert figures["expansion_share"] + figures["contraction_share"] == 1
    assert figures["d_growth"] == pytest.approx(1, abs=0.5)
    assert figures["d_size"] == pytest.approx(0.674, abs=0.1)  # of a normal law
    assert figures["loss_variance"] == 9
    assert abs(figures["loss_snr"]) < 5 / 3 / math.sqrt(2000)
    assert figures["bank_outside"] == (N - 1) / N
    assert "starved_share" not in figures  # weights are even


def test_only_the_window_counts() -> None:
    early = np.where(np.arange(N) < 1000, 1e9, RNG.normal(size=N))
    assert health_metrics(steady(d=early))["d_size"] < 1
    assert health_metrics(steady(d=early), window=N)["d_size"] > 0.7


def test_with_beta_the_weighted_loss_is_what_is_balanced() -> None:
    figures = health_metrics(weighted())
    assert figures["expansion_share"] == pytest.approx(0.5, abs=0.06)
    assert figures["beta"] == 0.9
    assert figures["weight_ess_median"] == 0.2
    assert figures["grad_scale_median"] == 0.95
    assert figures["starved_share"] == 0
    assert figures["loss_snr"] == pytest.approx(-2, abs=0.05)
    assert state(weighted(), **CONVERGED) == "convergent"


def test_terms_beside_the_contrast_are_left_out_where_it_is_logged() -> None:
    columns = weighted(loss=5 + RNG.normal(size=N) / 800)
    assert health_metrics(columns)["contraction_share"] == 1
    columns["contrast"] = RNG.normal(size=N)
    assert health_metrics(columns)["contraction_share"] == pytest.approx(0.5, abs=0.06)


def test_several_sources() -> None:
    """Of a shared contrast d_source is the first one's own; the loss weighs both."""
    columns = steady(
        d=-5 + RNG.normal(size=N),
        d_source=-9 + RNG.normal(size=N),
        d_1=RNG.normal(size=N),
        d_std_1=0.5,
        loss=RNG.normal(size=N),
    )
    figures = health_metrics(columns)
    assert figures["expansion_share"] == pytest.approx(0.5, abs=0.06)
    assert figures["loss_snr"] == pytest.approx(-3, abs=0.1)
    assert figures["loss_variance_1"] == 0.25
    assert figures["d_size"] == pytest.approx(5, abs=0.1)
    exploding = steady(d_1=np.exp(np.linspace(0, 60, N)), loss=RNG.normal(size=N))
    assert state(exploding) == "diverging"


def test_two_contrasts_are_starved_together_only() -> None:
    scale = np.where(np.arange(N) % 4 == 0, 1.0, 1e-9)
    columns = weighted(grad_scale=scale)
    assert health_metrics(columns)["starved_share"] == 0.75
    columns |= {
        name: np.full(N, value)
        for name, value in {
            "beta_1": 0.5,
            "weight_ess_1": 0.4,
            "largest_weight_1": 0.2,
            "grad_scale_1": 0.5,
        }.items()
    }
    figures = health_metrics(columns)
    assert figures["starved_share"] == 0
    assert figures["weight_ess_median_1"] == 0.4


def test_weights_over_a_window() -> None:
    found = weight_health([0.1, 0.2, 0.9], [0.5, 0.1, 0.2], [1.0, 0.0, 0.3])
    assert (found.ess, found.largest, found.grad_scale) == (0.2, 0.2, 0.3)
    assert found.least_ess == 0.1
    assert starved_share([[LEAST_GRAD_SCALE, 0.04, 1.0, 0.0]]) == 0.5
    assert starved_share([[0.0, 0.0, 1.0], [1.0, 0.0, math.nan]]) == pytest.approx(2 / 3)


def test_nothing_is_said_of_nothing() -> None:
    assert health_metrics({}) == {}
    assert health_metrics({"d": np.array([1.0])}) == {}
    assert training_state({}) is None
    assert training_state({"kl": 0.1}) is None


def test_a_short_run_has_no_oscillation() -> None:
    figures = health_metrics({"d": RNG.normal(size=300)})
    assert "variance_ratio" not in figures
    assert figures["health_window"] == 300


def test_chains_without_steps_have_no_gradients_to_correlate() -> None:
    figures = health_metrics(steady(r=0.0))
    assert "d_lag_1" in figures
    assert not {"r_lag_1", "d_then_r", "d_with_r"} & figures.keys()


def test_d_alone_does_not_tell_convergent_from_non_convergent() -> None:
    assert state(steady()) is None
    assert state(steady(), **CONVERGED) == "convergent"
    assert state(steady(), **DRIFTING) == "non-convergent"
    assert state(steady(), **OVERSATURATED) == "oversaturated"
    assert state(steady(), u_shift=math.nan, u_drift=0.0) == "non-convergent"
    assert state(steady(), lost_chains_long=3) == "non-convergent"


def test_strong_oscillation_without_long_chains_is_non_convergent() -> None:
    e = RNG.normal(size=N + 1)
    strong = steady(d=e[1:] - e[:-1])
    assert state(strong) == "non-convergent"
    found = training_state({**health_metrics(strong), **CONVERGED})
    assert found is not None
    assert found.state == "convergent"
    assert "the learning rate is high" in found.sentence


def test_lasting_expansion() -> None:
    """Of a few nats it keeps a run from being convergent; of a hundred the run diverges."""
    little = steady(d=-np.abs(RNG.normal(size=N)))
    assert state(little) == "non-convergent"
    assert state(little, **CONVERGED) == "non-convergent"
    assert state(little, **OVERSATURATED) == "oversaturated"
    assert state(steady(d=-300 + RNG.normal(size=N)), **CONVERGED) == "diverging"
    # With beta d is that large where no negative is competitive.
    starved = weighted(d=-300 + RNG.normal(size=N), loss=-1e-9, grad_scale=1e-9)
    assert state(starved, **CONVERGED) == "starved"


def test_lasting_contraction_is_oversaturated() -> None:
    assert state(steady(d=3 + RNG.normal(size=N))) == "oversaturated"


def test_explosions() -> None:
    d = RNG.normal(size=N)
    d[-150:] *= 1e6
    found = training_state({**health_metrics(steady(d=d)), **CONVERGED})
    assert found is not None
    assert found.state == "diverging"
    assert "grew" in found.figure


def test_what_is_not_finite_is_diverging_and_kept() -> None:
    d = RNG.normal(size=N)
    d[-1] = math.nan
    figures = health_metrics(steady(d=d))
    assert math.isnan(figures["d_growth"])
    assert math.isnan(figures["variance_ratio"])
    found = training_state(figures)
    assert found is not None
    assert found.state == "diverging"
    assert "nan" in found.figure


def test_starved_from_half_of_the_updates_on() -> None:
    many = np.where(np.arange(N) % 5 < 3, 1e-3, 1.0)
    assert state(weighted(grad_scale=many), **CONVERGED) == "starved"
    few = np.where(np.arange(N) % 5 < 2, 1e-3, 1.0)
    assert state(weighted(grad_scale=few), **CONVERGED) == "convergent"


def test_states_come_with_figures_and_advice() -> None:
    found = training_state({**health_metrics(weighted()), **CONVERGED, "rhat": 1.7})
    assert found is not None
    for text in ("of the last 2,000 updates", "weak oscillation", "+0.1", "-0.05", "R-hat 1.7"):
        assert text in found.figure
    assert "do not mix between modes" in found.sentence
    assert "hotter than the model" in found.sentence
    assert found.advice == ADVICE["convergent"]
    assert len(set(ADVICE.values())) == 5
