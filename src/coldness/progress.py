"""Progress displays: a bar with the remaining time, or the name of the current stage.

Everything goes to stderr, and only where that is a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
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

console = Console(stderr=True, highlight=False, soft_wrap=True)
"""Console for progress and messages; results go to stdout."""

OnBlock = Callable[[int, Mapping[str, float]], None]
Stage = Callable[[str], None]


class TrainingBar:
    """Progress of a training run: rate, remaining time, and the main metrics.

    A row without the metrics of an energy is shown by its loss.
    """

    def __init__(self, progress: Progress, iterations: int, done: int) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task(
            "train", total=iterations, completed=done, metrics=""
        )

    def __call__(self, iteration: int, row: Mapping[str, float]) -> None:
        speed = self._progress.tasks[self._task].speed
        rate = f"{speed:.{0 if speed >= 10 else 1}f} it/s  " if speed else ""
        text = f"loss {row['loss']:.4g}" if "d" not in row else _of_energy(row)
        self._progress.update(self._task, completed=iteration, metrics=rate + text)


def _of_energy(row: Mapping[str, float]) -> str:
    """The main metrics of an energy."""
    metrics = f"d {row['d']:+.3g}  r {row['r']:.3g}  ess {row['weight_ess']:.2f}"
    if "live_log_likelihood" in row:
        error = row["live_log_likelihood_error"]
        metrics += f"  log p {row['live_log_likelihood']:.3f} \u00b1 {error:.2g} nats"
    if row["attempt"]:
        metrics += f"  rollbacks {row['attempt']:.0f}"
    return metrics


@contextmanager
def training_bar(iterations: int, done: int = 0) -> Iterator[OnBlock]:
    """A bar for a run of that many iterations."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[metrics]}"),
    )
    with Progress(*columns, console=console, speed_estimate_period=10) as progress:
        yield TrainingBar(progress, iterations, done)


@contextmanager
def stages(name: str) -> Iterator[Stage]:
    """A spinner with the current stage."""
    columns = (
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[stage]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(escape(name), total=None, stage="")
        yield lambda stage: progress.update(task, stage=escape(stage))


@contextmanager
def silent_bar(iterations: int, done: int = 0) -> Iterator[OnBlock]:
    """Shows nothing."""
    yield lambda iteration, row: None


@contextmanager
def silent_stages(name: str) -> Iterator[Stage]:
    """Shows nothing."""
    yield lambda stage: None
