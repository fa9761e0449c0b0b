"""Remedies stay inside the range that the doctor accepts, and advice names the settings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from coldness.diagnostics.weights import effective_fraction_at, largest_beta_of
from coldness.doctor.combinations import combinations
from coldness.guard.remedies import (
    Cause,
    LargerBeta,
    MoreSteps,
    NewSeed,
    NoisyData,
    Relief,
    Remedy,
    SmallerRate,
    SmallerSteps,
    default_ladder,
)
from coldness.limits import (
    GOOD_FRACTION,
    LEAST_NEGATIVES,
    LEAST_NOISE,
    LEAST_RATE,
    MOST_STEPS,
    effective_fraction,
    largest_beta,
    least_fraction,
)
from coldness.objectives import Contrast
from coldness.report.events import story
from coldness.runs.events import read_events, read_lines
from coldness.training import build, fit
from coldness.training.advice import advice
from coldness.training.effective import effective
from small import same, settings, trained, weights

CAUSES: list[Cause] = ["not_finite", "gap", "gradient", "saturation", "starvation"]

JEM = ("digits-jem", "--energy.net.widths=[16]", "--sources.0.start.init_args.capacity=100")


# Limits of beta.


@pytest.mark.parametrize("dimensions", [1, 2, 10, 768])
@pytest.mark.parametrize("tempering", [None, 0.1, 0.5, 1.0])
def test_the_largest_beta_keeps_the_fraction(dimensions: int, tempering: float | None) -> None:
    beta = largest_beta(dimensions, tempering)
    t = 1 - beta if tempering is None else tempering
    found = effective_fraction(t, beta, dimensions)
    assert found >= GOOD_FRACTION * (1 - 1e-9)
    if tempering is None or beta < largest_beta(dimensions):
        assert found == pytest.approx(GOOD_FRACTION)


@pytest.mark.parametrize(
    ("negatives", "fraction"), [(1, 0.1), (20, 0.1), (64, 1 / 32), (100, 0.02)]
)
def test_two_effective_negatives_or_a_tenth_are_kept(negatives: int, fraction: float) -> None:
    assert least_fraction(negatives) == pytest.approx(fraction)


@pytest.mark.parametrize("chains", [10, 100, 1000])
def test_the_doctor_and_the_guard_have_one_limit(chains: int) -> None:
    """The doctor's finding begins where the effective fraction falls below least_fraction."""
    edge = math.sqrt(1 - least_fraction(chains) ** (2 / 10))  # (1 - beta^2)^(D/2) with D = 10
    for beta, flagged in ((edge * (1 - 1e-6), False), (edge * (1 + 1e-6), True)):
        given = settings("rings10d-noise", f"--contrast.beta={beta}", f"--sources.0.count={chains}")
        assert ("few" in [finding.cause for finding in combinations(given)]) is flagged


POTENTIALS = st.lists(st.floats(-50, 50), min_size=3, max_size=40)


@given(POTENTIALS, st.floats(0, 0.9), st.floats(0.05, 0.9), st.floats(1.0, 1e4))
def test_beta_of_a_batch_is_where_its_effective_fraction_is(
    potentials: list[float], beta: float, fraction: float, coldness: float
) -> None:
    """By the weights of the contrast itself, at the old and at the new beta."""
    u = coldness * torch.tensor(potentials, dtype=torch.float64)

    def ess(value: float) -> float:
        w = Contrast().weights(u[:1], u, value).w
        return float(1 / (w.square().sum() * len(w)))

    found = largest_beta_of(u, Contrast().weights(u[:1], u, beta).w, beta, fraction)
    assert beta <= found <= 1
    if ess(beta) < fraction - 1e-9:
        assert found == beta
    elif ess(beta) > fraction + 1e-9:
        assert ess(found) >= fraction - 1e-6
        above = found + 1e-3 * max(found - beta, 1e-9)
        assert found == 1 or ess(above) <= fraction + 1e-6


def test_a_normal_spread_gives_the_log_normal_law() -> None:
    """U ~ N(0, s^2): the effective fraction is exp(-(beta s)^2)."""
    rng = np.random.default_rng(0)
    u = 5000 * rng.normal(size=100_000)
    for beta in (1e-4, 2e-4):
        found = effective_fraction_at(u, np.ones_like(u), beta)
        assert found == pytest.approx(math.exp(-((beta * 5000) ** 2)), rel=0.05)
    expected = math.sqrt(math.log(10)) / 5000
    assert largest_beta_of(u, np.ones_like(u), 0.0, 0.1) == pytest.approx(expected, rel=0.05)


def test_potentials_that_are_not_finite_allow_no_step() -> None:
    u = np.array([1.0, math.nan, 2.0])
    assert largest_beta_of(u, np.ones(3), 0.2, 0.1) == 0.2


# Ladders.


class Run:
    """A run with these betas whose negatives allow some larger ones."""

    def __init__(self, betas: list[float], dimensions: int, tempering: float | None, most: float):
        self.given, self.dimensions, self.tempering, self.most = betas, dimensions, tempering, most

    def betas(self, relief: Relief) -> list[float]:
        return [relief.beta_of(beta, self.dimensions, self.tempering) for beta in self.given]

    def largest_beta(self) -> float:
        return self.most


def climb(ladder: list[Remedy], run: Run) -> list[Relief]:
    """All reliefs on the way to where no remedy acts any more, apart from a new seed."""
    reliefs = [Relief()]
    for _ in range(200):
        before = reliefs[-1]
        for remedy in ladder:
            new = remedy.strengthen(reliefs[-1], run)
            if new is not None and new != reliefs[-1]:
                reliefs.append(new)
        if reliefs[-1] == before:
            return reliefs
    raise AssertionError("the ladder has no end")


FACTORS = st.floats(0.05, 0.95)
REMEDIES = st.one_of(
    st.just(NewSeed()),
    st.builds(SmallerRate, factor=FACTORS),
    st.just(LargerBeta()),
    st.builds(MoreSteps, factor=st.integers(2, MOST_STEPS)),
    st.builds(NoisyData, factor=st.floats(0.5, 4)),
    st.builds(SmallerSteps, factor=FACTORS),
)


@hypothesis_settings(max_examples=60)
@given(
    st.lists(REMEDIES, min_size=1, max_size=8),
    st.lists(st.floats(-0.5, 0.95), min_size=1, max_size=3),
    st.integers(1, 3072),
    st.one_of(st.none(), st.floats(0.05, 1)),
    st.floats(0, 1),
)
def test_no_ladder_leaves_the_range_of_the_doctor(
    ladder: list[Remedy],
    betas: list[float],
    dimensions: int,
    tempering: float | None,
    most: float,
) -> None:
    run = Run(betas, dimensions, tempering, most)
    for relief in climb(ladder, run):
        assert relief.rate >= LEAST_RATE * (1 - 1e-6)
        assert 1 <= relief.steps <= MOST_STEPS
        assert relief.noise >= LEAST_NOISE * (1 - 1e-6)
        for own, beta in zip(betas, run.betas(relief), strict=True):
            assert beta >= own
            if beta > own:
                t = 1 - beta if tempering is None else tempering
                assert beta <= most
                assert effective_fraction(t, beta, dimensions) >= GOOD_FRACTION * (1 - 1e-9)


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("recipe", ["mixture2d", "rings10d", "digits-jem"])
def test_the_doctor_finds_nothing_new_at_the_end_of_the_default_ladder(
    recipe: str, cause: Cause
) -> None:
    s = settings(recipe)
    training = build(s)
    training.check()
    relief = Relief()
    ladder = [remedy for remedy in default_ladder() if cause in remedy.treats]
    for _ in range(12):
        for remedy in ladder:
            relief = remedy.strengthen(relief, training) or relief
    assert all(remedy.strengthen(relief, training) in (None, relief) for remedy in ladder)
    assert relief.steps <= MOST_STEPS
    now = effective(s, relief, 0)
    before = {finding.cause for finding in combinations(s)}
    s.sources[:] = now.sources
    for source, beta in zip(s.sources, now.betas, strict=True):
        source.beta = beta
    assert {finding.cause for finding in combinations(s)} <= before


# A classifier whose potentials are far apart.


@pytest.mark.parametrize("given_beta", [1e-4, 0.00125])
def test_a_larger_beta_leaves_a_classifier_its_negatives(given_beta: float) -> None:
    """Its chains do not depend on beta, so the same negatives are weighted again."""
    options = ("--temperature.noise=0.01", "--batch_size=64", f"--contrast.beta={given_beta}")
    training = build(settings(*JEM, *options))
    for _ in range(3):
        training.iterate()
    before = Relief()
    relief = LargerBeta().strengthen(before, training)
    assert relief is not None
    (old,), (new,) = training.betas(before), training.betas(relief)
    assert old == given_beta
    assert new > old
    said = LargerBeta().said(before, relief, training)
    assert said.startswith(f"larger beta ({old:.3g} -> {new:.3g}, keeps at least 2")
    training.relieve(relief)
    metrics = training.iterate()
    assert metrics["beta"] == new
    assert float(metrics["weight_ess"]) * 64 >= LEAST_NEGATIVES * (1 - 1e-4)  # in float32
    assert largest_beta(64) > 10 * new  # what the dimensions alone would allow
    assert LargerBeta().strengthen(relief, training) is None


def test_measuring_the_negatives_changes_nothing() -> None:
    one, other = build(settings("mixture2d")), build(settings("mixture2d"))
    for training in (one, other):
        training.iterate()
    assert 0.9 <= one.largest_beta() <= 1
    for training in (one, other):
        training.iterate()
    assert same(weights(one), weights(other))


FAR = "--sources.0.start={class_path: GaussianNoise, init_args: {mean: 60.0, std: 0.1}}"
TAUGHT = (*JEM[:2], "--contrast.beta=0.0125", "--iterations=120", "--guard.policy=warn")


@pytest.mark.parametrize("starved", [True, False])
def test_a_classifier_is_watched_for_starvation(starved: bool, tmp_path: Path) -> None:
    far = [FAR] if starved else []
    trained(tmp_path, *TAUGHT, *far)
    seen = [e["cause"] for e in read_lines(tmp_path / "events.jsonl")]
    assert ("starvation" in seen) is starved


# Advice.


def test_advice_is_one_sentence_with_values() -> None:
    s = settings("mixture2d", "--contrast.beta=0.2")
    assert advice(s, Relief(), 1e-3, 0) == ""
    assert advice(s, Relief(rate=0.1), 1e-3, 0) == (
        "Set optimiser.lr to 0.0001 (it is 0.001): the run recovered only with 0.1 times its "
        "learning rate."
    )
    assert advice(s, Relief(beta=1, steps=2, noise=0.5, data_noise=2), 1e-3, 0) == (
        "Set contrast.beta to 0.6 (it is 0.2) and sources.0.steps to 6 (it is 3) and "
        "sources.0.kernel.step_size to 0.000313 (it is 0.00125) and data_noise to 0.1 (it is 0): "
        "the run recovered only with these."
    )


def test_advice_reaches_terminal_and_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A learning rate that is too high by far: every time that it is restored, the run starves
    again, with five of six seeds; at a rate of 30 it depends on the processor."""
    ladder: Any = (
        "--guard.ladder=[{class_path: SmallerRate, init_args: {factor: 0.001, cool_down: 20}}]"
    )
    words = (
        "--optimiser.lr=10",
        "--iterations=200",
        "--guard.every=5",
        "--guard.snapshot_every=10",
    )
    fit(build(settings("mixture2d", *words, ladder)), tmp_path)
    sentence = "Set optimiser.lr to 0.01 (it is 10): the run recovered only with 0.001 times"
    assert sentence in caplog.text
    told = [
        e.text for episode in story(read_events(tmp_path / "events.jsonl")) for e in episode.done
    ]
    assert any(sentence in text for text in told)
