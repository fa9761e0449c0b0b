"""Models side by side: what is marked as best, and the commands that print verdicts."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from coldness.checksums import load_json
from coldness.cli import evaluate as evaluate_command
from coldness.cli.main import main
from coldness.report import figures
from coldness.trust.comparison import best, main_metrics
from small import QUICK

EXACT = {"tv": 0.1, "energy_distance_floor": 0.001, "samples": 4000}


# What is best.


def test_differences_below_the_tolerance_are_none() -> None:
    runs = [EXACT | {"kl": kl} for kl in (0.1, 0.1049, 0.106, 3.0)]
    assert best(runs)["kl"] == [0, 1]


def test_energy_distances_are_told_apart_by_more_than_the_floor() -> None:
    runs = [EXACT | {"energy_distance_short": x} for x in (0.0012, 0.0021, 0.0023)]
    assert best(runs)["energy_distance_short"] == [0, 1]
    few = [runs[0], runs[1] | {"samples": 1000}]
    assert "energy_distance_short" not in best(few)


def test_large_and_centred_figures() -> None:
    runs = [
        EXACT | {"log_likelihood_test": -1.0, "neighbours_long": 0.41, "auroc_logp_a": 0.9},
        EXACT | {"log_likelihood_test": -2.0, "neighbours_long": 0.55, "auroc_logp_a": 0.8},
    ]
    marked = best(runs)
    assert marked["log_likelihood_test"] == [0]
    assert marked["neighbours_long"] == [1]
    assert marked["lowest_auroc"] == [0]


def test_conditional_samples_are_compared_and_alignment_is_not() -> None:
    """An encoder that has collapsed is easy to align with."""
    collapsed = {"alignment": 1.0, "like_agreement": 0.1, "attribute_agreement_2": 0.2}
    runs = [collapsed, {"alignment": 0.5, "like_agreement": 0.9, "attribute_agreement_2": 0.8}]
    assert best(runs) == {"like_agreement": [1], "attribute_agreement_2": [1]}


def bracket(kl: float, half: float, ess: float = 0.5) -> dict[str, float]:
    width = {"log_z_low": -half, "log_z_high": half}
    shares = {"log_z_ess_forward": ess, "log_z_ess_reverse": ess}
    return {"kl": kl, "kl_low": kl - half, "kl_high": kl + half, **width, **shares}


def test_brackets_that_overlap_are_not_told_apart() -> None:
    runs = [bracket(0.10, 0.03), bracket(0.15, 0.03), bracket(0.17, 0.03)]
    assert best(runs)["kl"] == [0, 1]
    assert best([bracket(0.1, 0.03), bracket(5.0, 900.0), bracket(0.3, 0.03)])["kl"] == [0]
    assert best([bracket(0.1, 0.03), bracket(0.1, 0.03, ess=0.0001), bracket(1, 0.03)])["kl"] == [0]


def test_what_is_not_finite_or_alone_is_the_best_at_nothing() -> None:
    assert best([EXACT | {"kl": math.nan}, EXACT | {"kl": 1.0}, EXACT | {"kl": 2.0}])["kl"] == [1]
    assert "kl" not in best([EXACT | {"kl": math.inf}, EXACT | {"kl": 1.0}])
    assert best([{}, {}]) == {}
    assert math.isnan(main_metrics({"auroc_logp_a": math.nan, "auroc_logp_b": 0.9})["lowest_auroc"])


# Commands.


@pytest.fixture(autouse=True, scope="module")
def _coarse_kernels() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "KDE_POINTS", 24)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A small trained run, and a copy whose density is far better; tests must not change them."""
    folder = tmp_path_factory.mktemp("runs")
    words = [*QUICK, "--batch_size=16", "--sources.0.steps=3", "--iterations=120"]
    words += ["--evaluation.adjusted=false"]
    assert main(["train", "mixture2d", "--out", str(folder / "a"), *words]) == 0
    shutil.copytree(folder / "a", folder / "b")
    path = folder / "b" / "metrics.json"
    good = {"kl": 1e-3, "reverse_kl": 1e-3, "tv": 0.01, "searched": 1.0, "tail_flat": 0.0}
    good |= {"mass_elsewhere": 0.0, "mode_weight_error": 0.0, "log_z_crossed": 0.0}
    path.write_text(json.dumps(load_json(path) | good))
    return [folder / "a", folder / "b"]


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    assert main(words) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("coldness: ")
    return line


def test_side_by_side(runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    text = said(capsys, ["compare", *map(str, runs), "--out", str(page)])
    for wanted in ("Is its density right?", "Total variation", "0.001 *", "0.01 *"):
        assert wanted in text
    assert text.count("Was training healthy?") == 1
    assert page.read_text().count('class="summary"') == 2
    assert "exists" in refused(capsys, ["compare", *map(str, runs), "--out", str(page)])


def test_side_by_side_as_json(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, ["compare", *map(str, runs), "--json"]))
    assert [run["name"] for run in found["runs"]] == ["a", "b"]
    assert found["best"]["kl"] == ["b"]
    assert found["best"]["energy_distance_short"] == ["a", "b"]
    density = [run["answers"]["density"]["grade"] for run in found["runs"]]
    assert density[1] == "yes"
    assert found["runs"][0]["metrics"]["health_window"] == 120


def test_runs_on_different_data_are_not_compared(
    runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(runs[1], other)
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(config.replace("std: 0.15", "std: 0.2"))
    text = said(capsys, ["compare", str(runs[0]), str(other)])
    assert "different data" in text
    assert " *" not in text
    assert json.loads(said(capsys, ["compare", str(runs[0]), str(other), "--json"]))["best"] == {}


def test_what_cannot_be_compared(
    runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "two runs or more" in refused(capsys, ["compare", str(runs[0])])
    assert "holds no run" in refused(capsys, ["compare", str(runs[0]), str(tmp_path)])
    bare = tmp_path / "bare"
    shutil.copytree(runs[0], bare)
    (bare / "metrics.json").unlink()
    assert "coldness evaluate" in refused(capsys, ["compare", str(runs[0]), str(bare)])


def test_trust_is_printed_at_once_where_it_was_measured(
    runs: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("evaluated again")

    monkeypatch.setattr(evaluate_command, "judge", never)
    before = {path.name: path.stat().st_mtime_ns for path in runs[1].iterdir()}
    text = said(capsys, ["evaluate", str(runs[1]), "--trust"])
    for wanted in ("generate", "long chains", "density", "distribution", "healthy", "yes", "KL"):
        assert wanted in text
    assert {path.name: path.stat().st_mtime_ns for path in runs[1].iterdir()} == before
    found = json.loads(said(capsys, ["evaluate", str(runs[1]), "--trust", "--json"]))
    assert list(found["answers"]) == ["generation", "long_chains", "density", "ood", "training"]
    assert list(found["answers"]["ood"]) == ["question", "grade", "measured", "text"]
    assert found["answers"]["density"]["grade"] == "yes"
    with pytest.raises(AssertionError, match="evaluated again"):
        main(["evaluate", str(runs[1]), "--trust", "--samples=60"])


def test_trust_evaluates_what_an_old_evaluation_lacks(
    runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(runs[1], old)
    metrics = load_json(old / "metrics.json")
    without = {k: v for k, v in metrics.items() if "_logp_" not in k}
    (old / "metrics.json").write_text(json.dumps(without))
    x = np.random.default_rng(0).uniform(-3, 3, size=(150, 2))
    np.save(tmp_path / "far.npy", x)
    words = ["evaluate", str(old), "--trust", "--ood", str(tmp_path / "far.npy")]
    assert "report:" in said(capsys, words)
    figures = load_json(old / "metrics.json")
    assert figures["kl"] > 0.01  # evaluated anew
    assert {"auroc_logp_uniform", "auroc_logp_far", "auroc_logp_far_best"} <= figures.keys()
    assert {"health_window", "expansion_share", "seconds", "iterations"} <= figures.keys()
    assert "against far" in (old / "report.html").read_text()


def test_bad_files_of_points_write_nothing(
    runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in runs[0].iterdir()}
    np.save(tmp_path / "wide.npy", np.zeros((200, 3)))
    for name, says in (("none.npy", "there is no file"), ("wide.npy", "3 dimensions")):
        line = refused(capsys, ["evaluate", str(runs[0]), "--ood", str(tmp_path / name)])
        assert says in line
    assert {path.name: path.stat().st_mtime_ns for path in runs[0].iterdir()} == before
    assert "holds no run" in refused(capsys, ["evaluate", str(tmp_path), "--trust"])


@pytest.mark.parametrize("command", ["compare", "evaluate"])
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, [command, "--help"])
    assert "--json" in text
    assert ("star" if command == "compare" else "metrics.json has all that") in " ".join(
        text.split()
    )
