"""The report: its verdict, what the page holds, and how it looks in a real browser."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure

from browser import check_in_browser, needs_browser
from coldness.cli.tables import print_verdict
from coldness.diagnostics.convergence import CHANGE, SHIFT
from coldness.files import BadFile
from coldness.likelihood.bracket import LEAST_ESS, LOOSE
from coldness.report import chains, figures, write_report
from coldness.report.densities import ENOUGH_FOR_KERNELS
from coldness.report.figures import histogram, sample_density
from coldness.report.loss_noise import with_noise
from coldness.report.training import curves
from coldness.runs import reader
from coldness.trust import verdict_on
from coldness.trust.answers import number
from coldness.trust.density_answer import likelihood_line
from page_pictures import assert_panel, decoded, levels_in, line_in, named, names, rise, shown

MakeRun = Callable[..., Path]
ANGLES = 2 * np.pi * np.arange(8) / 8
MEANS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1)
WEIGHTS = np.array([0.02, 0.04, 0.08, 0.12, 0.16, 0.18, 0.2, 0.2])
GOOD = {
    "kl": 0.04,
    "reverse_kl": 0.045,
    "searched": 1.0,
    "u_shift": 0.1,
    "u_drift": -0.02,
    "tv": 0.11,
    "energy_distance_short": 0.0018,
    "energy_distance_long": 0.0009,
    "energy_distance_floor": 0.0006,
    "log_z": 1.3,
    "mass_outside": 0.002,
    "seconds": 61.2,
    "iterations": 3000,
    "samples": 4000,
    "short_steps": 100,
    "long_steps": 2000,
}

DEEP = {key: value for key, value in GOOD.items() if key not in ("reverse_kl", "tv", "log_z")} | {
    "kl": 0.03,
    "kl_low": 0.01,
    "kl_high": 0.045,
    "slice_kl": 0.05,
    "slice_tv": 0.12,
    "log_z": -18.4,
    "log_z_low": -18.45,
    "log_z_high": -18.35,
    "log_z_ess_forward": 0.21,
    "log_z_ess_reverse": 0.34,
    "log_likelihood_test": -4.31,
    "log_likelihood_low": -4.35,
    "log_likelihood_high": -4.29,
    "acceptance": 0.93,
}
"""Of a good model in more than two dimensions."""

OWN = {
    "log_likelihood_test": -4.0,
    "log_likelihood_low": -4.04,
    "log_likelihood_high": -3.97,
    "log_likelihood_gaussian": -5.0,
    "log_likelihood_kde": -4.0,
    "log_z_low": 1.0,
    "log_z_high": 1.07,
    "log_z_ess_forward": 0.5,
    "log_z_ess_reverse": 0.5,
    "searched": 1.0,
}
"""Of points with a law that is not known, in more than two dimensions."""


def mixture_log_p(x: np.ndarray, std: float) -> np.ndarray:
    square = ((x[..., None, :] - MEANS) ** 2).sum(-1)
    p = (WEIGHTS * np.exp(-square / (2 * std**2))).sum(-1) / (2 * np.pi * std**2)
    return np.log(p + 1e-30)


def mixture_sample(n: int, std: float, rng: np.random.Generator) -> np.ndarray:
    return MEANS[rng.choice(8, n, p=WEIGHTS)] + std * rng.normal(size=(n, 2))


def training_columns(n: int, rng: np.random.Generator, beta: float) -> dict[str, np.ndarray]:
    t = np.arange(n)
    u = 2 - 2 * np.exp(-t / 300)
    columns = {
        "iteration": t,
        "r": np.exp(0.1 * rng.normal(size=n)) * (1 + t / 500),
        "acceptance": np.ones(n),
        "d": 0.2 * rng.normal(size=n) * (1 + 5 * np.exp(-t / 100)),
        "u_data_mean": u + 0.05 * rng.normal(size=n),
        "u_data_std": np.full(n, 0.7),
        "u_model_mean": u + 0.1 + 0.05 * rng.normal(size=n),
        "u_model_std": np.full(n, 0.9),
        "weight_ess": np.ones(n),
        "grad_scale": np.ones(n),
    }
    if beta:
        columns["weight_ess"] = 1 - 0.6 * (1 - np.exp(-t / 400)) * rng.uniform(0.9, 1.1, size=n)
        columns["grad_scale"] = 1 - 0.1 * rng.uniform(size=n)
    return columns


def trail_arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Chains from noise that arrive, and chains from data that stay."""
    steps = np.array([0, 20, 40, 80, 160])
    medians = 50 * np.exp(-steps / 20.0)
    return {
        "trail_long_steps": steps,
        "trail_long_u": medians[:, None] + np.array([-1.0, 0.0, 1.0]),
        "trail_long_distance": 0.1 / (1 + steps),
        "trail_data_steps": steps[:2],
        "trail_data_u": np.tile([-1.0, 0.0, 1.0], (2, 1)),
        "trail_data_distance": np.array([0.001, 0.0]),
        "u_data": rng.normal(size=300),
        "u_long": rng.normal(size=300),
    }


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Fabricates a run folder: a mixture whose model is the same mixture with another width."""

    def make(
        name: str = "run",
        metrics: dict[str, float] | None = None,
        std: float = 0.16,
        dimension: int = 2,
        iterations: int = 3000,
        samples: int = 600,
        beta: float = 0.0,
        slices: bool = False,
        trails: bool = False,
    ) -> Path:
        rng = np.random.default_rng(len(name))
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        settings = {
            "data": {"class_path": "coldness.data.Mixture2D", "init_args": {"std": 0.15}},
            "energy": {"class_path": "ScalarEnergy", "init_args": {"widths": [32, 64]}},
            "contrast": {"beta": beta, "tempering": None},
            "sources": [{"start": {"class_path": "Noise"}, "steps": 100}],
            "iterations": iterations,
            "seed": 0,
        }
        head = f"# settings of a run\n# command: coldness train mixture2d --out runs/{name}\n"
        (folder / "config.yaml").write_text(head + yaml.safe_dump(settings, sort_keys=False))
        columns = training_columns(iterations, rng, beta)
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join(f"{v:.6g}" for v in row) for row in rows)]
        (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
        (folder / "metrics.json").write_text(json.dumps(GOOD if metrics is None else metrics))
        extra = 0.01 * rng.normal(size=(samples, dimension - 2))
        arrays = {
            f"x_{kind}": np.concatenate([mixture_sample(samples, s, rng), extra], 1)
            for kind, s in (("data", 0.15), ("short", std), ("long", 1.2 * std))
        }
        arrays["box"] = np.array(1.6)
        if dimension == 2 or slices:
            side = np.linspace(-2.4, 2.4, 120)
            grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1)
            of = "slice_" if slices else ""
            arrays |= {f"{of}side": side, f"{of}log_p_data": mixture_log_p(grid, 0.15)}
            arrays[f"{of}log_p_model"] = mixture_log_p(grid, std)
        if trails:
            arrays |= trail_arrays(rng)
        np.savez(folder / "evaluation.npz", **arrays)
        return folder

    return make


# Verdict.


def grades(metrics: dict[str, float]) -> list[str]:
    verdict = verdict_on(metrics)
    return [verdict.answers[topic].grade for topic in ("density", "generation", "long_chains")]


def test_a_good_model_is_trusted_with_everything() -> None:
    verdict = verdict_on(GOOD)
    assert grades(GOOD) == ["yes", "yes", "yes"]
    assert verdict.summary.startswith("A density you can use and a generator:")
    assert (
        verdict.answers["density"].measured
        == "KL 0.04 nats, total variation 0.11, KL(model || data) 0.045 nats"
    )
    assert (
        verdict.answers["generation"].measured
        == "energy distance 0.0018, 3 times its floor of 0.0006"
    )
    assert "Chains of 100 steps" in verdict.answers["generation"].text


@pytest.mark.parametrize(
    ("change", "expected", "summary"),
    [
        ({"kl": 0.5}, ["partly", "yes", "yes"], "A rough density and a generator:"),
        ({"tv": 0.3}, ["partly", "yes", "partly"], "A rough density and a generator:"),
        ({"reverse_kl": 0.05}, ["partly", "yes", "yes"], "A rough density and a generator:"),
        ({"searched": 0.0}, ["partly", "yes", "yes"], "A rough density and a generator:"),
        ({"rhat": 1.2}, ["yes", "yes", "partly"], "A density you can use and a generator:"),
        (
            {"kl": 8.0, "energy_distance_long": 0.2},
            ["no", "yes", "no"],
            "A generator, not a density: its energies are not log-densities, short chains from "
            "noise give good samples, but long chains lose the quality.",
        ),
        (
            {"energy_distance_short": 0.1},
            ["yes", "no", "yes"],
            "A density you can use and a generator",
        ),
        (
            {"energy_distance_short": 0.1, "energy_distance_long": 0.1},
            ["yes", "no", "no"],
            "A density you can use, not a generator:",
        ),
        (
            {"energy_distance_short": 0.01},
            ["yes", "partly", "yes"],
            "A density you can use and a rough",
        ),
        (
            {"kl": 9.0, "energy_distance_short": 1.0, "energy_distance_long": 1.0},
            ["no", "no", "no"],
            "Neither a density nor a generator:",
        ),
        ({"kl": float("inf")}, ["no", "yes", "yes"], "A generator, not a density:"),
        (
            {"energy_distance_long": float("nan")},
            ["yes", "yes", "no"],
            "A density you can use and a",
        ),
        ({"energy_distance_floor": 0.0}, ["yes", *2 * ["not measured"]], "A density you can use:"),
        ({"samples": 400}, ["yes", "partly", "partly"], "A density you can use and a rough"),
        ({"samples": 200}, ["yes", "no", "partly"], "A density you can use"),
    ],
)
def test_grades(change: dict[str, float], expected: list[str], summary: str) -> None:
    assert grades(GOOD | change) == expected
    assert verdict_on(GOOD | change).summary.startswith(summary)


@pytest.mark.parametrize(
    ("keys", "expected", "summary"),
    [
        ([], 3 * ["not measured"], "Nothing was measured"),
        (["kl"], ["partly", "not measured", "not measured"], "A rough density:"),
        (["tv"], ["partly", "not measured", "not measured"], "A rough density:"),
        (["kl", "searched"], ["yes", "not measured", "not measured"], "A density you can use:"),
        (["energy_distance_short"], 3 * ["not measured"], "Nothing was measured"),
        (
            ["energy_distance_long", "energy_distance_floor"],
            ["not measured", "not measured", "partly"],
            "A rough generator with long chains:",
        ),
    ],
)
def test_missing_figures_are_not_guessed(
    keys: list[str], expected: list[str], summary: str
) -> None:
    metrics = {key: GOOD[key] for key in keys}
    assert grades(metrics) == expected
    assert verdict_on(metrics).summary.startswith(summary)


def test_mass_outside_the_box_is_mentioned() -> None:
    assert "25% of its mass" in verdict_on(GOOD | {"mass_outside": 0.25}).answers["density"].text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "yes"),
        ({"kl_high": 0.0499}, "yes"),
        ({"kl_high": 0.05}, "partly"),  # the estimate is 0.03: the upper end decides
        ({"kl": 0.99, "kl_high": 1.05}, "partly"),
        ({"kl": 1.0, "kl_high": 1.05}, "no"),
        ({"slice_tv": 0.159}, "partly"),  # sqrt(0.05 / 2) = 0.158
        ({"slice_tv": 0.158}, "yes"),
        ({"slice_tv": 0.5}, "no"),
        ({"log_z_high": -18.45 + LOOSE - 1e-9}, "yes"),
        ({"log_z_high": -18.45 + LOOSE + 1e-9}, "not measured"),
        ({"log_z_ess_forward": LEAST_ESS}, "yes"),
        ({"log_z_ess_forward": LEAST_ESS / 2}, "not measured"),
        ({"log_z_ess_reverse": LEAST_ESS / 2}, "not measured"),
        ({"log_z_high": float("nan")}, "not measured"),
        ({"log_z_high": 5.0, "kl_low": 1.0, "kl_high": 9.0}, "not measured"),
        ({"log_z_high": 5.0, "kl_low": 1.01, "kl_high": 9.0}, "no"),
    ],
)
def test_density_from_a_bracket(change: dict[str, float], expected: str) -> None:
    answer = verdict_on(DEEP | change).answers["density"]
    assert answer.grade == expected
    assert "total variation on the slice" in answer.measured
    assert ("too loose for an answer. A larger evaluation.ais.levels" in answer.text) == (
        expected == "not measured"
    )


def test_brackets_are_shown() -> None:
    figure = "KL 0.03 nats (between 0.01 and 0.045), total variation on the slice 0.12"
    assert verdict_on(DEEP).answers["density"].measured == figure
    without = {key: value for key, value in DEEP.items() if key != "slice_tv"}
    assert (
        verdict_on(without).answers["density"].measured == "KL 0.03 nats (between 0.01 and 0.045)"
    )


def test_exact_figures_of_the_plane_need_no_bracket() -> None:
    loose = {"kl_low": -9.0, "kl_high": 9.0, "log_z_low": 0.0, "log_z_high": 18.0}
    assert verdict_on(GOOD | loose) == verdict_on(GOOD)
    assert verdict_on(GOOD | {"log_z_failed": 1.0}) == verdict_on(GOOD)


def test_a_log_z_that_failed_is_said() -> None:
    answer = verdict_on({"log_z_failed": 1.0, "slice_tv": 0.1}).answers["density"]
    assert answer.grade == "not measured"
    assert "became NaN or infinite" in answer.text
    assert answer.measured == "total variation on the slice 0.1"


@pytest.mark.parametrize(
    ("change", "expected", "says"),
    [
        ({}, "yes", "as likely under it"),
        ({"u_shift": -0.8, "u_drift": 0.0}, "partly", "mass elsewhere"),
        ({"u_shift": -0.8, "u_drift": 0.0, "log_z_error": 0.001}, "yes", "as likely"),
        ({"log_likelihood_low": -4.0501}, "partly", "lower end of its bracket"),
        (
            {"log_likelihood_low": -4.2, "log_likelihood_test": -4.1},
            "partly",
            "a kernel density estimate is better",
        ),
        ({"log_likelihood_low": -5.1, "log_likelihood_test": -5.0}, "no", "A Gaussian"),
        ({"log_z_high": 1.3}, "not measured", "too loose"),
        ({"log_z_ess_reverse": 0.001}, "not measured", "too loose"),
        ({"log_z_error": 0.001, "log_z_high": 9.0, "log_likelihood_low": -9.0}, "yes", "as likely"),
        ({"log_z_error": 0.1}, "not measured", "grid is too coarse"),
    ],
)
def test_held_out_points_in_more_dimensions(
    change: dict[str, float], expected: str, says: str
) -> None:
    answer = verdict_on(OWN | change).answers["density"]
    assert answer.grade == expected
    assert says in answer.text
    assert ("between" in answer.measured) == ("log_z_error" not in change)


def test_held_out_points_without_plain_models() -> None:
    metrics = {key: value for key, value in OWN.items() if key[-3:] not in ("ian", "kde")}
    answer = verdict_on(metrics).answers["density"]
    assert answer.grade == "not measured"
    assert "no plain model" in answer.text


@pytest.mark.parametrize(
    ("shift", "drift", "expected", "says"),
    [
        (0.1, -0.02, "yes", "have converged: their mean U is 0.1 standard deviations above"),
        (SHIFT, 0.0, "partly", "are drifting"),
        (0.0, CHANGE, "partly", "are drifting"),
        (0.999 * SHIFT, 0.999 * CHANGE, "yes", "have converged"),
        (-SHIFT, 0.0, "partly", "oversaturated"),
        (float("nan"), 0.0, "partly", "are drifting"),
    ],
)
def test_long_chains_must_have_converged(
    shift: float, drift: float, expected: str, says: str
) -> None:
    answer = verdict_on(DEEP | {"u_shift": shift, "u_drift": drift}).answers["long_chains"]
    assert answer.grade == expected
    assert says in answer.text
    assert "accept steps of the training's size with probability 0.93" in answer.text


def test_convergence_betters_no_grade_and_may_be_missing() -> None:
    worse = verdict_on(DEEP | {"energy_distance_long": 0.2}).answers["long_chains"]
    assert worse.grade == "no"
    assert "Their potentials are steady, but their samples are not like data" in worse.text
    unseen = {key: value for key, value in GOOD.items() if key not in ("u_shift", "u_drift")}
    answer = verdict_on(unseen).answers["long_chains"]
    assert answer.grade == "partly"
    assert answer.text == (
        "Chains of 2,000 steps still give samples that are hard to tell from data. Whether they "
        "have converged was not measured."
    )


@pytest.mark.parametrize(
    ("metrics", "line"),
    [
        (DEEP, "-4.31 nats (between -4.35 and -4.29; ESS 0.21 forward, 0.34 reverse)"),
        (
            DEEP | {"log_z_high": 9, "log_likelihood_low": -1581, "log_likelihood_high": 7},
            "loose bracket: between -1,581 and 7, do not rely on it",
        ),
        (
            {"log_z_failed": 1.0},
            "not measured: potentials became NaN or infinite during annealed importance sampling "
            "(AIS)",
        ),
        (GOOD, "not measured: evaluation.ais is not set"),
        ({"log_z_low": 0.0, "log_z_high": 0.1}, "not measured: there are no test points"),
        (OWN | {"log_z_error": 0.0}, "-4 nats (on a grid)"),
        (OWN | {"log_z_error": 0.1}, "-4 nats (on a grid, too coarse to rely on)"),
    ],
)
def test_the_line_of_the_log_likelihood(
    metrics: dict[str, float], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert likelihood_line(metrics) == line
    print_verdict(verdict_on(metrics), metrics)
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 7
    assert printed[-1].split(maxsplit=4) == ["log-likelihood", "of", "test", "points", line]


def test_numbers_read_well() -> None:
    assert [number(v) for v in (0, 0.00123456, 1.3, 12345.6)] == ["0", "0.00123", "1.3", "12,346"]
    assert [number(v) for v in (1e-7, float("inf"), float("nan"))] == [
        "1.00e-07",
        "infinite",
        "NaN",
    ]


# Figures.


def test_sample_density_integrates_to_the_share_of_samples_near_the_box() -> None:
    x = mixture_sample(500, 0.15, np.random.default_rng(0))
    density = sample_density(x, 1.6)
    area = (2 * 1.6 / (len(density) - 1)) ** 2
    assert density.sum() * area == pytest.approx(1, abs=0.01)
    strays = np.concatenate([x, np.full((250, 2), np.nan), np.full((250, 2), 1e9)])
    np.testing.assert_allclose(sample_density(strays, 1.6), density / 2)
    assert not sample_density(np.full((9, 2), np.inf), 1.6).any()


def test_samples_on_a_line_have_a_histogram() -> None:
    x = np.linspace(-1, 1, 50)[:, None] * np.ones(2)
    density = sample_density(x, 1.0)
    np.testing.assert_array_equal(density, histogram(x, 1.0))
    assert density.sum() * (2 / len(density)) ** 2 == pytest.approx(1)


def columns_of(several: bool, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Pairs (n, 64) whose differences are known: correlation 0.8, and none for a second source."""
    data = rng.normal(size=(40, 64))
    first = 0.8 * data + 0.6 * rng.normal(size=data.shape) + 1
    second = rng.normal(size=data.shape)
    columns = {"iteration": np.arange(40.0), "u_data_std": data.std(1)}
    columns |= {"d": (data - first).mean(1), "d_std": (data - first).std(1)}
    columns["u_model_std"] = first.std(1)
    if several:  # sources that share a contrast
        columns |= {"d_source": columns["d"], "u_model_std_source": first.std(1)}
        columns |= {"d": np.full(40, 99.0), "u_model_std": np.full(40, 99.0)}
        columns |= {"d_1": (data - second).mean(1), "d_std_1": (data - second).std(1)}
        columns["u_model_std_1"] = second.std(1)
    return columns


@pytest.mark.parametrize("several", [False, True])
def test_noise_of_the_loss(several: bool) -> None:
    columns = with_noise(columns_of(several, np.random.default_rng(0)))
    error = 5 / np.sqrt(40 * 64)
    assert columns["d_pairing"].mean() == pytest.approx(0.8, abs=error)
    assert columns["d_snr"].mean() == pytest.approx(-1 / np.sqrt(0.4), abs=3 * error)
    assert ("d_pairing_1" in columns) == several
    if several:
        assert columns["d_pairing_1"].mean() == pytest.approx(0, abs=error)
        assert columns["d_snr_1"].mean() == pytest.approx(0, abs=error)
    titles = [curve.title for curve in curves([columns])]
    assert titles[-3:] == [
        "Noise of the loss",
        "Signal-to-noise ratio of the loss",
        "Correlation within pairs",
    ]


def test_noise_skips_what_is_missing() -> None:
    columns = columns_of(False, np.random.default_rng(0))
    assert with_noise({"d": columns["d"]}) == {"d": columns["d"]}
    without = with_noise({key: columns[key] for key in ("iteration", "d", "d_std")})
    assert "d_snr" in without
    assert "d_pairing" not in without
    still = with_noise(columns | {"d_std": np.zeros(40)})  # chains that do not move
    for curve in curves([still]):
        picture = decoded(curve.render([still], figures.LIGHT))
        assert picture.shape == (round(200 * curve.height), round(200 * curve.width), 4)


def test_every_source_has_a_line() -> None:
    names = ["d", *(f"d_{k}" for k in range(1, 12))]
    run = {name: np.ones(3) for name in ["d_std", "d_std_1", *reversed(names)]} | {
        "d_3": np.ones(0)
    }
    found = figures.sources(run, "d")
    assert [name for name, _ in found] == [name for name in names if name != "d_3"]
    assert [dash for _, dash in found][:4] == ["-", "--", ":", "-"]  # that of d_3 stays its own


def test_one_value_that_is_not_finite_spoils_no_average() -> None:
    values = np.ones(500)
    values[100] = np.inf
    np.testing.assert_allclose(figures.thin(np.arange(500.0), values)[2], 1)


def test_histograms_of_potentials_leave_out_one_percent_at_most() -> None:
    rng = np.random.default_rng(0)
    sides = [rng.normal(size=1000), 3 + rng.normal(size=1000)]
    sides[0][0] = 1e6
    edges = chains.common_edges(sides)
    assert edges[0] < 0 < 3 < edges[-1] < 10
    assert all(((u >= edges[0]) & (u <= edges[-1])).mean() >= 0.98 for u in sides)
    assert chains.common_edges([np.zeros(3), np.zeros(0)])[0] < 0


# Page.


SIDE = np.linspace(-2.4, 2.4, 120)
SHOWN = SIDE[np.abs(SIDE) <= 1.6]
PLANE = np.stack(np.meshgrid(SHOWN, SHOWN, indexing="ij"), -1)
"""Points that panels of fabricated runs show."""

OF_ONE_RUN = [
    *("Truth: {}", "Model of run: {}", "Short-run samples of run: {}"),
    "Long-run samples of run: {}",
]
OF_TRAINING = [
    "Energy difference d against iteration",
    "Gradient strength r against iteration",
    "Potential U of data and negatives against iteration",
    "Effective sample size of the weights against iteration",
]


def in_both(panels: list[str]) -> list[str]:
    """Alternative texts of panels, which are there as densities and as log densities."""
    return [p.format(f"{kind} in the plane") for kind in ("density", "log density") for p in panels]


def assert_mixture(page: str, alt: str, std: float) -> None:
    """Both panels show the mixture with this width, on the scale of the mixture with 0.15."""
    log_p, top = mixture_log_p(PLANE, std), float(mixture_log_p(PLANE, 0.15).max())
    density, of_log = (named(page, name).light for name in in_both([alt]))
    assert_panel(density, np.exp(log_p), 0.0, np.exp(top))
    floor = np.log(np.exp(log_p) + figures.SMALLEST)
    assert_panel(of_log, floor, top - figures.LOG_RANGE, top)


def level_at(page: str, alt: str, point: np.ndarray) -> float:
    """What a panel shows at a point of the plane, in a square with sides of 0.2 around it."""
    found = levels_in(named(page, alt).light)
    side = np.linspace(-1.6, 1.6, len(found))
    near = [np.flatnonzero(np.abs(side - place) <= 0.1) for place in point]
    return float(found[np.ix_(*near)].mean())


def assert_samples(page: str, alt: str) -> None:
    """A panel of samples has modes of the mixture, the heavy ones brighter, and nothing between."""
    heavy = [level_at(page, alt, mean) for mean in MEANS[4:]]
    assert min(heavy) > 0.2
    assert level_at(page, alt, MEANS[0]) < 0.5 * min(heavy)
    assert level_at(page, alt, np.zeros(2)) < 0.02


def test_one_run(make_run: MakeRun, tmp_path: Path) -> None:
    out = write_report([make_run()], tmp_path / "new" / "report.html")
    page = out.read_text()
    order = [page.index(f'id="{part}"') for part in ("verdict", "panels", "curves", "metrics")]
    order += [page.index(f'id="{part}"') for part in ("settings", "commands")]
    assert order == sorted(order)
    assert html.escape(verdict_on(GOOD).summary) in page
    found = names(page)
    assert all(found)
    assert [name for name in found if "in the plane" in name] == in_both(OF_ONE_RUN)
    # No curve of grad_scale, which is 1 throughout.
    assert [name for name in found if name in OF_TRAINING] == OF_TRAINING
    assert not any("Gradient scale" in name for name in found)
    assert "coldness train mixture2d --out runs/run" in page
    assert "Mixture2D(std=0.15)" in page
    for value in ("0.0018", "0.0009", "0.002", "3,000"):  # of the table
        assert value in page
    assert not list(out.parent.glob("*.partial"))

    # It needs nothing else.
    sources = re.findall(r'(?:src|srcset|href|action)="([^"]*)"', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    for other in ("http://", "https://", "<script", "<link", "@import", "url(", "<iframe"):
        assert other not in page


def test_panels_show_truth_model_and_samples(make_run: MakeRun, tmp_path: Path) -> None:
    page = write_report([make_run(iterations=20, std=0.2)], tmp_path / "r.html").read_text()
    assert_mixture(page, "Truth: {}", 0.15)
    assert_mixture(page, "Model of run: {}", 0.2)
    for kind in ("Short", "Long"):
        assert_samples(page, f"{kind}-run samples of run: density in the plane")
    # Beside the answers are the same.
    beside = "Density of truth beside that of short-run samples of run: "
    truth = np.exp(mixture_log_p(PLANE, 0.15))
    assert_panel(named(page, beside + "Truth").light, truth, 0.0, truth.max())
    assert_samples(page, beside + "Samples")
    beside = "Log density of truth and model of run: "
    for of, alt in (("Truth", "Truth"), ("Model", "Model of run")):
        small = named(page, f"{beside}{of}, log density").light
        large = named(page, f"{alt}: log density in the plane").light
        np.testing.assert_array_equal(levels_in(small), levels_in(large))


def test_curves_show_what_was_logged(make_run: MakeRun, tmp_path: Path) -> None:
    """Of the fabricated run, r and U rise, d stays around zero; in the colours of either theme."""
    page = write_report([make_run(beta=0.9)], tmp_path / "r.html").read_text()
    found = {name: named(page, name) for name in OF_TRAINING}
    for address, theme in ((0, figures.LIGHT), (1, figures.DARK)):
        d, r, u, ess = ((p.light, p.dark)[address] for p in found.values())
        assert abs(rise(d, theme.runs[0])) < 0.1
        assert rise(r, theme.runs[0]) > 0.4
        for colour in theme.runs[:2]:  # data and negatives
            assert rise(u, colour) > 0.1  # of a height that bands take most of
        assert rise(ess, theme.runs[0]) < -0.2  # weights of beta 0.9 concentrate


def test_several_runs_share_truth_and_axes(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("cold"), make_run("colder", GOOD | {"kl": 8.0}, std=0.3, beta=0.9)]
    page = write_report(runs, tmp_path / "r.html").read_text()
    assert names(page).count("Truth: density in the plane") == 1
    assert_mixture(page, "Truth: {}", 0.15)
    assert_mixture(page, "Model of cold: {}", 0.16)
    assert_mixture(page, "Model of colder: {}", 0.3)  # on the same scale
    # One has weights and so a gradient scale, and every curve has a line for each run.
    for name in (*OF_TRAINING, "Gradient scale against iteration"):
        curve = named(page, name)
        for colour in figures.LIGHT.runs[:2]:
            columns, _ = line_in(curve.light, colour)
            assert np.ptp(columns) > 0.5
    assert page.count('class="summary"') == 2
    assert page.count('class="differs"') == 1  # contrast
    assert "2 runs: cold, colder" in page


def test_runs_of_the_same_name_are_told_apart(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("a/run", iterations=20), make_run("b/run", iterations=20)]
    page = write_report(runs, tmp_path / "r.html").read_text()
    assert f"<h3>{runs[0]}</h3>" in page
    assert f"<h3>{runs[1]}</h3>" in page


def test_more_dimensions_and_other_data(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("plane", iterations=20), make_run("deep", dimension=10, iterations=20)]
    page = write_report(runs, tmp_path / "r.html").read_text()
    assert "The data has 10 dimensions" in page
    assert [name for name in names(page) if " of deep" in name and "plane" in name] == in_both(
        ["Short-run samples of deep: {}", "Long-run samples of deep: {}"]
    )  # no model density, which is not known there
    assert_mixture(page, "Model of plane: {}", 0.16)
    assert_samples(page, "Data: density in the plane")
    assert_samples(page, "Short-run samples of deep: density in the plane")


def test_slices_and_chains_of_one_run(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run("deep", DEEP, dimension=10, iterations=20, slices=True, trails=True)
    page = write_report([run], tmp_path / "r.html").read_text()
    assert page.index('id="panels"') < page.index('id="chains"') < page.index('id="curves"')
    for title in ("Potential U over steps", "Potential U at the end", "Energy distance over"):
        assert title in page
    assert page.count("A slice is") == 1
    samples = ["Data: {}", "Short-run samples of deep: {}", "Long-run samples of deep: {}"]
    slices = ["Truth, slice: {}", "Model, slice of deep: {}"]
    found = [name for name in names(page) if "in the plane" in name]
    assert found == in_both(samples) + in_both(slices)
    assert_mixture(page, "Truth, slice: {}", 0.15)
    assert_mixture(page, "Model, slice of deep: {}", 0.16)
    assert_samples(page, "Short-run samples of deep: density in the plane")
    # Chains from noise arrive: the distance falls, in the answer and among the chains.
    for curve in shown(page):
        if curve.alt == "Energy distance over steps of deep":
            assert rise(curve.light, figures.LIGHT.runs[0]) < -0.3
    assert "estimated with Gaussian kernels" in page
    assert "KL 0.03 nats (between 0.01 and 0.045)" in page
    assert "log_z_ess_forward" not in page  # every figure has a label


def test_slices_and_chains_of_several_runs(make_run: MakeRun, tmp_path: Path) -> None:
    deep = {"dimension": 10, "iterations": 20, "slices": True, "trails": True}
    runs = [make_run(name, DEEP, **deep) for name in ("one", "two")]  # names as long: same data
    page = write_report([*runs, make_run("old", iterations=20)], tmp_path / "r.html").read_text()
    assert page.count('alt="Truth, slice: ') == 2
    assert page.count('alt="Model, slice of one: ') == page.count('alt="Model, slice of two: ') == 2
    assert page.count('alt="Potential U over steps of ') == 2
    assert_mixture(page, "Truth, slice: {}", 0.15)
    for name in ("Model, slice of one: {}", "Model, slice of two: {}", "Model of old: {}"):
        assert_mixture(page, name, 0.16)
    for name in ("one", "two", "old"):
        assert_samples(page, f"Long-run samples of {name}: density in the plane")


def test_few_samples_in_more_dimensions_are_histograms(make_run: MakeRun, tmp_path: Path) -> None:
    for samples, how in ((ENOUGH_FOR_KERNELS, "kernels"), (ENOUGH_FOR_KERNELS - 1, "histograms")):
        run = make_run(f"run-{samples}", dimension=3, iterations=20, samples=samples)
        page = write_report([run], tmp_path / "r.html").read_text()
        assert ("histograms of the first two" in page) == (how == "histograms")


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        (("u_long",), ["over steps", "Energy distance over"]),
        (("u_data", "u_long"), ["Energy distance over"]),
        (("trail_long", "trail_data"), ["at the end"]),
        (("trail_data",), ["over steps", "at the end", "Energy distance over"]),
    ],
)
def test_chains_of_which_something_is_missing(gone: tuple[str, ...], left: list[str]) -> None:
    arrays = trail_arrays(np.random.default_rng(0))
    arrays = {key: value for key, value in arrays.items() if not key.startswith(gone)}
    drawn = chains.pictures(arrays, {})
    assert len(drawn) == len(left)
    assert all(part in title for (title, *_), part in zip(drawn, left, strict=True))


def test_chains_that_were_lost_are_drawn_as_far_as_they_went() -> None:
    arrays = trail_arrays(np.random.default_rng(0)) | {"u_data": np.full(4, np.nan)}
    arrays["trail_long_u"][2:] = np.nan
    arrays["trail_long_distance"][2:] = np.nan
    titles = [title for title, *_ in chains.pictures(arrays, {"energy_distance_floor": 0.01})]
    assert titles == [chains.CURVES[name].title for name in ("steps", "histograms", "distances")]
    columns = chains.with_floor(arrays, {"energy_distance_floor": 0.01})
    for name in ("steps", "distances"):
        axes = Figure().add_subplot()
        chains.CURVES[name].draw(axes, [columns], figures.LIGHT)
        lines = {drawn.get_label(): drawn for drawn in axes.lines}
        x, y = (np.asarray(v, dtype=float) for v in lines["from noise"].get_data())
        np.testing.assert_array_equal(x[np.isfinite(y)], [10, 20])  # step 0 stands at half of 20
        assert np.isfinite(lines["from data"].get_ydata()).any()


def test_diverged_samples_still_make_a_page(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(metrics={"energy_distance_short": float("nan")}, iterations=20)
    with np.load(run / "evaluation.npz") as file:
        arrays = dict(file) | {"x_short": np.full((10, 2), np.nan)}
    np.savez(run / "evaluation.npz", **arrays)
    page = write_report([run], tmp_path / "r.html").read_text()
    assert "The chains diverged." in page
    assert "100.0% of samples are NaN or infinite" in page


def test_what_comes_from_files_is_escaped(make_run: MakeRun, tmp_path: Path) -> None:
    evil = "<script>alert(1)<'\"$_{&"
    run = make_run(evil.replace("/", ""), GOOD | {evil: 1.0}, iterations=20)
    config = f"# command: {evil}\n" + yaml.safe_dump({evil: {"class_path": evil}})
    (run / "config.yaml").write_text(config)
    page = write_report([run, make_run("_plain$", iterations=20)], tmp_path / "r.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_run_without_iterations_has_no_curves(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(iterations=1)
    (run / "metrics.csv").write_text("")
    assert "No iteration was logged" in write_report([run], tmp_path / "r.html").read_text()


# Bad input.


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("config.yaml", "coldness train"),
        ("metrics.csv", "coldness train"),
        ("metrics.json", "coldness evaluate"),
        ("evaluation.npz", "coldness evaluate"),
    ],
)
def test_missing_and_broken_files(make_run: MakeRun, tmp_path: Path, file: str, says: str) -> None:
    run, out = make_run(iterations=5), tmp_path / "r.html"
    (run / file).write_text("[1, 2\n3, 4, 5" if file != "metrics.csv" else "a,b\n1\n")
    with pytest.raises(BadFile, match=f"{file} is truncated .* `{says}"):
        write_report([run], out)
    (run / file).unlink()
    with pytest.raises(BadFile, match=f"has no {file}; .*{says}") as caught:
        write_report([run], out)
    assert "\n" not in str(caught.value)
    assert not out.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"x_long": np.zeros(3)},
        {"log_p_model": np.zeros((3, 3))},
        {"box": np.array(0.0)},
        {"slice_side": np.zeros(3), "slice_log_p_model": np.zeros((3, 2))},
        {"trail_long_steps": np.zeros(3), "trail_long_u": np.zeros((3, 3))},
        {"trail_data_steps": np.zeros(3), "trail_data_u": np.zeros(3)},
    ],
)
def test_arrays_of_the_wrong_shape(
    make_run: MakeRun, tmp_path: Path, change: dict[str, np.ndarray]
) -> None:
    run = make_run(iterations=5)
    with np.load(run / "evaluation.npz") as file:
        arrays = dict(file) | change
    np.savez(run / "evaluation.npz", **arrays)
    with pytest.raises(BadFile, match="coldness evaluate"):
        write_report([run], tmp_path / "r.html")


def test_settings_and_figures_must_be_mappings(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(iterations=5)
    (run / "config.yaml").write_text("- 1\n")
    with pytest.raises(BadFile, match="should be a mapping"):
        write_report([run], tmp_path / "r.html")
    (run / "config.yaml").write_text("seed: 1\n")
    (run / "metrics.json").write_text("[]")
    with pytest.raises(BadFile, match=r"metrics\.json is truncated"):
        write_report([run], tmp_path / "r.html")


def test_whether_it_is_images_is_read_from_the_data(make_run: MakeRun, tmp_path: Path) -> None:
    plane = reader.read_evaluation(make_run(iterations=5))
    assert (plane.is_images, plane.is_line, plane.is_plane) == (False, False, True)
    for shape, expected in (((7, 1), "line"), ((7, 3), "plane"), ((7, 1, 1, 1), "images")):
        (folder := tmp_path / expected).mkdir()
        arrays = {f"x_{kind}": np.ones(shape) for kind in ("data", "short", "long")}
        np.savez(folder / "evaluation.npz", **arrays)
        found = reader.read_evaluation(folder)
        kinds = {"line": found.is_line, "plane": found.is_plane, "images": found.is_images}
        assert [kind for kind, is_it in kinds.items() if is_it] == [expected]


def test_a_broken_row_of_a_study_is_named(tmp_path: Path) -> None:
    assert reader.read_row(tmp_path) is None
    for text in ("{", "[]"):
        (tmp_path / "row.json").write_text(text)
        with pytest.raises(BadFile, match=r"row\.json .* run the study again"):
            reader.read_row(tmp_path)
    (tmp_path / "row.json").write_text('{"kl": null}')
    assert reader.read_row(tmp_path) == {"kl": None}


def test_a_folder_is_no_file_to_write_to(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="is a folder"):
        write_report([make_run(iterations=5)], tmp_path)
    with pytest.raises(ValueError, match="at least one run"):
        write_report([], tmp_path / "r.html")


# A real browser.


@pytest.mark.browser
@needs_browser
@pytest.mark.parametrize("several", [False, True])
def test_the_page_in_a_browser(make_run: MakeRun, tmp_path: Path, several: bool) -> None:
    """At desktop and phone width every picture loads and nothing sticks out to the right."""
    names = ["a-run-with-quite-a-long-name-that-has-no-spaces-to-break-at", "run", "other"]
    plane, deep = {"trails": True}, {"trails": True, "slices": True, "dimension": 5}
    kinds = (deep, deep, plane) if several else (deep,)
    runs = [
        make_run(name, DEEP, iterations=50, **kind)
        for name, kind in zip(names, kinds, strict=False)
    ]
    check_in_browser(write_report(runs, tmp_path / "r.html").read_text(), (1280, 390), tmp_path)


@pytest.mark.parametrize(
    ("share", "answer"), [(0.5, "yes"), (0.599, "yes"), (0.6, "partly"), (0.75, "no"), (1.0, "no")]
)
def test_neighbours_must_agree_with_the_energy_distance(share: float, answer: str) -> None:
    """A Gaussian is at the floor of the energy distance to rings, and is no sample of them."""
    short = verdict_on({**GOOD, "neighbours_short": share}).answers["generation"]
    assert short.grade == answer
    assert f"1-NN two-sample test {share:.2g} (0.5 = indistinguishable)" in short.measured
    assert verdict_on({**GOOD, "neighbours_long": share}).answers["long_chains"].grade == answer


def test_a_right_bracket_is_no_density_where_long_chains_leave() -> None:
    """Mass that neither data nor noise reaches is in no bracket."""
    tight = {"kl": 0.02, "kl_low": 0.0, "kl_high": 0.045, "log_z_low": 0.0, "log_z_high": 0.05}
    tight |= {
        "searched": 1.0,
        "log_z_ess_forward": 0.9,
        "log_z_ess_reverse": 0.9,
        "u_shift": 0.1,
        "u_drift": 0.0,
    }
    assert verdict_on(tight).answers["density"].grade == "yes"
    for change in ({"u_shift": -0.8}, {"u_drift": 0.4}, {"lost_chains_long": 3}):
        answer = verdict_on({**tight, **change}).answers["density"]
        assert answer.grade == "partly"
        assert "mass elsewhere" in answer.text


def test_any_source_may_be_the_first_of_a_shared_contrast() -> None:
    """Source 2's plain names are its contrast's; its own figures end in _source_2."""
    one = np.ones(3)
    columns = {"d_std_2": 2 * one, "d_2": 8 * one, "d_source_2": 6 * one}
    assert with_noise(columns)["d_snr_2"] == pytest.approx(3 * one)
