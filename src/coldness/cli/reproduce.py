"""coldness reproduce STUDY: run a paper's grid of experiments, and set what came out beside it.

STUDY is one of those that `coldness reproduce --list` shows, or a YAML file of your own. Runs use
all cores, one process a run. Ctrl-C saves them; the same command goes on where it stopped, and
skips what is done.

DIR/table.json    one flat row a run: its settings and figures
DIR/report.html   the paper's figures, what it says and what came out
DIR/runs/         every run, as `coldness train` leaves it
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jsonargparse import ArgumentParser
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from coldness.cli.console import console, output, stages
from coldness.report.study import write_study_report
from coldness.studies import Study, packaged_studies, read_study
from coldness.studies.claims import Outcome, judge_claims
from coldness.studies.runner import Grid, Row, read_cell
from coldness.studies.theory import NUMBERS
from coldness.training.checkpoint import write_atomically
from coldness.training.folder import FolderError
from coldness.training.loop import Interrupted

BADGES = {True: "[bold green]holds[/]", False: "[bold red]does not hold[/]", None: "not measured"}


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="coldness reproduce", description=__doc__, exit_on_error=False)
    parser.add_argument("study", nargs="?", help="a packaged study or a YAML file")
    parser.add_argument("--list", action="store_true", help="show the studies that there are")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the iterations, for a look"
    )
    parser.add_argument(
        "--seeds", type=int, default=None, help="of every setting; default: study's"
    )
    parser.add_argument(
        "--out", type=str, default=None, help="folder; default runs/reproduce/STUDY"
    )
    parser.add_argument(
        "--workers", type=int, default=None, help="runs at once; default: all cores"
    )
    return parser


def main(words: list[str]) -> int:
    given = parser().parse_args(words or ["--help"])
    if given.list:
        for name in packaged_studies():
            output.print(f"[bold]{name:<20}[/] {read_study(name).title}")
        return 0
    if given.study is None:
        raise FolderError("name a study; `coldness reproduce --list` shows them")
    study = read_study(given.study)
    seeds = study.seeds if given.seeds is None else given.seeds
    workers = _cores() if given.workers is None else given.workers
    if seeds < 1 or workers < 1:
        raise FolderError("--seeds and --workers must be >= 1")
    out = Path(given.out or f"runs/reproduce/{study.name}{'-quick' if given.quick else ''}")
    grid = Grid(study.cells(seeds), out / "runs", given.quick)
    for block in study.blocks:  # before anything is written
        read_cell(next(cell for cell in grid.cells if cell.block == block.name), given.quick)
    _claim_folder(out, study)
    _run(study, grid, out, workers)
    numbers = _numbers(study, grid, out)
    outcomes = judge_claims(study.claims, grid.table(), study.axes)
    _save_table(out, [*grid.table(), *numbers])
    with stages("report") as stage:
        stage("pictures")
        command = shlex.join(["coldness", "reproduce", *words])
        write_study_report(
            study, grid.table(), outcomes, numbers, out / "runs", out / "report.html", command
        )
    _print(study, outcomes, numbers)
    output.print(f"table: {out / 'table.json'}")
    output.print(f"report: {out / 'report.html'}")
    for name, problem in grid.problems.items():
        output.print(f"[bold]{name} failed:[/] {problem}")
    return 1 if grid.problems else 0


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _claim_folder(out: Path, study: Study) -> None:
    """Makes the folder, or says why it may not be written to."""
    mark = f"# a study of coldness: {study.name}\n"
    path = out / "study.txt"
    if path.is_file() and path.read_text() != mark:
        raise FolderError(f"{out} holds another study; choose another --out")
    if out.exists() and not path.is_file() and (not out.is_dir() or any(out.iterdir())):
        raise FolderError(f"{out} holds something else than a study; nothing was written")
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(mark)


def _run(study: Study, grid: Grid, out: Path, workers: int) -> None:
    left = len(grid.cells) - len(grid.rows)
    console.print(f"[bold]{study.title}[/]: {len(grid.cells)} runs, {left} to do, into {out}")
    try:
        with _display(grid) as show:

            def on_change(grid: Grid) -> None:
                if show(grid):
                    _save_table(out, grid.table())

            grid.run(workers, on_change, console.print)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped with {len(grid.rows)} of {len(grid.cells)} runs done; "
            "the same command goes on"
        ) from None


class _Display:
    """One bar for the study, and one line for each run under way."""

    def __init__(self, progress: Progress, grid: Grid) -> None:
        self._progress = progress
        self._done = len(grid.rows) + len(grid.problems)
        self._all = progress.add_task(
            "study", total=len(grid.cells), completed=self._done, figures=""
        )
        self._lines: dict[str, TaskID] = {}

    def __call__(self, grid: Grid) -> bool:
        """Shows how far the grid is; whether a run has finished since."""
        done = len(grid.rows) + len(grid.problems)
        under_way = sum(run.share for run in grid.running)
        text = f"{done} of {len(grid.cells)} runs"
        self._progress.update(self._all, completed=done + under_way, figures=text)
        running = {run.cell.name: run for run in grid.running}
        for name in [name for name in self._lines if name not in running]:
            self._progress.remove_task(self._lines.pop(name))
        for name, run in running.items():
            if name not in self._lines:
                self._lines[name] = self._progress.add_task(name, total=1.0, figures="")
            self._progress.update(self._lines[name], completed=run.share, figures=run.figures)
        finished, self._done = done > self._done, done
        if finished and not self._progress.console.is_terminal:  # a log: bars do not show there
            self._progress.console.print(text)
        return finished


@contextmanager
def _display(grid: Grid) -> Iterator[_Display]:
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:>3.0f}% eta"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console, speed_estimate_period=600) as progress:
        yield _Display(progress, grid)


def _numbers(study: Study, grid: Grid, out: Path) -> list[Row]:
    """Figures that are no runs, computed once."""
    if study.numbers is None:
        return []
    path = out / "numbers.json"
    if not path.is_file():
        with stages(study.numbers) as stage:
            _save(path, NUMBERS[study.numbers](grid.table(), grid.folder, grid.quick, stage))
    return json.loads(path.read_text())


def _save_table(out: Path, rows: list[Row]) -> None:
    _save(out / "table.json", rows)


def _save(path: Path, rows: list[Row]) -> None:
    text = json.dumps(rows, indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def _print(study: Study, outcomes: list[Outcome], numbers: list[Row]) -> None:
    for outcome in outcomes:
        output.print(f"{outcome.says}: {BADGES[outcome.holds]}")
        output.print(f"  {outcome.measured}", style="dim")
    for row in numbers:
        output.print(f"{row['claim']} ({row['equation']}): {BADGES[row['holds']]}")
        output.print(f"  {row['measured']}, expected {row['expected']}", style="dim")
