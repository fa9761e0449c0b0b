"""The doctor: its figures against closed forms, its verdicts on packaged and failing recipes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from coldness.chains import Bank, GaussianNoise, Source
from coldness.cli.doctor import warning_lines
from coldness.data import EmbeddedRings, KnownDensity, Mixture2D, Rings2D
from coldness.doctor import combinations, examination, examine, known_scale, too_noisy
from coldness.doctor.clamp import outside
from coldness.doctor.curvature import LIMIT, largest_curvature
from coldness.doctor.narrowest import LocalScale, narrowest_scale, share_of_copies
from coldness.doctor.reach import reach
from coldness.doctor.start import drift
from coldness.doctor.steps import path_length
from coldness.doctor.trial import Trial, fresh_training, run_trial
from coldness.doctor.updates import cost, duration, numbers, starvation, update_size
from coldness.energies import Coordinates, Energy, Gaussian
from coldness.kernels import HMC, GeometricSteps, Langevin
from coldness.limits import effective_fraction
from coldness.objectives import Contrast
from coldness.training import Settings
from coldness.training.recipe import packaged
from small import read, same, settings

HEALTHY = [
    name
    for name in packaged()
    if not name.startswith(("failures/", "cifar10", "imagenet32", "celeba64"))
]
"""All but those of images that are not here."""

VISIBLE = {
    "failures/degenerate-dimension": "noise",
    "failures/energy-drift": "unguided",
    "failures/large-step": "noise",
    "failures/learning-rate": "learning_rate",
    "failures/shifted-start": "reach",
    "failures/starved": "starved",
}
"""Failing recipes whose cause can be seen before training, and how the doctor calls it."""

HIDDEN = {f"failures/{name}" for name in ("adam-amplification", "nan-gradient", "poisoned-bank")}
"""Those that break in the middle of training, by an accident that no setting shows."""


@pytest.fixture(scope="module")
def moons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    g = torch.Generator().manual_seed(5)
    t, lower = math.pi * torch.rand(2000, generator=g), (torch.rand(2000, generator=g) < 0.5).int()
    arc = torch.stack([t.cos(), t.sin()], 1) * (1 - 2 * lower)[:, None]
    arc = arc + lower[:, None] * torch.tensor([1.0, 0.5])
    path = tmp_path_factory.mktemp("points") / "moons.npy"
    np.save(path, (arc + 0.08 * torch.randn(2000, 2, generator=g)).numpy())
    return path


OWN_DATA = ("points", "table")
"""Recipes that need a file of the user."""


def recipe(name: str, *words: str) -> Settings:
    return read(name, *words).parts()


_scales: dict[tuple[object, ...], LocalScale] = {}


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes with the same data measure its scale once."""

    def measured(y: Tensor) -> LocalScale:
        key = (tuple(y.shape), float(y.sum()), float(y.flatten()[0]))
        if key not in _scales:
            _scales[key] = narrowest_scale(y)
        return _scales[key]

    monkeypatch.setattr(examination, "narrowest_scale", measured)


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_speaks_against_a_packaged_recipe(name: str, moons: Path) -> None:
    found = examine(recipe(name, *([f"--data.path={moons}"] if name in OWN_DATA else [])))
    assert [finding.line for finding in found.findings] == []
    assert all(math.isfinite(value) for value in found.metrics.values())


@pytest.mark.usefixtures("once")
@pytest.mark.parametrize(("name", "cause"), VISIBLE.items())
def test_a_failing_recipe_is_flagged_by_its_cause(name: str, cause: str) -> None:
    assert cause in {finding.cause for finding in examine(recipe(name)).findings}


def test_every_failing_recipe_is_accounted_for() -> None:
    assert {name for name in packaged() if name.startswith("failures/")} == HIDDEN | set(VISIBLE)


def rotated(narrow: float) -> Callable[[int, torch.Generator], Tensor]:
    """A Gaussian that is narrow along (1, -1, 1) and of width 1 across."""
    q, _ = torch.linalg.qr(torch.tensor([[1.0, 1.0, 0.0], [-1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))

    def sample(count: int, generator: torch.Generator) -> Tensor:
        y = torch.randn(count, 3, generator=generator) * torch.tensor([narrow, 1.0, 1.0])
        return y @ q.T

    return sample


@pytest.mark.parametrize(
    ("sample", "scale"),
    [
        pytest.param(Mixture2D().sample, 0.15, id="mixture2d"),
        pytest.param(Rings2D().sample, 0.15, id="rings2d"),
        pytest.param(EmbeddedRings(4, narrow_std=0.002).sample, 0.002, id="degenerate"),
        pytest.param(rotated(1e-3), 1e-3, id="oblique"),
        pytest.param(rotated(1.0), 1.0, id="isotropic"),
    ],
)
def test_the_narrowest_scale_is_found(
    sample: Callable[[int, torch.Generator], Tensor], scale: float, generator: torch.Generator
) -> None:
    """To within what the docstring states."""
    found = narrowest_scale(sample(2**14, generator))
    assert found.local
    assert 0.91 < found.scale / scale < 1.16


def test_rings_hidden_among_wide_coordinates_are_found(generator: torch.Generator) -> None:
    data = EmbeddedRings(5)
    x = data.sample(2**14, generator)
    known = float((data.local_scales / x.std(0)).min())
    assert 0.91 < narrowest_scale((x - x.mean(0)) / x.std(0)).scale / known < 1.16


def test_a_minority_that_is_narrow_counts(generator: torch.Generator) -> None:
    x = torch.randn(8000, 2, generator=generator)
    narrow = torch.rand(8000, generator=generator) < 0.15
    x[narrow] = 3 + 0.02 * x[narrow]
    assert narrowest_scale(x).scale == pytest.approx(0.02, rel=0.1)


def test_a_constant_coordinate_has_no_width(generator: torch.Generator) -> None:
    x = torch.cat([torch.randn(4000, 2, generator=generator), torch.ones(4000, 1)], 1)
    assert narrowest_scale(x).scale == 0


def test_too_many_dimensions_give_the_narrowest_coordinate(generator: torch.Generator) -> None:
    x = torch.randn(200, 50, generator=generator) * torch.arange(1, 51)
    assert narrowest_scale(x) == LocalScale(pytest.approx(float(x.std(0).min())), local=False)


def test_a_scale_that_is_not_a_number_is_not_hidden() -> None:
    assert math.isnan(narrowest_scale(torch.full((100, 2), math.nan)).scale)
    assert list(too_noisy(settings(), math.nan))


def test_copies_are_counted_each() -> None:
    x = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [2.0, 1.0]])
    assert share_of_copies(x) == 0.75
    assert share_of_copies(x[2:]) == 0


def test_data_with_copies_is_flagged(tmp_path: Path, generator: torch.Generator) -> None:
    x = torch.randn(400, 2, generator=generator)
    np.save(tmp_path / "x.npy", torch.cat([x, x[:60]]).numpy())
    words = [f"--data.path={tmp_path / 'x.npy'}", "--energy.net.widths=[8]", "--sources.0.steps=3"]
    causes = [f.cause for f in examine(recipe("points", *words)).findings]
    assert causes == ["copies"]
    noisy = examine(recipe("points", *words, "--data_noise=0.05"))
    assert [f.cause for f in noisy.findings] == []


@pytest.mark.parametrize("kind", ["none", "diagonal"])
def test_curvature_of_a_quadratic_is_exact(kind: str, generator: torch.Generator) -> None:
    """U = x^T A x / 2 in coordinates x = L y has the Hessian L^T A L; eigenvalues are 12:1, 3:1."""
    energy = Gaussian([0.0, 0.0], [[0.04, 0.01], [0.01, 0.5]], coldness=2.0)
    scale = torch.ones(2, dtype=torch.float64)
    if kind == "diagonal":
        scale = torch.tensor([0.5, 3.0], dtype=torch.float64)
        energy.coordinates = Coordinates("diagonal", torch.zeros_like(scale), scale)
    hessian = 2 * torch.linalg.inv(energy.factor @ energy.factor.T)
    expected = torch.linalg.eigvalsh(scale[:, None] * hessian * scale).max()
    x = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    found = largest_curvature(energy, x, 0.3, generator)
    assert torch.allclose(found, expected.expand(7), rtol=1e-6)


class Saddle(Energy):
    """E = (x_1^2 - 5 x_2^2) / 2."""

    def energy(self, x: Tensor) -> Tensor:
        return (x[:, 0].square() - 5 * x[:, 1].square()) / 2


class Kink(Energy):
    """E = |x_1|: its Hessian is 0 wherever there is one."""

    def energy(self, x: Tensor) -> Tensor:
        return x[:, 0].abs()


def test_curvature_is_the_largest_and_not_the_largest_in_size(generator: torch.Generator) -> None:
    x = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    found = largest_curvature(Saddle(), x, 0.1, generator)
    assert torch.allclose(found, torch.ones(5, dtype=torch.float64), atol=1e-2)


def test_curvature_sees_a_kink_within_a_step(generator: torch.Generator) -> None:
    """Across the kink the gradient changes by 2 over 2d: 1/d; out of its reach by nothing."""
    x = torch.tensor([[0.0, 1.0], [0.5, 0.0]], dtype=torch.float64)
    found = largest_curvature(Kink(coldness=3.0), x, 0.1, generator)
    assert found.tolist() == pytest.approx([30.0, 0.0])


def test_the_limit_is_where_steps_begin_to_grow(generator: torch.Generator) -> None:
    """Langevin on N(0, 1) from far out: the mean is multiplied by 1 - h a step."""
    start = torch.full((50, 1), 1e6, dtype=torch.float64)
    for h, grows in ((0.95 * LIMIT, False), (1.05 * LIMIT, True)):
        source = Source(GaussianNoise(), Langevin(h), 20)
        ends = source.carry_on(Gaussian([0.0], [[1.0]]), start, 20, generator).x
        assert bool((ends.abs() > start).all()) is grows
        assert bool((ends.abs() < start).all()) is not grows


class Slope(Energy):
    """E = w . x with weights that are trained."""

    def __init__(self, weights: list[float], coldness: float = 1.0) -> None:
        super().__init__(coldness)
        self.w = nn.Parameter(torch.tensor(weights))

    def energy(self, x: Tensor) -> Tensor:
        return x @ self.w


def sloped(weights: list[float], **changes: object) -> Settings:
    """mixture2d with an energy whose gradient is the same everywhere; coldness 10, h 0.02."""
    own = settings("mixture2d", "--contrast.beta=0", "--learning_rate=1")
    source = replace(own.sources[0], kernel=Langevin(0.02))
    return replace(own, energy=Slope(weights, 10.0), sources=[source], **changes)


def test_drift_is_h_times_the_slope_over_the_noise() -> None:
    given = sloped([0.3, 0.4])
    check = drift(given, 0, given.energy, torch.zeros(3, 2))
    assert check.metrics["drift_0"] == pytest.approx(0.02 * 10 * 0.5 / (2 * 0.02 * 2) ** 0.5)
    assert not check.findings
    for weights, cause in (([6.0, 8.0], "drift"), ([1e-5, 0.0], "flat")):
        given = sloped(weights)
        (finding,) = drift(given, 0, given.energy, torch.zeros(3, 2)).findings
        assert finding.cause == cause


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
def test_an_update_is_measured_in_noises_of_a_step(rate: float) -> None:
    """With SGD the slope moves by rate times the difference of means; the drift by c h of that."""
    given = sloped([0.0, 0.0], optimiser=lambda p: torch.optim.SGD(p, lr=rate))
    training = fresh_training(given)
    before = training.energy.w.detach().clone()
    trial = run_trial(training, [torch.zeros(4, 2)], iterations=1)
    moved = float((training.energy.w.detach() - before).norm())
    assert trial.update == [pytest.approx(10 * moved * (0.02 / 4) ** 0.5)]
    assert (moved > 0) is (rate > 0)
    assert not given.energy.w.detach().any()  # of the copy, not of the run


def test_a_trial_runs_at_the_highest_learning_rate() -> None:
    warm = "{class_path: WarmUp, init_args: {iterations: 20, then: 0.5}}"
    given = settings("mixture2d", f"--learning_rate={warm}", "--optimiser.lr=0.1")
    assert fresh_training(given).iterate()["learning_rate"] == pytest.approx(0.05)


def a_trial(**changes: object) -> Trial:
    fine = Trial({"d": -1.0, "grad_scale": 0.9}, [0.1], 0.01, 300.0, "Adam", None)
    return replace(fine, **changes)


def test_findings_of_a_trial() -> None:
    given = settings("mixture2d")
    assert not update_size(a_trial()).findings
    for size in (1.5, math.inf, math.nan):
        check = update_size(a_trial(update=[0.1, size]))
        assert [f.cause for f in check.findings] == ["learning_rate"]
        assert "source 1" in check.findings[0].line
    gone = a_trial(metrics={"d": -80.0, "grad_scale": 1e-6})
    starved = starvation(given, gone, out_of_reach=False)
    assert [f.cause for f in starved.findings] == ["starved", "amplified"]
    kept = starvation(replace(given, least_grad_scale=0.05), gone, out_of_reach=False)
    assert [f.cause for f in kept.findings] == ["starved"]
    plain = starvation(given, replace(gone, optimiser="SGD"), out_of_reach=False)
    assert [f.cause for f in plain.findings] == ["starved"]
    far = starvation(given, a_trial(), out_of_reach=True)
    assert [f.cause for f in far.findings] == ["amplified"]
    assert not starvation(given, a_trial(), out_of_reach=False).findings
    bad = numbers(a_trial(not_finite=3, metrics={"d": math.nan, "grad_scale": 1.0}))
    assert "at iteration 3 (d)" in bad.findings[0].line


def test_the_cost_is_that_of_all_iterations() -> None:
    figures = cost(settings("mixture2d", "--iterations=500"), a_trial()).metrics
    assert figures["seconds"] == pytest.approx(5.0)
    assert "compiled" in cost(recipe("mixture2d"), a_trial()).text
    assert "compiled" not in cost(recipe("mixture2d", "--compile=never"), a_trial()).text
    assert [duration(s) for s in (12.3, 600.0, 7200.0)] == ["12 s", "10 min", "2.0 h"]


def test_how_far_chains_get() -> None:
    """Noises of the steps, end to end; of leapfrog steps, their own length."""
    given = settings("mixture2d")
    h = 0.02
    plain = Source(GaussianNoise(), Langevin(h), 5)
    assert path_length(given, plain, 3) == pytest.approx(5 * (2 * h * 3) ** 0.5)
    falling = replace(plain, steps=2, step_schedule=GeometricSteps(4.0), step_scale=0.25)
    expected = (2 * h * 3) ** 0.5 + (2 * 0.25 * h * 3) ** 0.5
    assert path_length(given, falling, 3) == pytest.approx(expected)
    hmc = Source(GaussianNoise(), HMC(0.3, leapfrog_steps=7), 2)
    assert path_length(given, hmc, 4) == pytest.approx(2 * 7 * 0.3 * 2)
    assert path_length(given, replace(plain, steps=0), 3) == 0
    of_run = 1000, 10
    assert plain.visits(*of_run) == 1
    assert replace(plain, start=Bank(500)).visits(*of_run) == 20
    assert replace(plain, start=Bank(500, refresh=0.1)).visits(*of_run) == 10
    assert replace(plain, start=Bank(500, refresh=0.01)).visits(*of_run) == 20


@pytest.mark.parametrize(
    ("words", "flagged"),
    [
        (["--sources.0.start.mean=[6,6]"], True),
        (["--sources.0.start.mean=[6,6]", "--sources.0.steps=400"], False),
        (["--sources.0.start.mean=[6,6]", "--sources.0.start=DataStart"], False),
        (["--sources.0.steps=0"], False),  # the start itself covers the data
        (["--sources.0.steps=1"], False),
        (["--sources.0.steps=1", "--contrast.beta=0"], True),  # chains that cannot arrive
        (["--sources.0.steps=20", "--contrast.beta=0"], False),
    ],
)
def test_reach(words: list[str], flagged: bool, generator: torch.Generator) -> None:
    given = recipe("mixture2d", *words)
    x = given.data.sample(1000, generator)
    checks = reach(given, x, Coordinates(), generator)
    assert any(check.findings for check in checks) is flagged


def test_one_source_that_reaches_is_enough_with_weights(generator: torch.Generator) -> None:
    given = recipe("mixture2d")
    far = replace(given.sources[0], start=GaussianNoise(9.0))
    x = given.data.sample(1000, generator)
    for beta, flagged in ((0.9, False), (0.0, True)):
        contrast = replace(given.contrast, beta=beta)
        both = replace(given, sources=[far, given.sources[0]], contrast=contrast)
        checks = reach(both, x, Coordinates(), generator)
        assert [bool(check.findings) for check in checks] == [flagged, False]


def test_a_box_that_does_not_hold_the_data(generator: torch.Generator) -> None:
    given = settings("mixture2d")
    x = given.data.sample(500, generator)
    for high, flagged in ((0.5, True), (3.0, False)):
        source = replace(given.sources[0], kernel=Langevin(0.001, clamp=(-3.0, high)))
        (check,) = outside(replace(given, sources=[source]), x)
        assert check.metrics["outside_0"] == float((x > high).any(1).float().mean())
        assert bool(check.findings) is flagged
    assert not outside(given, x)


@pytest.mark.parametrize(
    ("words", "causes"),
    [
        ([], []),
        (["--contrast.beta=0"], []),
        (["--contrast.beta=0", "--sources.0.steps=0"], ["unguided"]),
        (["--contrast.beta=0", "--contrast.tempering=0"], ["unguided"]),
        (["--sources.0.steps=0"], []),
        (["--sources.0.start=DataStart", "--sources.0.steps=0"], ["copies"]),
        (["--contrast.tempering=-1"], ["uphill"]),
        (["--contrast.beta=1.5"], ["uphill"]),
        (["--contrast.beta=-0.5"], []),
        (["--contrast.beta=-1"], ["variance"]),
        (["--sources.0.start={class_path: Bank, init_args: {capacity: 1000}}"], ["bank"]),
        (["--sources.0.start={class_path: Bank, init_args: {capacity: 100}}"], []),
    ],
)
def test_combinations_that_are_known_to_go_wrong(words: list[str], causes: list[str]) -> None:
    given = settings("mixture2d", *words)
    assert [finding.cause for finding in combinations(given)] == causes
    assert len(list(warning_lines(given))) == len(causes)


@pytest.mark.parametrize(("beta", "flagged"), [(0.0, False), (0.6, False), (0.9, True)])
def test_too_large_a_beta_for_the_dimensions(beta: float, flagged: bool) -> None:
    given = settings("rings10d-noise", f"--contrast.beta={beta}")
    assert ("hopeless" in [finding.cause for finding in combinations(given)]) is flagged


@pytest.mark.parametrize(("t", "beta"), [(0.7, 0.3), (1.0, 0.2), (1.0, -0.1)])
def test_the_effective_share_is_that_of_a_gaussian(t: float, beta: float) -> None:
    dimensions = 6
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400_000, dimensions, generator=generator, dtype=torch.float64) / math.sqrt(t)
    u = x.square().sum(1) / 2
    w = Contrast(variant="no_positive").weights(u[:1], u, beta).w
    share = float(1 / (w.square().sum() * len(w)))
    assert share == pytest.approx(effective_fraction(t, beta, dimensions), rel=0.01)


def test_the_scale_of_a_law_is_that_of_its_coordinates() -> None:
    given = settings("rings10d")
    data = given.data
    assert isinstance(data, KnownDensity)
    x = data.sample(10_000, torch.Generator().manual_seed(given.seed))
    assert known_scale(given) == pytest.approx(float((data.local_scales / x.std(0)).min()))
    assert known_scale(replace(given, preconditioner="none")) == pytest.approx(0.01)
    assert known_scale(replace(given, preconditioner="full")) is None


def test_noise_is_compared_at_both_ends_of_training() -> None:
    falling = "--data_noise={class_path: Linear, init_args: {start: 1.0, end: 0.0}}"
    given = settings("mixture2d", "--sources.0.kernel.step_size=0.125", falling)
    assert [finding.cause for finding in too_noisy(given, 0.15)] == ["noise"]
    kept = replace(given, data_noise=0.6)
    assert not list(too_noisy(kept, 0.15))


@pytest.mark.usefixtures("once")
def test_examining_changes_nothing() -> None:
    given = settings("mixture2d", "--sources.0.start={class_path: Bank, init_args: {capacity: 50}}")
    before = {name: value.clone() for name, value in given.energy.state_dict().items()}
    state = torch.random.get_rng_state()
    first = examine(given)
    assert same(given.energy.state_dict(), before)
    assert isinstance(given.sources[0].start, Bank)
    assert not len(given.sources[0].start.x)
    assert torch.equal(torch.random.get_rng_state(), state)
    again = examine(given).metrics
    timed = {"seconds", "seconds_per_iteration", "megabytes"}
    assert {k: v for k, v in again.items() if k not in timed} == {
        k: v for k, v in first.metrics.items() if k not in timed
    }


@pytest.mark.usefixtures("once")
def test_numbers_that_are_not_finite_are_told() -> None:
    words = ["--optimiser={class_path: SGD, init_args: {lr: 1.0e6}}", "--contrast.beta=0"]
    causes = {finding.cause for finding in examine(settings("mixture2d", *words)).findings}
    assert {"learning_rate", "not_finite"} <= causes


@pytest.mark.usefixtures("once")
def test_a_step_divided_by_a_norm_is_measured_as_it_is() -> None:
    """Without a step of its own there is no noise to compare, but the rest is looked at."""
    word = "--sources.0.adaptation=InverseNormSteps"
    found = examine(settings("rings10d-data", "--sampler=null", word))
    assert found.metrics["drift_0"] > 0
    assert "noise per step" not in next(c.text for c in found.checks if c.name == "data")
