"""The report for tables: tests of pairs, plain models, unusual rows with reasons, robust axes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

import coldness
from browser import check_in_browser, needs_browser
from coldness.cli.main import main
from coldness.data import Table, TableUnits
from coldness.data.given import TestPoints as Points
from coldness.data.given import test_data as judged
from coldness.energies import Gaussian
from coldness.evaluation.plain_models import (
    BANDWIDTHS,
    bandwidth_by_leaving_out,
    fitted_models,
    kernel_log_p,
)
from coldness.evaluation.table_checks import check_table, leading_directions, unusual_rows
from coldness.evaluation.two_samples import chosen_pairs, compare_pairs, rows_for
from coldness.model import Model
from coldness.report import write_report
from coldness.report.densities import Densities
from coldness.report.figures import LIGHT, Curve
from coldness.report.robust import half_side, outside, span
from coldness.report.run import read_run
from coldness.report.tables import table_report
from coldness.report.training import CURVES
from coldness.runs.reader import Evaluation
from conftest import BLANK
from page_pictures import decoded
from test_table import TINY, mixed

COLUMNS = 4
PAIRS = chosen_pairs(COLUMNS, 0)


def correlated(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, COLUMNS)) @ (np.eye(COLUMNS) + 0.5)


# Tests of pairs.


def test_no_pair_differs_more_often_than_the_level_says() -> None:
    """Of 200 tests at 0.2 on equal laws, at most 0.2 + five standard errors have any such pair."""
    draws = range(200)
    least = [
        compare_pairs(correlated(15, k), correlated(15, 1000 + k), PAIRS, k, orders=19)[1].min()
        for k in draws
    ]
    assert np.mean(np.array(least) <= 0.2) <= 0.2 + 5 * np.sqrt(0.2 * 0.8 / len(draws))
    assert np.mean(np.array(least) <= 0.6) >= 0.3  # and p-values are not all 1


def test_pairs_of_a_shifted_column_differ_and_no_others() -> None:
    x, y = correlated(150, 0), correlated(150, 1)
    y[:, 2] += 4
    _, p = compare_pairs(x, y, PAIRS)
    with_it = (PAIRS == 2).any(1)
    assert (p[with_it] == 1 / 200).all()
    assert (p[~with_it] > 0.05).all()


def test_a_pair_may_differ_where_its_columns_do_not() -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    y = np.random.default_rng(1).normal(size=(200, 3))
    y[:, 1] = y[:, 0]
    _, p = compare_pairs(x, y, chosen_pairs(3, 0))
    assert p[0] == 1 / 200
    assert p[1:].min() > 0.05


def test_the_statistic_is_the_energy_distance_of_ranks() -> None:
    x, y = correlated(20, 0)[:, :2], correlated(20, 1)[:, :2]
    ranks = np.concatenate([x, y]).argsort(0).argsort(0) + 1.0
    a, b = ranks[:20] / 40, ranks[20:] / 40

    def mean(u: np.ndarray, v: np.ndarray) -> float:
        return float(np.linalg.norm(u[:, None] - v[None], axis=2).mean())

    expected = 2 * mean(a, b) - mean(a, a) - mean(b, b)
    found, _ = compare_pairs(x, y, np.array([[0, 1]]), orders=5)
    assert found[0] == pytest.approx(expected, rel=1e-4)
    far = x.copy()
    far[x[:, 0].argmax(), 0] = 1e30
    assert compare_pairs(far, y, np.array([[0, 1]]), orders=5)[0] == pytest.approx(found)


def test_work_is_bounded() -> None:
    assert len(chosen_pairs(40, 0)) == 780
    many = chosen_pairs(100, 0)
    assert many.shape == (780, 2)
    assert (many[:, 0] < many[:, 1]).all()
    assert rows_for(1) == 1000
    assert 780 * (2 * rows_for(780)) ** 2 <= 5e7
    with pytest.raises(ValueError, match="equal size, got 3 and 2"):
        compare_pairs(np.zeros((3, 2)), np.zeros((2, 2)), np.array([[0, 1]]))


# Plain models.


def test_plain_models_are_those_of_scikit_learn() -> None:
    x = np.concatenate([correlated(200, 0), correlated(200, 1) + 6])
    data = Table.of(x, held_out=0.25, validation=0.0)
    found = fitted_models(data)
    train, test = data.train.double().numpy(), data.test.double().numpy()
    mixtures = [GaussianMixture(k, random_state=0).fit(train) for k in (1, 2, 3)]
    best = min(mixtures, key=lambda m: m.bic(train))
    assert found["mixture_components"] == best.n_components == 2
    scale = data.domain.log_scale
    assert found["log_likelihood_mixture"] == pytest.approx(best.score(test) - scale)
    kernels = KernelDensity(bandwidth=found["kde_bandwidth"]).fit(train)
    expected = kernels.score(test) / len(test) - scale
    assert found["log_likelihood_kde_cv"] == pytest.approx(expected)


def test_the_bandwidth_leaves_each_row_out() -> None:
    rows = torch.from_numpy(correlated(60, 3))
    others = [
        np.mean([
            float(kernel_log_p(rows[k : k + 1], torch.cat([rows[:k], rows[k + 1 :]]), h))
            for k in range(60)
        ])
        for h in BANDWIDTHS
    ]  # fmt: skip
    assert bandwidth_by_leaving_out(rows) == BANDWIDTHS[int(np.argmax(others))]


def test_plain_models_need_more_rows_than_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 20))
    assert fitted_models(Table.of(rows)) == {}


# Unusual rows.


def gaussian_model(data: Table) -> Model:
    """The Gaussian with the covariance of the training part: its reasons are known."""
    x = data.train.double()
    energy = Gaussian(x.mean(0).tolist(), torch.cov(x.T).tolist())
    energy.reach = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    return Model(energy, data.domain)


def odd_table() -> tuple[Table, pd.DataFrame, int]:
    """A table with one odd row among those held out."""
    frame = pd.DataFrame(correlated(400, 0), columns=["a", "b", "c", "d"])
    frame["n"] = np.random.default_rng(5).poisson(30, 400)
    place = int(Table.of(frame).places[3])
    frame.loc[place, "c"] += 9.0
    return Table.of(frame), frame, place


def test_the_odd_row_is_first_and_its_reason_is_the_odd_column() -> None:
    data, frame, place = odd_table()
    found = unusual_rows(gaussian_model(data), data)
    assert int(found["unusual_place"][0]) == place
    assert int(found["unusual_slopes"][0].abs().argmax()) == 2
    assert float(found["unusual_slopes"][0, 2]) > 0
    np.testing.assert_allclose(
        found["unusual_x"].numpy(), frame.iloc[found["unusual_place"]], rtol=1e-4, atol=1e-4
    )
    assert bool((found["unusual_score"].diff() >= 0).all())


def test_scores_are_those_of_the_command_and_missing_values_stay_missing() -> None:
    data, frame, _ = odd_table()
    frame.loc[data.places[:40].numpy(), "b"] = np.nan
    data = Table.of(frame)
    model = gaussian_model(data)
    found = unusual_rows(model, data)
    rows = frame.iloc[found["unusual_place"]]
    expected = -model.potential(rows)
    np.testing.assert_allclose(found["unusual_score"], expected, rtol=1e-4)
    assert int(data.missing.sum()) == 40
    assert (found["unusual_x"][:, 1].isnan().numpy() == rows["b"].isna()).all()


def test_rows_of_a_file_for_testing_keep_their_places() -> None:
    data, frame, place = odd_table()
    points = Points(data.units.spread(torch.from_numpy(frame.to_numpy()), 0), data.domain)
    assert int(unusual_rows(gaussian_model(data), points)["unusual_place"][0]) == place
    frame.loc[place, "a"] = np.nan
    found = unusual_rows(gaussian_model(data), judged(frame, data.domain).finite)
    assert int(found["unusual_place"][0]) == place
    assert bool(found["unusual_x"][0].isnan()[0])


def test_leading_directions_are_principal_components() -> None:
    x = np.random.default_rng(0).normal(size=(3000, 4))
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    found = leading_directions(Table.of(x))
    np.testing.assert_allclose(found["table_axes"][0].abs(), [2**-0.5, 2**-0.5, 0, 0], atol=0.1)
    assert float(found["table_axes_share"][0]) == pytest.approx(0.5, abs=0.02)
    assert leading_directions(Table.of(x[:, :2])) == {}


# Axes.


def test_axes_ignore_one_outlier_and_count_it() -> None:
    x = np.random.default_rng(0).normal(size=1000)
    far = np.append(x, 1e6)
    assert np.allclose(span(far), span(x), atol=0.1)
    assert outside(far, span(far)) >= 1
    assert outside(np.stack([x, x], 1), (-9, 9), (-9, 9)) == 0
    low, high = span(np.array([2.0, 2.0, np.nan]))
    assert low < 2 < high


def test_panels_ignore_one_outlier() -> None:
    """The box of data with an outlier is that of the data without, and the note counts it."""
    x = np.random.default_rng(0).normal(size=(500, 3))
    x[0, 1] = 1e6
    arrays = {"x_data": x, "x_short": x, "x_long": x, "box": np.array(1.2e6)}
    panels = Densities(Evaluation(arrays, False))
    assert 2 < panels.box < 5
    assert "outside the panel" in panels.truth.note
    assert half_side(4.0, x[1:]) == 4.0


# The page.


NAMES = {"a": "<script>alert(1)</script>", "gaps": "$x_{$", "colour": "a & b"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table of all kinds, with an outlier among the held-out rows."""
    folder = tmp_path_factory.mktemp("table")
    frame = mixed(400).rename(columns=NAMES)
    place = int(Table.of(frame).places[0])
    frame.loc[place, ["gaps", "$x_{$"]] = 60.0
    frame.drop(columns="gaps", errors="ignore").to_csv(folder / "my.csv", index=False)
    words = [f"--{path}={json.dumps(value)}" for path, value in TINY.items()]
    line = ["train", "table", "--data.path", str(folder / "my.csv"), "--out", str(folder / "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Curve, "render", lambda *_: BLANK)
        assert main([*line, *words]) == 0
    (folder / "place").write_text(str(place))
    return folder


def test_the_page_of_a_table(run: Path) -> None:
    page = (run / "run/report.html").read_text()
    for heading in ("Log-likelihood of held-out rows", "most unusual held-out rows",
                    "Leading directions", "Columns", "Pairs of columns"):  # fmt: skip
        assert heading in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "a &amp; b = blue" in page
    first = page.split("<tbody>")[2].split("</tr>")[0]
    assert f"<td>{(run / 'place').read_text()}</td>" in first
    assert "<b>$x_{$</b> = 60, too high" in first
    metrics = json.loads((run / "run/metrics.json").read_text())
    assert metrics["pairs_tested"] == 15
    assert {"log_likelihood_mixture", "log_likelihood_kde_cv", "column_distance"} <= set(metrics)


@pytest.mark.parametrize("kind", ["number", "category", "points"])
def test_pictures_are_drawn_whatever_columns_are_called(run: Path, kind: str) -> None:
    """Text between dollars, which is no formula, is no error; and there is something to see."""
    found = read_run(run / "run", "run").table
    assert found is not None
    assert len(found.directions) == 6
    titles = {c.title.partition(":")[0]: c for c in found.columns}
    assert len(titles) == found.total == 6
    names = {"number": "$x_{$", "category": "a & b"}
    curve = found.directions[0] if kind == "points" else titles[names[kind]]
    image = decoded(curve.render([], LIGHT))
    assert image.std() > 5


def test_a_run_can_be_evaluated_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curve, "render", lambda *_: BLANK)
    before = (run / "run/report.html").read_text()
    assert main(["evaluate", str(run / "run"), "--samples=40"]) == 0
    assert (run / "run/report.html").read_text() != before


def test_the_score_of_a_row_is_that_of_the_command(run: Path) -> None:
    out = run / "scores.csv"
    given = ["score", str(run / "run"), str(run / "my.csv"), "--out", str(out), "--overwrite"]
    assert main(given) == 0
    lines = list(csv.DictReader(out.read_text().splitlines()))
    name = next(k for k in lines[0] if k in ("log_p", "minus_u"))
    arrays = np.load(run / "run/evaluation.npz")
    scores = [float(lines[k][name]) for k in arrays["unusual_place"]]
    np.testing.assert_allclose(arrays["unusual_score"], scores, rtol=1e-3)


def test_a_loose_log_z_is_said(run: Path) -> None:
    arrays = {k: v.astype(float) for k, v in np.load(run / "run/evaluation.npz").items()}
    metrics = json.loads((run / "run/metrics.json").read_text())
    units = coldness.load(run / "run").domain.units
    assert isinstance(units, TableUnits)
    tight = {"log_z_low": 0.0, "log_z_high": 0.01, "log_z_ess_forward": 1, "log_z_ess_reverse": 1}
    for high, loose in ((0.01, False), (50.0, True)):
        found = table_report(arrays, {**metrics, **tight, "log_z_high": high}, units)
        assert found is not None
        assert found.loose == loose
    assert table_report({"x_data": arrays["x_data"]}, metrics, units) is None


def test_broken_arrays_of_a_table_are_one_line(run: Path, tmp_path: Path) -> None:
    arrays = dict(np.load(run / "run/evaluation.npz"))
    arrays["unusual_score"] = arrays["unusual_score"][:2]
    copy = tmp_path / "run"
    copy.mkdir()
    for name in ("config.yaml", "metrics.csv", "metrics.json"):
        (copy / name).write_bytes((run / "run" / name).read_bytes())
    np.savez(copy / "evaluation.npz", **arrays)
    with pytest.raises(coldness.files.BadFile, match=r"evaluation\.npz"):
        write_report([copy], tmp_path / "page.html")


def test_chains_that_were_lost_leave_pairs_out() -> None:
    data, _, _ = odd_table()
    lost = {"x_data": data.test, "x_short": data.test * torch.nan}
    metrics, arrays = check_table(gaussian_model(data), data, lost, 0, lambda stage: None)
    assert "pairs_tested" not in metrics
    assert "table_pairs" not in arrays
    assert "unusual_x" in arrays


@needs_browser
def test_the_page_in_a_browser(run: Path, tmp_path: Path) -> None:
    check_in_browser((run / "run/report.html").read_text(), (1200, 390), tmp_path)


def test_the_axis_of_held_out_likelihoods_is_as_wide_as_their_error() -> None:
    axes = plt.figure().subplots()
    run = {"iteration": np.arange(3.0), "live_log_likelihood": np.array([1.0, 1.0001, 1.0002])}
    run["live_log_likelihood_error"] = np.full(3, 0.4)
    CURVES["live_log_likelihood"].draw(axes, [run], LIGHT)
    low, high = axes.get_ylim()
    assert low <= 0.6
    assert high >= 1.4
    plt.close(axes.figure)
