"""coldness sweep: a grid of runs from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coldness.cli.main import main
from coldness.cli.sweep import study_of, varied
from coldness.studies.cell import read_cell

QUICK = (
    "--iterations=20",
    "--batch_size=16",
    "--energy.net.widths=[8]",
    "--sources.0.steps=2",
    "--compile=never",
    "--evaluation={samples: 50, long_steps: 5, grid: 40, ais: null, adjusted: false}",
)


@pytest.mark.parametrize(
    ("word", "option", "values"),
    [
        ("seed=0..4", "seed", [0, 1, 2, 3, 4]),
        ("contrast.beta=0,.5,.9", "contrast.beta", [0, 0.5, 0.9]),
        ("--contrast.beta=0", "contrast.beta", [0]),
        ("energy.net.widths=[8],[4, 4]", "energy.net.widths", [[8], [4, 4]]),
        ("a={class_path: MLP, x: 1},'b,c'", "a", [{"class_path": "MLP", "x": 1}, "b,c"]),
    ],
)
def test_values_of_an_option(word: str, option: str, values: list[Any]) -> None:
    assert varied([word]) == {option: values}


def test_a_grid_is_every_combination_with_every_seed() -> None:
    varied = {
        "contrast.beta": [0.0, 0.9],
        "sampler.steps": [5, 6],
        "seed": [3, 7],
    }
    sampler = {
        "start": "GaussianNoise",
        "kernel": {"class_path": "Langevin", "init_args": {"step_size": 0.1}},
    }
    study = study_of("mixture2d", varied, {"iterations": 30, "sampler": sampler})
    cells = study.cells(study.seeds)
    assert study.axes == ["block", "beta", "sampler-steps"]  # steps are those of a source
    assert [cell.seed for cell in cells] == [3] * 4 + [7] * 4
    seen = {
        (s.contrast.beta, s.sampler.steps, s.seed, s.iterations)
        for s in (read_cell(cell).parts() for cell in cells)
    }
    assert seen == {(b, n, k, 30) for b in (0.0, 0.9) for n in (5, 6) for k in (3, 7)}
    assert read_cell(cells[0]).values["guard"]["policy"] == "rollback"  # the recipe's own


def test_a_sweep_makes_a_table_and_a_page_and_skips_what_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["sweep", "mixture2d", "--vary", "contrast.beta=0,.5", "--out", str(out), *QUICK]
    assert main([*words, "--workers", "1"]) == 0
    rows = json.loads((out / "table.json").read_text())
    assert [row["beta"] for row in rows] == [0, 0.5]
    assert all(row["energy_distance_short"] > 0 for row in rows)
    page = (out / "report.html").read_text()
    assert "mixture2d: contrast.beta" in page
    assert "coldness sweep mixture2d --vary contrast.beta=0,.5" in page
    made = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    capsys.readouterr()
    assert main(words) == 0
    assert "2 runs, 0 to do" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == made


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name what varies"),
        (["--vary", "contrast.beta"], "--vary takes OPTION=VALUES"),
        (["--vary", "contrast.bta=0,1"], "did you mean 'contrast.beta'"),
        (["--vary", "contrast.beta=0,x"], "must be float"),
        (["--vary", "seed=4..1"], "A..B needs A <= B"),
        (["--vary", "seed=1,1"], "different ones"),
        (["--vary", "seed=1", "--vary", "seed=2"], "seed is given twice"),
        (["--vary", "seed=0..1", "--seed", "3"], "one value and vary too"),
        (["--vary", "contrast.beta=[0"], "--vary contrast.beta=[0"),
        (["--vary", "seed=0..1", "--workers", "0"], "--workers must be >= 1"),
        (["--vary", "seed=0..1", "--allow-imports"], "import no classes"),
    ],
)
def test_a_bad_sweep_gets_one_line_and_writes_nothing(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["sweep", "mixture2d", "--out", str(out), *QUICK, *words]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert says in error
    assert not out.exists()
