"""The trust report: no model is called trustworthy for what it fails at.

Five trained models whose truth is known, by the figures of their evaluation; models made of the
truth itself, evaluated here; the guard's events; and the page where nothing is finite.
"""

from __future__ import annotations

import html
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from coldness.energies import Energy
from coldness.files import BadFile
from coldness.metrics import QUESTIONS, find, title
from coldness.report import figures, trust, write_report
from coldness.report.events import story
from coldness.report.run import read_run
from coldness.report.training import single_updates
from coldness.runs.events import Event, guard_metrics, read_events
from coldness.runs.folder import RunFolder
from coldness.training.health import training_metrics
from coldness.training.settings import Settings
from coldness.trust import verdict_on
from coldness.trust.ood_answer import (
    ALONE_PARTLY,
    ALONE_YES,
    BEHIND_PARTLY,
    BEHIND_YES,
    ood,
)
from page_pictures import levels_in, line_in, named
from small import measured, settings

STEADY = {
    "health_window": 2000,
    "expansion_share": 0.51,
    "contraction_share": 0.49,
    "d_size": 2.1,
    "d_growth": 1.0,
    "variance_ratio": 1.0,
    "variance_ratio_limit": 0.5,
}


def sets(uniform: float, gaussian: float, shuffled: float, *best: float) -> dict[str, float]:
    names = ("uniform", "gaussian", "shuffled")
    found = dict(
        zip((f"auroc_logp_{n}" for n in names), (uniform, gaussian, shuffled), strict=True)
    )
    return found | dict(zip((f"auroc_logp_{n}_best" for n in names), best, strict=False))


PLANE = {"energy_distance_floor": 0.0004214, "samples": 4000}
TEN = {"energy_distance_floor": 0.007241, "samples": 1000}
OF_PLANE, OF_TEN = (0.9491, 0.8667, 0.7072), (0.9995, 0.7696, 0.737)

MODELS = {
    # mixture2d --contrast.beta 0: where chains of 20 steps go is all that was learned.
    "beta 0": PLANE
    | STEADY
    | sets(0.8562, 0.656, 0.5591, *OF_PLANE)
    | {"kl": 15.81, "tv": 0.6438, "u_shift": -0.7827, "u_drift": 0.0003176}
    | {"energy_distance_short": 0.0003391, "neighbours_short": 0.5051}
    | {"energy_distance_long": 0.465, "neighbours_long": 0.7394},
    # mixture2d: right in nats, and too hot in training for short chains to arrive.
    "beta 0.9": PLANE
    | STEADY
    | sets(0.9492, 0.8672, 0.7066, *OF_PLANE)
    | {"kl": 0.01681, "tv": 0.06756, "u_shift": 0.04087, "u_drift": -0.05003, "beta": 0.9}
    | {"energy_distance_short": 0.1054, "neighbours_short": 0.6146, "starved_share": 0.0}
    | {"energy_distance_long": 0.003809, "neighbours_long": 0.4944, "rhat": 1.86}
    | {"reverse_kl": 0.01777, "searched": 1.0, "tail_flat": 0.0, "mode_weight_error": 0.0001953}
    | {"mass_elsewhere": 0.0, "mass_elsewhere_error": 0.0, "log_z_crossed": 0.0},
    # rings10d-data: chains from data see nothing but data.
    "data": TEN
    | STEADY
    | sets(0.9072, 0.4716, 0.4943, *OF_TEN)
    | {"kl": 44.66, "kl_low": 42.4, "kl_high": 46.93, "slice_tv": 0.987}
    | {"log_z_low": 3369.0, "log_z_high": 3369.1, "log_z_ess_forward": 0.7864}
    | {"log_z_ess_reverse": 0.7378, "u_shift": -1.307, "u_drift": -0.06831}
    | {"energy_distance_short": 1.044, "neighbours_short": 0.915}
    | {"energy_distance_long": 0.8481, "neighbours_long": 0.9905}
    | {"expansion_share": 0.98, "contraction_share": 0.02, "d_growth": 1.248},
    # rings10d-hybrid in 4,000 iterations, in raw coordinates: a tenth of the spread is 0.01.
    "hybrid": TEN
    | STEADY
    | sets(0.8237, 0.5084, 0.5068, *OF_TEN)
    | {"kl": 104.7, "kl_low": -249.2, "kl_high": 112.3, "slice_tv": 0.9552}
    | {"log_z_low": -2499.0, "log_z_high": -2151.0, "log_z_ess_forward": 0.7877}
    | {"log_z_ess_reverse": 0.0009769, "u_shift": -0.9925, "u_drift": -0.008927}
    | {"energy_distance_short": 0.4818, "neighbours_short": 0.8455}
    | {"energy_distance_long": 1.776, "neighbours_long": 0.9775}
    | {"expansion_share": 0.7695, "contraction_share": 0.2305, "d_growth": 1.859, "d_size": 52.4},
    # mixture2d --contrast.beta 0 --sources.0.kernel.step_size 0.125, without a guard.
    "diverged": PLANE
    | STEADY
    | sets(0.7507, 0.4392, 0.5145, *OF_PLANE)
    | {"kl": 2.349e8, "tv": 1.0, "u_shift": 1.221e8, "u_drift": -3.808e6}
    | {"energy_distance_short": 3.146e7, "neighbours_short": 1.0}
    | {"energy_distance_long": 4.009e7, "neighbours_long": 1.0}
    | {
        "expansion_share": 0.9975,
        "contraction_share": 0.0025,
        "d_growth": 1971.0,
        "d_size": 3.7e15,
    },
}
"""Figures of trained models, to four digits."""

TRUTH = {
    "beta 0": ["yes", "no", "no", "no", "partly"],
    "beta 0.9": ["no", "yes", "yes", "yes", "yes"],
    "data": ["no", "no", "no", "no", "partly"],
    "hybrid": ["no", "no", "no", "no", "partly"],
    "diverged": ["no", "no", "no", "no", "no"],
}
"""Samples, long chains, density, out-of-distribution sets, training."""


def grades(metrics: dict[str, float]) -> list[str]:
    return [answer.grade for answer in verdict_on(metrics).answers.values()]


@pytest.mark.parametrize("model", MODELS)
def test_five_models_whose_truth_is_known(model: str) -> None:
    verdict = verdict_on(MODELS[model])
    assert [a.grade for a in verdict.answers.values()] == TRUTH[model]
    assert [a.topic for a in verdict.answers.values()] == list(QUESTIONS) == list(verdict.answers)
    summary = verdict.summary
    assert ("a density you can use" in summary.lower()) == (TRUTH[model][2] == "yes")
    assert ("generator" in summary.partition(":")[0]) != summary.startswith("Not a density")
    assert ("does not detect out-of-distribution points" in summary) == (TRUTH[model][3] == "no")
    assert ("not healthy" in summary) == (TRUTH[model][4] == "no")
    assert all(answer.measured and answer.text for answer in verdict.answers.values())


# Models made of the truth.


class Of(Energy):
    """A function of the truth's potential and the point; with a parameter, so that it is moved."""

    def __init__(self, given: Settings, change: str) -> None:
        super().__init__()
        self.truth, self.change = given.data.energy, change
        self.none = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def energy(self, x: Tensor) -> Tensor:
        u = self.truth(x.double())
        changed = {
            "truth": u,
            "colder": 4 * u,
            "flat": 0 * u + 0.01 * x.double().square().sum(1),
            "nan": u * math.nan,
        }
        return changed[self.change]


def evaluated(change: str, *words: str) -> dict[str, float]:
    given = settings(
        "mixture2d",
        "--evaluation.samples=1000",
        "--evaluation.grid=200",
        "--evaluation.ais.chains=256",
        "--evaluation.ais.levels=60",
        "--evaluation.adjusted=false",
        *words,
    )
    given = replace(given, energy=Of(given, change))
    return measured(given)[0]


@pytest.mark.parametrize(
    ("change", "density", "others"),
    [("truth", "yes", "yes"), ("colder", "no", "yes"), ("flat", "no", "no"), ("nan", "no", "no")],
)
def test_models_made_of_the_truth(change: str, density: str, others: str) -> None:
    """The truth at a fourth of its temperature is a wrong density that ranks as the truth does."""
    verdict = verdict_on(evaluated(change))
    assert verdict.answers["density"].grade == density
    assert verdict.answers["ood"].grade == others
    assert verdict.answers["training"].grade == "not measured"
    if change == "nan":
        assert verdict.answers["generation"].grade == verdict.answers["long_chains"].grade == "no"


def test_the_truth_from_noise_with_enough_steps_is_a_generator() -> None:
    """Three steps do not arrive; four hundred do."""
    words = ("--sources.0.kernel.step_size=0.01", "--evaluation.long_steps=400")
    verdict = verdict_on(evaluated("truth", *words))
    assert verdict.answers["generation"].grade == "no"
    assert verdict.answers["long_chains"].grade != "no"


# Other points.


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (-0.05, "yes"),
        (BEHIND_YES - 1e-6, "yes"),
        (BEHIND_YES + 1e-6, "partly"),
        (BEHIND_PARTLY - 1e-6, "partly"),
        (BEHIND_PARTLY + 1e-6, "no"),
        (math.nan, "no"),
    ],
)
@pytest.mark.parametrize("word", ["best", "plain"])
def test_the_worst_set_decides(behind: float, expected: str, word: str) -> None:
    metrics = {"samples": 4000.0, "auroc_logp_a": 0.99, f"auroc_logp_a_{word}": 0.9}
    metrics |= {"auroc_logp_b": 0.75 - behind, f"auroc_logp_b_{word}": 0.75}
    answer = verdict_on(metrics).answers["ood"]
    assert answer.grade == expected
    assert "0.990 against a (0.900)" in answer.measured
    assert ("plain" in answer.measured or "Gaussian" in answer.measured) == (word == "plain")


@pytest.mark.parametrize(
    ("auroc", "expected"),
    [(ALONE_YES + 1e-6, "yes"), (0.94, "partly"), (ALONE_PARTLY + 1e-6, "partly"), (0.74, "no")],
)
def test_without_a_baseline_the_answer_says_so(auroc: float, expected: str) -> None:
    answer = verdict_on({"auroc_logp_uniform": auroc, "samples": 4000}).answers["ood"]
    assert answer.grade == expected
    assert "was not measured" in answer.text


def test_few_samples_are_too_few_for_a_yes() -> None:
    metrics = sets(0.95, 0.87, 0.7, *OF_PLANE)
    assert verdict_on(metrics | {"samples": 1000}).answers["ood"].grade == "yes"
    assert verdict_on(metrics | {"samples": 999}).answers["ood"].grade == "partly"


def test_what_it_likes_better_than_data_is_named() -> None:
    answer = verdict_on(sets(0.95, 0.3, 0.7, *OF_PLANE)).answers["ood"]
    assert answer.text.startswith("It assigns a Gaussian a higher density than data")


def test_a_score_that_detects_what_log_p_does_not_is_named() -> None:
    figures = {"auroc_logp_svhn": 0.06, "auroc_grad_svhn": 0.92, "auroc_typical_svhn": 0.85}
    answer = ood({**figures, "samples": 4000})
    assert answer.grade == "no"
    assert answer.text.endswith("do not detect such points; the gradient norm does (AUROC 0.920).")
    answer = ood({**figures, "auroc_joint_svhn": 0.95, "samples": 4000})
    assert answer.text.endswith("; the joint score of energy and latent does (AUROC 0.950).")
    answer = ood({**figures, "auroc_grad_svhn": 0.7, "auroc_typical_svhn": 0.6, "samples": 4000})
    assert answer.text.endswith("its energies do not detect such points.")


# Training.


@pytest.mark.parametrize(
    ("guard", "expected", "says"),
    [
        ({"guard_alarms": 0, "guard_rollbacks": 0}, "yes", "guard: no alarms"),
        ({"guard_alarms": 2, "guard_rollbacks": 1}, "partly", "guard: 2 alarms, 1 rollback"),
        ({"guard_alarms": 0, "guard_warnings": 1}, "partly", "guard: 1 warning"),
        ({"guard_alarms": 1, "guard_stopped": 1}, "no", "guard: stopped the run after 1 alarm"),
    ],
)
def test_the_guard_counts_in(guard: dict[str, float], expected: str, says: str) -> None:
    answer = verdict_on(MODELS["beta 0.9"] | guard).answers["training"]
    assert answer.grade == expected
    assert answer.measured.endswith(says)


def test_a_guard_betters_nothing_and_alone_says_only_no() -> None:
    quiet = {"guard_alarms": 0.0, "guard_rollbacks": 0.0}
    assert verdict_on(MODELS["diverged"] | quiet).answers["training"].grade == "no"
    assert verdict_on(quiet).answers["training"].grade == "not measured"
    assert verdict_on(quiet | {"guard_stopped": 1.0}).answers["training"].grade == "no"


def test_long_chains_alone_say_nothing_about_training() -> None:
    chains = {"u_shift": 0.0, "u_drift": 0.0}
    assert verdict_on(chains).answers["training"].grade == "not measured"
    assert verdict_on(STEADY).answers["training"].text.startswith("Training was stable")
    assert verdict_on(STEADY | chains).answers["training"].grade == "yes"


# Events.


def event(iteration: int, kind: str, cause: str = "gap", attempt: int = 0) -> dict[str, object]:
    text = f"{kind} of {cause} at {iteration}"
    since = None if kind == "relaxed" else iteration - 10
    return {
        "iteration": iteration, "attempt": attempt, "event": kind, "cause": cause, "since": since,
        "text": text, "action": "other fields are ignored",
    }  # fmt: skip


EVENTS = [
    event(300, "alarm"),
    event(300, "rollback"),
    event(450, "alarm", attempt=1),
    event(450, "rollback", attempt=1),
    event(900, "relaxed", attempt=2),
    event(1500, "alarm", "starvation", 2),
    event(1500, "rollback", "starvation", 2),
]
STOPPED = [*EVENTS, event(1600, "stopped", "starvation", 3)]


def write_events(folder: Path, events: list[dict[str, object]]) -> None:
    (folder / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))


def test_the_story_of_a_run(tmp_path: Path) -> None:
    assert read_events(tmp_path / "events.jsonl") == []
    write_events(tmp_path, STOPPED)
    episodes = story(read_events(tmp_path / "events.jsonl"))
    assert [e.seen.iteration for e in episodes] == [300, 450, 1500, 1600]
    assert [[d.event for d in e.done] for e in episodes] == [
        ["rollback"],
        ["rollback", "relaxed"],
        ["rollback"],
        [],
    ]
    assert episodes[0].outcome == "It was seen again at iteration 450."
    assert "The next event was starvation, at iteration 1,500" in episodes[1].outcome
    assert episodes[3].outcome == "The run ended there, with the last good model."
    write_events(tmp_path, [*STOPPED, event(1500, "resumed", "starvation", 3)])
    assert "continued to its end" in story(read_events(tmp_path / "events.jsonl"))[-1].outcome
    write_events(tmp_path, EVENTS)
    assert "continued to its end" in story(read_events(tmp_path / "events.jsonl"))[-1].outcome


def test_figures_of_the_guard(tmp_path: Path) -> None:
    write_events(tmp_path, STOPPED)
    assert guard_metrics(read_events(tmp_path / "events.jsonl")) == {
        "guard_alarms": 4,
        "guard_rollbacks": 3,
        "guard_warnings": 0,
        "guard_stopped": 1,
    }
    write_events(tmp_path, [*STOPPED, event(1500, "resumed", "starvation", 3)])
    assert guard_metrics(read_events(tmp_path / "events.jsonl"))["guard_stopped"] == 0


@pytest.mark.parametrize("line", ['{"event": "alarm"}', '{"iteration": 1, "event": "party"}'])
def test_something_else_than_events_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "events.jsonl").write_text(line + "\n")
    with pytest.raises(BadFile, match="something else than events"):
        read_events(tmp_path / "events.jsonl")


# The page.


@pytest.fixture(autouse=True)
def _coarse_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "KDE_POINTS", 24)


def fabricate(folder: Path, columns: dict[str, np.ndarray], change: str = "truth") -> Path:
    """A run folder of a model made of the truth, with these columns."""
    folder.mkdir(parents=True)
    given = settings("mixture2d", "--evaluation.ais=null", "--evaluation.adjusted=false")
    given = replace(given, energy=Of(given, change))
    RunFolder(folder).save_config("seed: 0\n", "mixture2d", "coldness train mixture2d")
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(f"{v:.6g}" for v in row) for row in rows)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    RunFolder(folder).save_evaluation(*measured(given))
    return folder


def series(n: int = 2000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "iteration": np.arange(n, dtype=np.float64),
        "r": 1 + 0.1 * rng.normal(size=n),
        "d": rng.normal(size=n),
        "attempt": np.zeros(n),
    }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = fabricate(tmp_path_factory.mktemp("trust") / "run", series())
    write_events(folder, EVENTS)
    return folder


def test_every_answer_has_a_picture_and_the_story_is_told(guarded: Path, tmp_path: Path) -> None:
    run = read_run(guarded, "run")
    assert list(trust.pictures(run)) == list(QUESTIONS)
    assert run.metrics["guard_alarms"] == 3
    page = write_report([guarded], tmp_path / "r.html").read_text()
    for topic in QUESTIONS:
        assert f'class="answer {topic}"' in page
    assert page.index("Events of the guard") > page.index('id="anatomy"')
    for given in EVENTS:
        assert str(given["text"]) in page
    assert "It was seen again at iteration 450." in page
    assert "solid for an alarm" in page
    assert "no values to draw" not in page
    assert all(title(k) in html.unescape(page) for k in run.metrics)
    assert not [k for k in run.metrics if find(k) is None]  # every metric has an entry


def test_events_are_drawn_where_the_axis_is_the_iteration(guarded: Path) -> None:
    run = read_run(guarded, "run")
    chosen = [trust.training.CURVES["d"], *single_updates([run.columns])[:1]]
    marked = [c.render([run.columns], figures.LIGHT, [run.marks]) for c in chosen]
    plain = [c.render([run.columns], figures.LIGHT) for c in chosen]
    assert marked[0] != plain[0]
    assert marked[1] == plain[1]  # counted from the end
    beyond = chosen[0].render([run.columns], figures.LIGHT, [[(10**6, "alarm")]])
    assert beyond == plain[0]


def test_a_run_without_a_guard_has_no_figures_of_one(guarded: Path, tmp_path: Path) -> None:
    columns = {k: v for k, v in series(300).items() if k != "attempt"}
    lines = [
        ",".join(columns),
        *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
    ]
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n")
    assert "guard_alarms" not in training_metrics(tmp_path)
    assert training_metrics(guarded)["guard_rollbacks"] == 3
    assert training_metrics(tmp_path)["health_window"] == 300
    with pytest.raises(BadFile, match="missing"):
        training_metrics(tmp_path / "none")


def test_a_page_where_nothing_is_finite(tmp_path: Path) -> None:
    columns = series(300)
    columns["d"][200:] = np.nan
    columns["r"][200:] = np.inf
    folder = fabricate(tmp_path / "lost", columns, "nan")
    write_events(folder, STOPPED)
    run = read_run(folder, "lost")
    assert grades(run.metrics) == 5 * ["no"]
    page = write_report([folder], tmp_path / "r.html").read_text()
    assert page.count("no values to draw") == 2  # chains and out-of-distribution sets
    assert "100% of the area is NaN (grey)" in page
    assert "100.0% of samples are NaN or infinite" in page
    assert "stopped the run after" in page
    for place in (
        "Model of lost: {} in the plane",
        "Log density of truth and model of lost: Model, {}",
    ):
        assert np.isnan(levels_in(named(page, place.format("log density")).light)).all()  # grey
    short = named(page, "Short-run samples of lost: density in the plane")
    assert not levels_in(short.light).any()  # no sample in the plane
    truth = levels_in(named(page, "Truth: density in the plane").light)
    assert truth.max() == 1.0
    # The curve of d is drawn as far as it was finite.
    x, _ = line_in(
        named(page, "Energy difference d against iteration").light, figures.LIGHT.runs[0]
    )
    assert np.ptp(x) > 0.8


def test_values_that_are_no_numbers_are_grey() -> None:
    """And the ends of the scale are where they were."""
    values = np.array([[0.0, np.nan], [1.0, 7.0]])  # [x, y]
    found = levels_in(figures.panel(values, 0.0, 1.0))
    np.testing.assert_array_equal(found, [[0.0, np.nan], [1.0, 1.0]])


def test_an_event_holds_what_the_file_says(tmp_path: Path) -> None:
    write_events(tmp_path, EVENTS[:1])
    assert read_events(tmp_path / "events.jsonl") == [
        Event(300, 0, "alarm", "gap", 290, "alarm of gap at 300")
    ]


# Images.

KID = {"kid_effnet_floor": -0.01, "kid_effnet_half": 1.6, "kid_effnet_quarter": 4.0}


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        (0.3, 0.39, ["yes", "yes"]),
        (0.41, 3.9, ["partly", "partly"]),
        (-0.01, 4.1, ["yes", "no"]),
        (5.7, math.nan, ["no", "no"]),
    ],
)
def test_images_are_graded_by_their_kid(short: float, long: float, expected: list[str]) -> None:
    """Whatever distances of pixels say; but not chains that are lost."""
    pixels = {"energy_distance_floor": 0.01, "samples": 1000, "neighbours_short": 1.0}
    pixels |= {"u_shift": 0.1, "u_drift": 0.0}
    pixels |= {"energy_distance_short": 9.0, "energy_distance_long": 9.0}
    metrics = KID | pixels | {"kid_effnet_short": short, "kid_effnet_long": long}
    assert grades(metrics)[:2] == expected
    measured = verdict_on(metrics).answers["generation"].measured
    assert "EfficientNet-Lite0" in measured
    assert "KID" not in measured  # which is Inception's
    assert grades(metrics | {"lost_chains_short": 3})[0] == "no"
    few = grades(metrics | {"samples": 100})[:2]
    assert few == ["partly" if grade == "yes" else grade for grade in expected]


def test_without_coarse_images_a_kid_is_not_graded() -> None:
    metrics = {"kid_effnet_short": 0.01, "kid_effnet_floor": 0.0}
    assert grades(metrics)[0] == "not measured"
    with_other = KID | {"kid_inception_short": 0.001, "kid_effnet_short": 5.0}
    assert grades(with_other | {"samples": 4000})[0] == "no"


@pytest.mark.parametrize(
    ("more", "grade", "says"),
    [
        ({}, "yes", "steady"),
        ({"updates_made": 1.0}, "yes", "steady"),
        ({"updates_made": 0.0}, "no", "Nothing was learned"),
        ({"d_size": 4.5e5, "coldness": 800.0}, "no", "far too different"),
        ({"d_size": 4.5e5, "coldness": 20_000.0}, "yes", "steady"),
    ],
)
def test_a_run_that_learned_nothing_was_not_healthy(
    more: dict[str, float], grade: str, says: str
) -> None:
    long = {"u_shift": 0.0, "u_drift": 0.0, "long_steps": 2000, "short_steps": 20}
    answer = verdict_on({**STEADY, **long, "guard_alarms": 0.0, **more}).answers["training"]
    assert answer.grade == grade
    assert says in answer.text
