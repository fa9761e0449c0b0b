"""What all commands share: the console, the progress display, the log lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from coldness.runs.log import Row

# Everything people read while they wait goes to stderr; results go to stdout.
console = Console(stderr=True, highlight=False, soft_wrap=True)
output = Console(highlight=False, soft_wrap=True)


def show_log_lines() -> None:
    """Lines that the library logs (compilation above all) appear above the progress bar."""
    handler = RichHandler(console=console, show_time=False, show_path=False, show_level=False)
    log = logging.getLogger("coldness")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class TrainingBar:
    """Progress of a training run: rate, remaining time, and the metrics that matter."""

    def __init__(self, progress: Progress, iterations: int, done: int) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task(
            "train", total=iterations, completed=done, metrics=""
        )

    def __call__(self, iteration: int, row: Row) -> None:
        speed = self._progress.tasks[self._task].speed
        rate = f"{speed:.0f} it/s  " if speed else ""
        metrics = f"{rate}d {row['d']:+.3g}  r {row['r']:.3g}  ess {row['weight_ess']:.2f}"
        if row["attempt"]:
            metrics += f"  rollbacks {row['attempt']:.0f}"
        self._progress.update(self._task, completed=iteration, metrics=metrics)


@contextmanager
def training_bar(iterations: int, done: int = 0) -> Iterator[TrainingBar]:
    """A bar for a run of that many iterations."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metrics]}", markup=False),
    )
    with Progress(*columns, console=console, speed_estimate_period=10) as progress:
        yield TrainingBar(progress, iterations, done)


class Stages:
    """A line that says which stage of a longer work is under way."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None, stage="")

    def __call__(self, stage: str) -> None:
        self._progress.update(self._task, stage=stage)


@contextmanager
def stages(name: str) -> Iterator[Stages]:
    """A spinner with the current stage."""
    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[stage]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        yield Stages(progress, name)
