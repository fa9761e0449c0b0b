"""The loop around an iteration: logging, checkpoints, the guard, Ctrl-C.

Rows are read back from the device a block at a time, so that nothing waits for them. Checks of the
guard and checkpoints are at fixed iterations, so that a resumed run gives the same results.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coldness.files import save_checkpoint
from coldness.guard.policy import Diverged
from coldness.guard.rescue import Rescue
from coldness.guard.watch import Watch
from coldness.runs.events import Event
from coldness.runs.log import MetricsLog, Row
from coldness.training.grids import Grids
from coldness.training.loop import Training

ITERATIONS_PER_BLOCK = 50


class Interrupted(RuntimeError):
    """The user interrupted a run."""

    exit_code = 130
    model: Any = None
    """The model so far, if raised by `coldness.train`."""


@dataclass(frozen=True)
class History:
    """Logs of a run without a folder: columns of metrics.csv, and events of the guard."""

    columns: dict[str, list[float]]
    events: list[Event]


def guard_of(training: Training, folder: Path | None) -> Rescue:
    """The guard of a run, fresh or loaded from a checkpoint."""
    s = training.settings
    taught = any(term.teaches for term in s.terms)
    watch = Watch(s.data.domain.dimensions, s.energy.ordinary_gap, taught)
    return Rescue(training, s.guard, watch, folder, training.guard_state)


def fit(
    training: Training,
    folder: Path | None = None,
    on_block: Callable[[int, Row], None] = lambda iteration, row: None,
    notes: Sequence[str] = (),
) -> History | None:
    """Iterates to the end, logging to folder/metrics.csv and saving to folder/checkpoints.

    Ctrl-C saves the run and raises Interrupted. A run that the guard stops raises Diverged,
    with the last good model in `training` and saved.

    Args:
        training: the run, fresh or loaded from a checkpoint.
        folder: of the run; None to write nothing and return the logs instead.
        on_block: called regularly with the iteration and its metrics, for a progress display.
        notes: what was decided about data and settings; written as events at the start.
    """
    s = training.settings
    if folder is not None:
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    path = None if folder is None else folder / "metrics.csv"
    board = folder / "tensorboard" if folder is not None and s.tensorboard else None
    metrics = MetricsLog(path, training.iteration, board, training.attempt)
    begin = time.perf_counter() - training.seconds
    live = training.live
    live.begin(training)
    rescue = guard_of(training, folder)
    for text in notes:
        rescue.tell("note", "settings", text)
    grids = Grids(folder, training, s)

    def save() -> None:
        training.seconds = time.perf_counter() - begin
        if folder is None:
            return
        state = {**training.state_dict(), "guard": rescue.state_dict()}
        save_checkpoint(folder / "checkpoints" / "last.ckpt", state)
        rescue.tidy()
        grids.save()

    with interruptible() as interrupted:
        try:
            while training.iteration < s.iterations and not live.done:
                metrics.add(training.iteration, {**training.iterate(), **live.look(training)})
                grids.look()
                t, stop = training.iteration, interrupted()
                end = t == s.iterations or live.done
                due = stop or end or t % s.checkpoint_every == 0
                if not due and t % s.guard.every:
                    continue
                rows = metrics.drain()
                rescue.watch.add(rows)
                metrics.write(rows)
                # Checks are at fixed iterations, so that a resumed run gives the same results;
                # NaN and infinite values are never saved.
                rolled_back = False
                if end or t % s.guard.every == 0 or not rescue.watch.finite:
                    rolled_back = rescue.look()
                for event, text in live.told():
                    rescue.tell(event, "likelihood", text)
                if due or rolled_back:
                    save()
                if rows and (due or t % ITERATIONS_PER_BLOCK == 0):
                    on_block(training.iteration, {**rows[-1], **live.last})
                if stop:
                    saved = "" if folder is None else " and saved; --resume continues it"
                    raise Interrupted(f"stopped at iteration {training.iteration}{saved}")
        except Diverged:
            save()
            raise
        finally:
            metrics.close()
    return History(metrics.columns(), rescue.events.parsed()) if folder is None else None


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yields a function that tells whether Ctrl-C was pressed; a second press ends at once."""
    pressed = False

    def press(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    try:
        before = signal.signal(signal.SIGINT, press)
    except ValueError:  # not in the main thread: no signals to handle
        yield lambda: False
        return
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
