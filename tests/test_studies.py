"""Studies: files, grids, claims, and the runs of a grid in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from coldness.cli import study_runs
from coldness.cli.main import main
from coldness.metrics import STUDIED
from coldness.runs.checkpoints import saved
from coldness.runs.folder import FolderError, RunFolder
from coldness.studies import Study, packaged_studies, read_study
from coldness.studies.cell import quick, read_cell, run_cell
from coldness.studies.claims import judge_claims
from coldness.studies.grid import Grid
from coldness.studies.loose import is_loose
from small import saved_state, stand_in_images

SMALL = """
title: A small study
paper: none
reported: nothing
seeds: 2
set:
  iterations: 30
  batch_size: 16
  energy.net.widths: [8]
  sources.0.steps: 3
  evaluation.samples: 50
  evaluation.long_steps: 5
  evaluation.grid: 40
  evaluation.ais: null
  evaluation.adjusted: false
  compile: never
blocks:
  - name: mixture
    recipe: mixture2d
    vary:
      kernel:
        small: {sources.0.kernel.step_size: 0.001}
        large: {sources.0.kernel: MALA, sources.0.kernel.step_size: 0.01}
      beta: {contrast.beta: [0, 0.9]}
claims:
  - {says: all runs complete, check: completes}
  - {says: kl falls, check: falls, column: kl, along: beta}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


# Files and grids.


@pytest.mark.parametrize("name", list(packaged_studies()))
def test_packaged_studies_can_be_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting is one that training takes, and every claim can be judged."""
    stand_in_images(tmp_path)
    monkeypatch.setenv("COLDNESS_DATA", str(tmp_path))
    study = read_study(name)
    assert study.title
    assert study.paper
    assert study.reported
    cells = study.cells(1)
    assert len({cell.name for cell in cells}) == len(cells)
    of_block = {cell.block: cell for cell in cells}  # the last of each
    for cell in of_block.values():
        settings = read_cell(quick(cell)).parts()
        assert settings.seed == 0
        assert settings.iterations == read_cell(cell).parts().iterations // 10


def test_a_grid_is_every_combination_with_every_seed(small: Path) -> None:
    study = read_study(str(small))
    cells = study.cells(2)
    assert len(cells) == 2 * 2 * 2
    assert [cell.seed for cell in cells] == 4 * [0] + 4 * [1]
    assert study.axes == ["block", "kernel", "beta"]
    settings = read_cell(cells[2]).parts()
    assert cells[2].name == "mixture-kernel=large-beta=0-seed=0"
    assert type(settings.sources[0].kernel).__name__ == "MALA"
    assert settings.sources[0].kernel.step_size == 0.01
    assert settings.energy.coldness == 800


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("seeds: 2", "sedes: 2", "did you mean 'seeds'"),
        ("recipe: mixture2d", "recipe: mixture3d", "did you mean 'mixture2d'"),
        ("recipe: mixture2d", "recpe: mixture2d", "did you mean 'recipe'"),
        ("{contrast.beta: [0, 0.9]}", "[0, 0.9]", "beta must hold keys"),
        ("check: falls", "check: fals", "did you mean 'falls'"),
        ("{contrast.beta: [0, 0.9]}", "{contrast.bta: [0, 0.9]}", "bta"),
        ("title: A", "title: [A", "YAML"),
        ("seeds: 2", "seeds: 2.7", "seeds must be a whole number"),
        ("seeds: 2", "seeds: 2\nnumbers: [theory]", "no numbers"),
        ("    vary:", "    vary: 5\n    nothing:", "nothing"),
        ("  iterations: 30", "  conf: {a: b}", "no option 'conf'"),
        ("  iterations: 30", "  seed: 3", "no option 'seed'"),
        ("      kernel:", "      seed:", "cannot be called 'seed'"),
        ("column: kl, along: beta", "column: kl", "missing a required argument"),
        ("column: kl, along: beta", "column: kll, along: beta", "did you mean 'kl'"),
        ("column: kl, along: beta", "column: kl, along: bet", "did you mean 'beta'"),
        ("check: completes", "check: completes, column: kl", "unexpected keyword"),
        ("check: completes", "check: completes, where: {beta: 0.3}", "selects no runs"),
        ("check: completes", "check: completes, where: [1]", "where must hold keys"),
        ("[0, 0.9]", "[]", "must be"),
        ("[0, 0.9]", "['a b', 'a/b']", "the same name"),
        ("small: {", f"{'x' * 300}: {{", "too long"),
        ("large: {sources.0.kernel: MALA", "large: {sources.0.kernel: MALAX", "MALAX"),
    ],
)
def test_a_bad_study_gets_one_line_and_writes_nothing(
    small: Path, before: str, after: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write_text(SMALL.replace(before, after))
    out = small.parent / "out"
    assert main(["reproduce", str(small), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert says in error
    assert not out.exists()


def test_names_of_runs_do_not_lead_out_of_the_folder(small: Path, tmp_path: Path) -> None:
    small.write_text(
        SMALL.replace("small:", "'../../x/y [b]':").replace("name: mixture", "name: /a")
    )
    names = [cell.name for cell in study_of(small).cells(1)]
    assert all((tmp_path / name).resolve().parent == tmp_path.resolve() for name in names)


def test_pictures_stay_in_the_folder_of_the_study(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace("name: mixture", "name: ../../mixture"))
    out = tmp_path / "a" / "b" / "out"
    words = ["reproduce", str(small), "--out", str(out), "--seeds", "1", "--png"]
    assert main(words) == 0
    assert [path.parent for path in tmp_path.rglob("*.png")] == [out]


def test_levels_may_be_lists_and_numbers_in_any_notation(small: Path) -> None:
    small.write_text(SMALL.replace("contrast.beta: [0, 0.9]", "energy.net.widths: [[8], [4, 4]]"))
    assert [cell.levels["beta"] for cell in study_of(small).cells(1)[:2]] == ["[8]", "[4, 4]"]
    small.write_text(SMALL.replace("[0, 0.9]", "[1e-3, 1.0e-2]"))
    assert [cell.levels["beta"] for cell in study_of(small).cells(1)[:2]] == [1e-3, 1e-2]


def test_text_of_a_study_is_no_markup(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace("A small study", "'[/b] small'").replace("kl falls", "'[/x]'"))
    assert main(["reproduce", str(small), "--out", str(tmp_path / "out"), "--seeds", "1"]) == 0


def test_an_unknown_study_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "beta-density"]) == 2
    assert "did you mean 'beta-densities'" in capsys.readouterr().err


# Claims.

AXES = ["block", "variant", "beta"]


def row(beta: float, kl: float | None, seed: int = 0, **more: Any) -> dict[str, Any]:
    return {"block": "a", "variant": "x", "beta": beta, "seed": seed, "kl": kl,
            "diverged_at": 7 if kl is None else None, "run": f"{beta}-{seed}", **more}  # fmt: skip


def holds(rows: list[dict[str, Any]], **claim: Any) -> bool | None:
    return judge_claims([{"says": "", **claim}], rows, rows, AXES)[0].holds


def test_monotone_claims_are_of_means_at_every_other_setting() -> None:
    rows = [row(0, 3), row(0, 5, 1), row(0.5, 4.5), row(0.5, 1, 1), row(0.9, 1), row(0.9, 1, 1)]
    assert holds(rows, check="falls", column="kl", along="beta") is True
    assert holds(rows, check="rises", column="kl", along="beta") is False
    other = [row(0, 1, block="b"), row(0.9, 2, block="b")]
    assert holds(rows + other, check="falls", column="kl", along="beta") is False
    where = {"block": "a"}
    assert holds(rows + other, check="falls", column="kl", along="beta", where=where) is True
    assert holds([*rows, row(1.0, None)], check="falls", column="kl", along="beta") is False
    assert holds([row(0, None), *rows[2:]], check="falls", column="kl", along="beta") is True


def test_missing_runs_make_no_claim_hold() -> None:
    rows = [row(0, 3), row(0.5, 2)]
    places = [*rows, row(0.9, 1)]
    for claim in ({"check": "falls", "column": "kl", "along": "beta"}, {"check": "completes"}):
        outcome = judge_claims([{"says": "", **claim}], rows, places, AXES)[0]
        assert outcome.holds is None
        assert outcome.measured == "2 of 3 runs"
    missing = [{**row(0, 1), "kl": None}, row(0.5, 0.5)]
    assert holds(missing, check="falls", column="kl", along="beta") is None


def test_levels_are_taken_in_the_order_of_the_study() -> None:
    rows = [row("small", 3), row("large", 1)]  # type: ignore[arg-type]
    assert holds(rows, check="falls", column="kl", along="beta") is True


def test_equal_means_are_not_monotone() -> None:
    assert holds([row(0, 1), row(1, 1)], check="falls", column="kl", along="beta") is False


def test_drops_asks_for_the_factor_between_the_ends() -> None:
    rows = [row(0, 10), row(0.9, 1)]
    assert holds(rows, check="drops", column="kl", along="beta", factor=9) is True
    assert holds(rows, check="drops", column="kl", along="beta", factor=11) is False


def test_beyond_is_the_opposite_of_within() -> None:
    rows = [row(0, 3.0, floor=1.0)]
    assert holds(rows, check="beyond", column="kl", of="floor", factor=3) is False
    assert holds(rows, check="beyond", column="kl", of="floor", factor=2.9) is True
    assert holds([row(0, None, floor=1.0)], check="beyond", column="kl", of="floor") is False


def test_lost_chains_count_as_infinitely_far() -> None:
    lost = [{**row(0, 1.0, floor=1.0), "energy_distance_long": None, "lost_chains_long": 7}]
    asked = {"column": "energy_distance_long", "of": "floor", "factor": 10}
    assert holds(lost, check="within", **asked) is False
    assert holds(lost, check="beyond", **asked) is True
    none = [{**row(0, 1.0, floor=1.0), "energy_distance_long": None}]
    assert holds(none, check="within", **asked) is None


def test_what_was_reached_before_diverging_counts() -> None:
    rows = [row(0, None, accuracy_best=0.1), row(2, 1.0, accuracy_best=0.3)]
    asked = {"check": "rises", "along": "beta"}
    assert holds(rows, column="accuracy_best", **asked) is True
    assert holds(rows, column="kl", **asked) is False  # infinite, then 1


def test_a_run_that_diverged_is_no_good_by_any_column() -> None:
    rows = [row(0, None, auroc_logp_svhn=None, weight_ess_least=None)]
    for column in ("auroc_logp_svhn", "weight_ess_least"):
        assert holds(rows, check="exceeds", column=column, value=0.1) is False


def test_within_compares_two_columns() -> None:
    rows = [row(0, 2.0, floor=1.0), row(0, 4.0, 1, floor=1.0)]
    assert holds(rows, check="within", column="kl", of="floor", factor=3) is True
    assert holds(rows, check="within", column="kl", of="floor", factor=2.9) is False
    assert holds([row(0, None, floor=1.0)], check="within", column="kl", of="floor") is False


def test_exceeds_counts_diverged_runs() -> None:
    assert holds([row(0, 6), row(0, None, 1)], check="exceeds", column="kl", value=5) is True
    assert holds([row(0, 4), row(0, None, 1)], check="exceeds", column="kl", value=5) is False


def test_lowest_names_a_level() -> None:
    rows = [row(0.5, 1), row(0.5, 2, variant="y"), row(0.9, 1), row(0.9, 0.5, variant="y")]
    asked = {"check": "lowest", "column": "kl", "along": "variant", "level": "x"}
    assert holds(rows, **asked, where={"beta": 0.5}) is True
    assert holds(rows, **asked) is False
    others = [row(0.5, 1), row(0.5, None, variant="y")]
    assert holds(others, **asked) is True  # a competitor that diverged


def test_agree_is_an_analysis_of_variance() -> None:
    def levels(**values: list[float]) -> list[dict[str, Any]]:
        return [row(0, v, k, variant=x) for x, of in values.items() for k, v in enumerate(of)]

    asked = {"check": "agree", "column": "kl", "along": "variant"}
    assert holds(levels(x=[1.0, 1.4, 1.1], y=[1.2, 1.3, 1.0]), **asked) is True
    assert holds(levels(x=[1.0, 1.1, 1.05], y=[5.0, 5.1, 4.9]), **asked) is False
    assert holds(levels(x=[1.0], y=[1.0]), **asked) is None


def test_completes_counts_runs() -> None:
    rows = [row(0, 1), row(0, None)]
    outcome = judge_claims([{"says": "", "check": "completes"}], rows, rows, AXES)[0]
    assert outcome.holds is False
    assert "1 of 2" in outcome.measured


LOOSE = {"kl_bracket": "loose"}
TIGHT = {"kl_bracket": "tight"}


@pytest.mark.parametrize(
    "claim",
    [
        {"check": "falls", "along": "beta"},
        {"check": "rises", "along": "beta"},
        {"check": "drops", "along": "beta", "factor": 2},
        {"check": "lowest", "along": "beta", "level": 0.9},
        {"check": "agree", "along": "beta"},
        {"check": "within", "of": "floor"},
        {"check": "beyond", "of": "floor"},
        {"check": "exceeds", "value": 0.1},
        {"check": "below", "value": 9},
    ],
)
def test_kls_with_loose_brackets_are_not_compared(claim: dict[str, Any]) -> None:
    def outcome(*brackets: dict[str, Any]) -> Any:
        rows = [
            row(beta, kl, k, floor=1.0, **of)
            for beta, kl, of in zip((0, 0.9), (3.0, 1.0), brackets, strict=True)
            for k in range(2)
        ]
        return judge_claims([{"says": "", "column": "kl", **claim}], rows, rows, AXES)[0]

    assert outcome(TIGHT, TIGHT).holds is not None
    loose = outcome(TIGHT, LOOSE)
    if claim["check"] in ("within", "beyond"):  # decided by the other setting, or by none
        assert loose.holds in (None, False)
    else:
        assert loose.holds is None
    assert "not measured (loose bracket)" in loose.measured
    assert outcome(LOOSE, LOOSE).holds is None


def test_rows_of_earlier_versions_have_brackets_by_their_ends() -> None:
    ess = {"log_z_ess_forward": 0.5, "log_z_ess_reverse": 0.5}
    assert not is_loose(row(0, 1.0, kl_low=0.95, kl_high=1.05, **ess), "kl")
    assert is_loose(row(0, 1.0, kl_low=0.5, kl_high=1.5, **ess), "kl")
    assert is_loose(row(0, 1.0, kl_low=0.95, kl_high=1.05), "kl")
    on_grid = row(0, 1.0, kl_low=0.5, kl_high=1.5, tv=0.1, **ess)
    assert not is_loose(on_grid, "kl")
    assert not is_loose(row(0, 1.0, kl_low=0.5, kl_high=1.5), "kl_low")
    assert not is_loose(row(0, 1.0), "kl")


# Running.


def study_of(path: Path) -> Study:
    return read_study(str(path))


def test_a_study_runs_resumes_and_reports(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["reproduce", str(small), "--out", str(out), "--workers", "2"]
    assert main([*words, "--seeds", "1"]) == 0
    rows = json.loads((out / "table.json").read_text())
    assert [row["beta"] for row in rows] == [0, 0.9, 0, 0.9]
    assert [row["kernel"] for row in rows] == ["small", "small", "large", "large"]
    for row in rows:
        assert {"recipe", "data", "seed", "seconds", "diverged_at", *STUDIED} <= set(row)
        assert all(not isinstance(value, (dict, list)) for value in row.values())
        assert row["kl"] > 0
    assert "<html" in (out / "report.html").read_text()
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("row.json")}
    assert main(words) == 0  # the second seed alone
    assert "8 runs, 4 to do" in " ".join(capsys.readouterr().err.split())
    assert len(json.loads((out / "table.json").read_text())) == 8
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def test_a_run_of_a_study_equals_the_same_run_alone(small: Path, tmp_path: Path) -> None:
    cell = study_of(small).cells(1)[1]
    alone = tmp_path / "alone"
    words = ["train", cell.recipe, *cell.words, "--out", str(alone)]
    assert main(words) == 0
    run_cell(cell, tmp_path / "runs")
    weights = "model/weights.safetensors"
    ours = (tmp_path / "runs" / cell.name / weights).read_bytes()
    assert ours == (alone / weights).read_bytes()


def test_diverged_runs_are_rows_and_are_not_run_again(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace("contrast.beta: [0, 0.9]", "optimiser.lr: [1.0e+30]"))
    grid = Grid(study_of(small).cells(1), tmp_path / "runs")
    grid.run(workers=1)
    assert [row["kl"] for row in grid.table()] == [None, None]
    assert all(row["diverged_at"] is not None for row in grid.table())
    again = Grid(study_of(small).cells(1), tmp_path / "runs")
    assert len(again.rows) == 2


def test_a_run_that_fails_is_a_problem_and_the_others_go_on(small: Path, tmp_path: Path) -> None:
    small.write_text(SMALL.replace("sources.0.kernel: MALA, ", "sources.0.count: -1, "))
    grid = Grid(study_of(small).cells(1), tmp_path / "runs")
    grid.run(workers=1)
    assert len(grid.rows) == 2
    assert all("count must be >= 1" in problem for problem in grid.problems.values())


def test_folders_of_other_things_are_left_alone(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("mine")
    assert main(["reproduce", str(small), "--out", str(theirs)]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert [path.name for path in theirs.iterdir()] == ["thesis.tex"]


def test_runs_with_other_settings_are_refused(small: Path, tmp_path: Path) -> None:
    cell = study_of(small).cells(1)[0]
    run_cell(cell, tmp_path)
    (tmp_path / cell.name / "row.json").unlink()
    with pytest.raises(ValueError, match="other settings"):
        run_cell(quick(cell), tmp_path)


def test_finished_runs_with_other_settings_are_refused(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quick table must not be made of full runs, nor that of an edited study of old ones."""
    out = tmp_path / "out"
    words = ["reproduce", str(small), "--out", str(out), "--seeds", "1"]
    cell = study_of(small).cells(1)[0]
    run_cell(cell, out / "runs")
    (out / "study.txt").write_text(study_runs._mark(study_of(small), tmp_path / "none"))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main([*words, "--quick"]) == 2
    assert "other settings" in capsys.readouterr().err
    small.write_text(SMALL.replace("batch_size: 16", "batch_size: 17"))
    assert main(words) == 2
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_one_folder_takes_one_process(small: Path, tmp_path: Path) -> None:
    cell = study_of(small).cells(1)[0]
    run = RunFolder(tmp_path / cell.name)
    with run.locked(), pytest.raises(FolderError, match="in use by another process"):
        run_cell(cell, tmp_path)


def test_a_killed_process_is_a_problem_and_its_run_goes_on(small: Path, tmp_path: Path) -> None:
    """kill -9 of one run: the others finish, and a second call finishes it from its checkpoint."""
    small.write_text(SMALL.replace("iterations: 30", "iterations: 1500\n  checkpoint_every: 100"))
    cells = study_of(small).cells(1)[:2]
    grid = Grid(cells, tmp_path)
    killed: list[str] = []

    def kill_the_first(grid: Grid) -> None:
        for progress in grid.running:
            if not killed and progress.share > 0.2:
                killed.append(progress.cell.name)
                progress.process.kill()

    grid.run(2, kill_the_first)
    assert list(grid.problems) == killed
    assert len(grid.rows) == 1
    assert saved(tmp_path / killed[0] / "checkpoints")
    again = Grid(cells, tmp_path)
    again.run(1)
    assert len(again.rows) == 2


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_an_interrupted_study_goes_on_where_it_stopped(small: Path, tmp_path: Path) -> None:
    """SIGINT to the process group, as a terminal sends it: runs save, and resume bit for bit."""
    small.write_text(
        SMALL.replace("iterations: 30", "iterations: 1500").replace("seeds: 2", "seeds: 1")
    )
    out = tmp_path / "out"
    words = [sys.executable, "-m", "coldness.cli.main", "reproduce", str(small), "--out", str(out)]
    process = subprocess.Popen(
        [*words, "--workers", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.time() + 120
    logs = [out / "runs" / cell.name / "metrics.csv" for cell in study_of(small).cells(1)[:2]]
    while time.time() < deadline and not all(p.is_file() and p.stat().st_size > 5000 for p in logs):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert "the same command resumes" in error
    assert all(saved_state(log.parent)["iteration"] for log in logs)
    cell = study_of(small).cells(1)[0]
    assert main(["reproduce", str(small), "--out", str(out)]) == 0
    run_cell(cell, tmp_path / "whole")
    weights = "model/weights.safetensors"
    ours = (out / "runs" / cell.name / weights).read_bytes()
    assert ours == (tmp_path / "whole" / cell.name / weights).read_bytes()


def test_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in packaged_studies())
