"""Running a study from the command line: the runs with their bars, the table and the page.

`coldness reproduce` and `coldness sweep` are a few lines over `carry_out`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from coldness.cli.console import console, output
from coldness.files import write_atomically
from coldness.machine import threads
from coldness.progress import stages
from coldness.runs.folder import FolderError, lock
from coldness.signals import Interrupted, number_of
from coldness.studies import Study
from coldness.studies.cell import quick, read_cell
from coldness.studies.claims import Outcome, Record, judge_claims
from coldness.studies.grid import Grid
from coldness.studies.number import Number
from coldness.studies.page import write_study_report
from coldness.studies.plate_figure import figure_png
from coldness.studies.rescues import SHOWN
from coldness.studies.study import Cell, file_name
from coldness.studies.theory import NUMBERS, ROWS
from coldness.training.recipe import find

BADGES = {True: "[bold green]holds[/]", False: "[bold red]does not hold[/]", None: "not measured"}


def carry_out(
    study: Study,
    out: Path,
    command: str,
    *,
    seeds: Sequence[int],
    workers: int | None,
    short: bool = False,
    png: bool = False,
) -> int:
    """Executes what is left of a study, writes its table and page, and prints its claims.

    Args:
        study: the grid and its claims.
        out: folder of the study.
        command: the command line, for the page.
        seeds: of every setting.
        workers: runs at a time; None for as many as there are cores.
        short: whether to train a tenth of the iterations.
        png: whether to write the figures as files too.
    Returns: exit code, 1 if a run failed.
    Raises:
        RecipeError: a setting is wrong; nothing was written.
        FolderError: the folder holds something else; nothing was written.
        Interrupted: stopped; the same command resumes.
    """
    workers = _cores() if workers is None else workers
    if workers < 1:
        raise FolderError("--workers must be >= 1")
    cells = _checked_cells(study, seeds, short)
    mark = _mark(study, out)
    grid = Grid(cells, out / "runs")
    # Nothing has been written so far.
    out.mkdir(parents=True, exist_ok=True)
    with lock(out):
        write_atomically(out / MARKED, lambda file: file.write(mark.encode()))
        _run(study, grid, out, workers)
        _report(study, grid, out, command, short)
        if png:
            _pictures(study, grid, out)
    for name, problem in grid.problems.items():
        output.print(f"{name} failed: {problem}", markup=False)
    return 1 if grid.problems else 0


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked_cells(study: Study, seeds: Sequence[int], short: bool) -> list[Cell]:
    """All runs; every setting is made once, so that a wrong one is refused before any run."""
    with console.status("reading settings"):
        first = [quick(cell) if short else cell for cell in study.cells(1)]
        for cell in first:
            read_cell(cell).parts()
    options = {str(cell.place): cell.options for cell in first}
    return [cell.with_options(**options[str(cell.place)]) for cell in study.cells(seeds)]


MARKED = "study.txt"


def _mark(study: Study, out: Path) -> str:
    """The text that marks the study's folder.

    Raises:
        FolderError: the folder may not be written to.
    """
    recipes = {block.recipe: find(block.recipe).read_bytes() for block in study.blocks}
    digest = hashlib.sha256(repr(sorted(recipes.values())).encode()).hexdigest()[:16]
    mark = f"# a study of coldness: {study.name}\n# recipes: {digest}\n"
    path = out / MARKED
    if path.is_file() and path.read_text() != mark:
        raise FolderError(
            f"{out} holds another study, or one of other recipes; choose another --out"
        )
    if out.exists() and not path.is_file() and (not out.is_dir() or any(out.iterdir())):
        raise FolderError(f"{out} holds something else than a study; nothing was written")
    return mark


def _run(study: Study, grid: Grid, out: Path, workers: int) -> None:
    left = len(grid.cells) - len(grid.rows)
    console.print(f"{study.title}: {len(grid.cells)} runs, {left} to do, into {out}", markup=False)
    try:
        with _display(grid) as show:

            def on_change(grid: Grid) -> None:
                if show(grid):
                    _save(out / "table.json", grid.table())

            grid.run(workers, on_change, lambda line: console.print(line, markup=False))
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"stopped with {len(grid.rows)} of {len(grid.cells)} runs done; "
            "the same command resumes",
            number_of(error),
        ) from None


class _Display:
    """One bar for the study, and one line per run under way."""

    def __init__(self, progress: Progress, grid: Grid) -> None:
        self._progress = progress
        self._done = len(grid.rows) + len(grid.problems)
        self._all = progress.add_task(
            "study", total=len(grid.cells), completed=self._done, figures=""
        )
        self._lines: dict[str, TaskID] = {}

    def __call__(self, grid: Grid) -> bool:
        """Shows how far the grid is; returns whether a run has finished since."""
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
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:>3.0f}% eta"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with Progress(*columns, console=console, speed_estimate_period=600) as progress:
        yield _Display(progress, grid)


def _report(study: Study, grid: Grid, out: Path, command: str, short: bool) -> None:
    """Judges the claims, and writes table and page."""
    numbers = [] if grid.problems else _numbers(study, grid, out, short)
    rows = grid.table()
    compared = ROWS[study.numbers](rows, grid.folder) if study.numbers in ROWS else rows
    places = [cell.place for cell in grid.cells]
    outcomes = judge_claims(study.claims, rows, places, study.axes)
    columns = dict.fromkeys(key for row in compared for key in row)
    _save(out / "table.json", [*compared, *({**columns, **number} for number in numbers)])
    page = out / "report.html"
    with stages("report") as stage:
        stage("pictures")
        shown = [] if study.numbers not in ROWS else [_shown(row) for row in compared]
        write_study_report(study, rows, outcomes, numbers, out / "runs", page, command, shown)
    _print(outcomes, numbers)
    output.print(f"table: {out / 'table.json'}\nreport: {page}", markup=False)


def _shown(row: Record) -> Record:
    """What the page shows of a compared run, by heading."""
    return {heading: row.get(name) for name, heading in SHOWN.items()}


def _pictures(study: Study, grid: Grid, out: Path) -> None:
    with stages("png") as stage:
        for block in study.blocks:
            stage(block.name)
            path = out / f"{file_name(block.name)}.png"
            figure_png(study, grid.table(), grid.folder, block.name, path)


def _numbers(study: Study, grid: Grid, out: Path, short: bool) -> list[Number]:
    """Checks that need no training run; kept while the runs are the same."""
    if study.numbers is None:
        return []
    path, rows = out / "numbers.json", grid.table()
    key = hashlib.sha256(json.dumps([short, rows]).encode()).hexdigest()
    if path.is_file():
        kept = json.loads(path.read_text())
        if kept["of"] == key:
            return kept["numbers"]
    with stages(study.numbers) as stage, threads(1):
        numbers = NUMBERS[study.numbers](rows, grid.folder, short, stage)
    _save(path, {"of": key, "numbers": numbers})
    return numbers


def _save(path: Path, content: Any) -> None:
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def _print(outcomes: Sequence[Outcome], numbers: Sequence[Number]) -> None:
    for outcome in outcomes:
        output.print(f"{escape(outcome.says)}: {BADGES[outcome.holds]}")
        output.print(f"  {outcome.measured}", style="dim", markup=False)
    for row in numbers:
        equation = f" ({row['equation']})" if row["equation"] else ""
        output.print(f"{escape(row['claim'])}{equation}: {BADGES[row['holds']]}")
        output.print(f"  {row['measured']}; expected: {row['expected']}", style="dim", markup=False)
