"""Running a study's grid: one process per run, as many at once as there are cores.

Processes are forked from a server that has imported PyTorch already, so runs start quickly.
Each uses as many threads as its recipe says, which is one. They do not receive signals of the
terminal: Ctrl-C and other signals reach the process that shows the progress, which passes them on
as SIGTERM, and every run saves itself. A run also saves itself and ends if that process has ended.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from coldness.files import write_atomically
from coldness.signals import Interrupted, raising
from coldness.studies.cell import finished_row, run_cell
from coldness.studies.claims import Record
from coldness.studies.study import Cell

SECONDS_TO_SAVE = 90
"""Time for runs to save themselves; a run that is compiling its chains needs half a minute."""


@dataclass
class Progress:
    """Progress of one run."""

    cell: Cell
    process: BaseProcess
    pipe: Connection
    share: float = 0.0
    figures: str = "starting"
    row: Record | None = None
    problem: str = ""


@dataclass
class Grid:
    """The runs of a study, and their results so far.

    Args:
        cells: all runs.
        folder: that holds the folders of all runs.

    Raises:
        FolderError: a run's folder holds a run with other settings.
    """

    cells: Sequence[Cell]
    folder: Path
    rows: dict[str, Record] = field(default_factory=dict, init=False)
    problems: dict[str, str] = field(default_factory=dict, init=False)
    running: list[Progress] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        for cell in self.cells:
            row = finished_row(cell, self.folder)
            if row is not None:
                self.rows[cell.name] = row

    def table(self) -> list[Record]:
        """Rows of finished runs, in the order of the grid."""
        return [self.rows[cell.name] for cell in self.cells if cell.name in self.rows]

    def run(
        self,
        workers: int,
        on_change: Callable[[Grid], None] = lambda grid: None,
        on_line: Callable[[str], None] = print,
    ) -> None:
        """Executes all runs that are not finished.

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
        finally:
            self._stop()

    def _begin(self, context: Any, cell: Cell) -> Progress:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(cell, self.folder, theirs), daemon=True)
        process.start()
        theirs.close()
        return Progress(cell, process, ours)

    def _hear(self, progress: Progress, on_line: Callable[[str], None]) -> None:
        """Receives the messages of a run, and notices its end."""
        gone = not progress.process.is_alive()  # checked first: its last messages are in the pipe
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

    def _stop(self) -> None:
        """Makes the active runs save themselves."""
        for progress in self.running:
            if progress.process.pid is not None and progress.process.is_alive():
                os.kill(progress.process.pid, signal.SIGTERM)
        deadline = time.monotonic() + SECONDS_TO_SAVE
        for progress in self.running:
            progress.process.join(max(0.0, deadline - time.monotonic()))
            progress.process.kill()


def _method() -> str:
    return "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


class _ToPipe(logging.Handler):
    """Sends warnings of a run to the process that shows them."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__(logging.WARNING)
        self.pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        self.pipe.send(("line", record.getMessage()))


def _work(cell: Cell, folder: Path, pipe: Connection) -> None:
    """The body of a process."""
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    trouble = folder / f"{cell.name}.error.txt"
    trouble.unlink(missing_ok=True)
    log = logging.getLogger("coldness")
    log.handlers, log.propagate = [_ToPipe(pipe)], False

    def tell(share: float, figures: str) -> None:
        try:
            pipe.send(("progress", share, figures))
        except BrokenPipeError:  # the parent has ended: same as an interruption
            signal.raise_signal(signal.SIGTERM)

    try:
        with raising():
            row = run_cell(cell, folder, tell)
        pipe.send(("row", row))
    except (BrokenPipeError, KeyboardInterrupt, Interrupted):
        os._exit(1)  # the run is saved already
    except Exception as error:
        folder.mkdir(parents=True, exist_ok=True)
        text = traceback.format_exc().encode()
        write_atomically(trouble, lambda file: file.write(text))
        line = " ".join(str(error).split()) or type(error).__name__
        pipe.send(("problem", f"{line} ({trouble})"))
