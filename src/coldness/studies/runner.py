"""Running a study's grid: one process a run, as many at once as there are cores.

Processes are forked from a server that has imported PyTorch already, so a run costs what it takes
and no more. Each trains with one thread. What a run came to is in its folder: row.json for the
table, beside the files of any run. A second call goes on with what is not finished, at the last
checkpoint of each run.

A process ends when the one that started it is gone, for its messages have nowhere to go.
"""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from coldness.evaluation import evaluate
from coldness.schedules import Schedule
from coldness.studies.study import Cell
from coldness.training import Interrupted, Training, fit
from coldness.training.checkpoint import load_checkpoint, write_atomically
from coldness.training.folder import FolderError, RunFolder
from coldness.training.guard import Diverged
from coldness.training.recipe import Resolved, find, resolve
from coldness.training.settings import Settings

Row = dict[str, Any]

FIGURES = (
    "kl",
    "reverse_kl",
    "tv",
    "mass_outside",
    "kl_gaussian",
    "energy_distance_short",
    "energy_distance_long",
    "energy_distance_floor",
)
QUICK = 10
"""What iterations are divided by for a quick look."""


def read_cell(cell: Cell, quick: bool = False) -> Resolved:
    """The settings of a run."""
    path = find(cell.recipe)
    resolved = resolve(path, cell.overrides)[0]
    if not quick:
        return resolved
    iterations = max(1, resolved.settings.iterations // QUICK)
    return resolve(path, [*cell.overrides, f"--iterations={iterations}"])[0]


def done_row(folder: Path, cell: Cell) -> Row | None:
    """What a finished run came to; None where it is not finished."""
    path = folder / cell.name / "row.json"
    return json.loads(path.read_text()) if path.is_file() else None


def run_cell(
    cell: Cell,
    folder: Path,
    quick: bool = False,
    on_progress: Callable[[float, str], None] = lambda share, figures: None,
) -> Row:
    """Trains and judges one run in folder/NAME, from its last checkpoint on; gives its row.

    Args:
        cell: the run.
        folder: of the study's runs.
        quick: a tenth of the iterations.
        on_progress: called with the share of the run that is done, and figures to show.
    """
    resolved, run = read_cell(cell, quick), RunFolder(folder / cell.name)
    settings = resolved.settings
    _open(run, resolved, cell)
    row: Row = {"block": cell.block, "recipe": cell.recipe, **_settings_of(settings)}
    row |= {**cell.levels, "seed": cell.seed}
    row |= dict.fromkeys(FIGURES) | {"seconds": 0.0, "diverged_at": None, "run": cell.name}
    training = Training(settings)
    if run.checkpoint.exists():
        training.load_state_dict(load_checkpoint(run.checkpoint))
    begin = time.perf_counter() - training.seconds
    try:
        fit(
            training,
            run.path,
            on_block=lambda t, f: on_progress(t / settings.iterations, f"d {f['d']:+.3g}"),
        )
    except Diverged as diverged:
        row |= {"diverged_at": diverged.iteration}
    else:
        run.save_model(training.weights())
        settings.load_model_state(training.weights())
        figures, arrays = evaluate(settings, lambda stage: on_progress(1.0, stage))
        bad = [name for name, value in figures.items() if not math.isfinite(value)]
        if bad:
            row |= {"diverged_at": training.iteration, "not_finite": ", ".join(bad)}
        else:
            row |= {name: figures.get(name) for name in FIGURES}
            run.save_evaluation({**figures, "iterations": training.iteration}, arrays)
    row["seconds"] = round(time.perf_counter() - begin, 3)
    text = json.dumps(row, allow_nan=False)
    write_atomically(run.path / "row.json", lambda file: file.write(text.encode()))
    return row


def _open(run: RunFolder, resolved: Resolved, cell: Cell) -> None:
    """Makes the folder; refuses one that holds a run with other settings."""
    if run.holds_run():
        if resolve(run.config)[0].text != resolved.text:  # read again: older runs lack new fields
            raise FolderError(f"{run.path} was trained with other settings; choose another --out")
        return
    run.open(overwrite=False)
    words = ["coldness", "train", cell.recipe, *cell.overrides]
    run.save_config(resolved.text, cell.recipe, shlex.join(words))


def _settings_of(settings: Settings) -> Row:
    """What tables are read by."""
    beta, source = settings.contrast.beta, settings.sources[0]
    return {
        "data": type(settings.data).__name__.lower(),
        "beta": type(beta).__name__ if isinstance(beta, Schedule) else beta,
        "variant": settings.contrast.variant,
        "steps": source.steps,
        "negatives": sum(s.chains_for(settings.batch_size) for s in settings.sources),
        "iterations": settings.iterations,
    }


@dataclass
class Progress:
    """Of one run under way."""

    cell: Cell
    process: BaseProcess
    pipe: Connection
    share: float = 0.0
    figures: str = "starting"
    row: Row | None = None
    problem: str = ""


@dataclass
class Grid:
    """The runs of a study, and what came of them so far.

    Args:
        cells: all runs.
        folder: where each has its folder.
        quick: a tenth of the iterations.
    """

    cells: Sequence[Cell]
    folder: Path
    quick: bool = False
    rows: dict[str, Row] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    running: list[Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        for cell in self.cells:
            row = done_row(self.folder, cell)
            if row is not None:
                self.rows[cell.name] = row

    def table(self) -> list[Row]:
        """Rows of finished runs, in the order of the grid."""
        return [self.rows[cell.name] for cell in self.cells if cell.name in self.rows]

    def run(
        self,
        workers: int,
        on_change: Callable[[Grid], None] = lambda grid: None,
        on_line: Callable[[str], None] = print,
    ) -> None:
        """Runs what is not finished. Ctrl-C reaches the runs too, which save themselves.

        Args:
            workers: processes at once.
            on_change: called when there is something new to show; a finished run is in `rows`.
            on_line: called with lines that runs log.
        """
        waiting = [cell for cell in self.cells if cell.name not in self.rows]
        context: Any = multiprocessing.get_context(_method())
        if _method() == "forkserver":
            context.set_forkserver_preload([__name__])
        try:
            while waiting or self.running:
                while waiting and len(self.running) < workers:
                    self.running.append(self._begin(context, waiting.pop(0)))
                wait([p.pipe for p in self.running] + [p.process.sentinel for p in self.running])
                for progress in list(self.running):
                    self._hear(progress, on_line)
                on_change(self)
        except BaseException:
            for progress in self.running:
                progress.process.join(30)
                progress.process.terminate()
            raise

    def _begin(self, context: Any, cell: Cell) -> Progress:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(
            target=_work, args=(cell, self.folder, self.quick, theirs), daemon=True
        )
        process.start()
        theirs.close()
        return Progress(cell, process, ours)

    def _hear(self, progress: Progress, on_line: Callable[[str], None]) -> None:
        """Takes in what a run has said, and its end."""
        gone = not progress.process.is_alive()  # asked first: what it said last is in the pipe
        try:
            while progress.pipe.poll():
                kind, *values = progress.pipe.recv()
                if kind == "progress":
                    progress.share, progress.figures = values
                elif kind == "line":
                    on_line(f"{progress.cell.name}: {values[0]}")
                elif kind == "row":
                    progress.row = values[0]
                else:
                    progress.problem = values[0]
        except EOFError:
            gone = True
        if gone:
            self._end(progress)

    def _end(self, progress: Progress) -> None:
        progress.process.join()
        progress.pipe.close()
        self.running.remove(progress)
        name = progress.cell.name
        if progress.row is not None:
            self.rows[name] = progress.row
        else:
            code = progress.process.exitcode
            self.problems[name] = progress.problem or f"its process ended with code {code}"


def _method() -> str:
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


class _ToPipe(logging.Handler):
    """Warnings of a run, to the process that shows them."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__(logging.WARNING)
        self.pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        self.pipe.send(("line", record.getMessage()))


def _work(cell: Cell, folder: Path, quick: bool, pipe: Connection) -> None:
    """The body of a process."""
    log = logging.getLogger("coldness")
    log.handlers, log.propagate = [_ToPipe(pipe)], False
    try:
        row = run_cell(
            cell, folder, quick, lambda share, figures: pipe.send(("progress", share, figures))
        )
        pipe.send(("row", row))
    except (BrokenPipeError, KeyboardInterrupt, Interrupted):
        os._exit(1)  # nobody listens, or the user stopped it: what is saved is saved
    except Exception as error:
        line = " ".join(str(error).split()) or type(error).__name__
        pipe.send(("problem", line))
