"""The commands `score` and `detect`, ten nasty files, and the check before training."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coldness
from coldness.cli.main import main
from coldness.estimators import EnergyDetector
from coldness.evaluation.reasons import reasons
from coldness.training.recipe import RecipeError
from test_estimators import BARE
from test_table import TINY, mixed


def words(settings: dict[str, object]) -> list[str]:
    return [f"--{path}={json.dumps(value)}" for path, value in settings.items()]


def test_score_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = mixed(300).drop(columns="far")
    path, run, out = tmp_path / "my.csv", tmp_path / "run", tmp_path / "scores.csv"
    frame.to_csv(path, index=False)
    train = ["train", "table", "--data.path", str(path), "--out", str(run)]
    assert main([*train, *words(TINY)]) == 0
    frame.loc[0, "a"] = 90.0
    frame.loc[3:4, "colour"] = "purple"
    frame.assign(extra=1).to_csv(path, index=False)
    capsys.readouterr()
    assert main(["score", str(run), str(path), "--out", str(out), "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "column colour: a category that training has not seen, or none, in 2 of 300" in printed
    lines = list(csv.DictReader(out.read_text().splitlines()))
    assert len(lines) == 300
    model = coldness.load(run)
    assert model.log_z is not None
    name = "log_p" if model.log_z.tight else "minus_u"
    assert ("scored by log p" in printed) == model.log_z.tight
    found = np.array([float(line[name]) for line in lines])
    np.testing.assert_allclose(np.diff(found), -np.diff(_u(model, frame)), rtol=1e-6, atol=1e-6)
    assert found.argmin() == 0
    assert lines[0]["percentile"] == "0"
    assert "a too high" in lines[0]["why"]
    assert main(["score", str(run), str(path), "--out", str(out)]) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert main(["score", str(run)]) == 2
    assert main(["score", str(run), str(tmp_path / "none.csv")]) == 2
    assert "there is no file" in capsys.readouterr().err


def _u(model: coldness.Model, frame: pd.DataFrame) -> np.ndarray:
    points = model._points(frame)
    return model.potential(frame) + model.domain.units.log_stretch(points).numpy()


def test_reasons_name_the_columns_that_stand_out() -> None:
    gradients = np.array([[0.0, -8.0, 3.0, 0.1], [0.0, 0.0, 0.0, 0.0]])
    numbers: list[tuple[str, ...]] = [()] * 4
    assert reasons(gradients, ["a", "b", "c", "d"], numbers) == ["b too low, c too high", ""]
    numbers[1] = ("Oslo", "Rome")
    assert reasons(gradients, ["a", "b", "c", "d"], numbers) == ["b unusual, c too high", ""]


NASTY = {
    "one far value": mixed(60)[["a", "far"]],
    "all kinds": mixed(80),
    "mostly missing": mixed(60)[["a", "n"]].mask(np.random.default_rng(0).random((60, 2)) < 0.7),
    "copies of one row": pd.concat([mixed(30)[["a", "n"]], *[mixed(30)[["a", "n"]][:1]] * 40]),
    "more columns than rows": pd.DataFrame(np.random.default_rng(1).normal(size=(12, 20))),
    "zeros and ones": pd.DataFrame(np.random.default_rng(2).integers(0, 2, (60, 4))),
    "cauchy": pd.DataFrame(np.random.default_rng(3).standard_cauchy((100, 2))),
    "tiny and huge scales": mixed(60)[["a", "gaps"]] * [1e-200, 1e200],
    "a column of zeros but one": pd.DataFrame({"a": np.arange(60.0), "b": [1e9, *[0.0] * 59]}),
    "one column of text": mixed(60)[["colour"]],
    "copies of columns": pd.concat([mixed(60)[["a"]]] * 3, axis=1).set_axis(list("abc"), axis=1),
}


@pytest.mark.parametrize("name", NASTY)
def test_nasty_files_are_handled(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From file to finite scores, without a refusal or a rollback."""
    monkeypatch.chdir(tmp_path)
    NASTY[name].to_csv("my.csv", index=False)
    small = EnergyDetector.__init__
    monkeypatch.setattr(
        EnergyDetector, "__init__", lambda self, **given: small(self, overrides=BARE, **given)
    )
    assert main(["detect", "my.csv", "--iterations=5"]) == 0
    lines = list(csv.DictReader(Path("my-scores.csv").read_text().splitlines()))
    assert len(lines) == len(NASTY[name])
    assert np.isfinite([float(line["minus_u"]) for line in lines]).all()
    assert {line["outlier"] for line in lines} <= {"0", "1"}


def test_a_beta_that_leaves_no_negatives_stops_before_training(tmp_path: Path) -> None:
    """At beta 0.9 in 30 dimensions (1 - 0.81)^15 = 1.5e-11 of the negatives count."""
    x = np.random.default_rng(0).normal(size=(300, 30))
    quick = {**{k: v for k, v in TINY.items() if k != "stop"}, "iterations": 2}
    with pytest.raises(RecipeError, match=r"negatives count.*--insist"):
        coldness.train("points", data=x, out=tmp_path / "run", overrides=quick)
    assert not (tmp_path / "run").exists()
    np.save(tmp_path / "x.npy", x)
    line = ["train", "points", f"--data.path={tmp_path / 'x.npy'}", f"--out={tmp_path / 'run'}"]
    assert main([*line, *words(quick)]) == 2
    assert not (tmp_path / "run").exists()
    coldness.train("points", data=x, overrides={**quick, "evaluation.ais": None}, insist=True)
