"""The loop around an iteration: logging, checkpoints, the guard, signals.

Rows are read back from the device a block at a time, so that nothing waits for them. Checks of the
guard and checkpoints are at fixed iterations, so that a resumed run gives the same results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coldness.guard.policy import Diverged
from coldness.guard.rescue import Rescue, copied
from coldness.guard.watch import Watch
from coldness.runs.checkpoints import Checkpoints
from coldness.runs.events import Event
from coldness.runs.log import MetricsLog, Row
from coldness.signals import Interrupted, Signalled, Waiting, waiting
from coldness.training.grids import Grids
from coldness.training.loop import Metrics, Training

ITERATIONS_PER_BLOCK = 50


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

    Ctrl-C and other signals (signals.py) save the run and raise Interrupted. A run that the guard
    stops raises Diverged, with the last good model in `training` and saved.

    Args:
        training: the run, fresh or loaded from a checkpoint.
        folder: of the run; None to write nothing and return the logs instead.
        on_block: called regularly with the iteration and its metrics, for a progress display.
        notes: what was decided about data and settings; written as events at the start.
    """
    s = training.settings
    path = None if folder is None else folder / "metrics.csv"
    board = folder / "tensorboard" if folder is not None and s.tensorboard else None
    metrics = MetricsLog(path, training.iteration, board, training.attempt)
    begin = time.perf_counter() - training.seconds
    live = training.live
    live.begin(training)
    rescue = guard_of(training, folder)
    rescue.tidy()
    for text in notes:
        rescue.tell("note", "settings", text)
    grids = Grids(folder, training, s)
    kept = Checkpoints(folder / "checkpoints", s.keep, training.held_out) if folder else None

    def save() -> None:
        training.seconds = time.perf_counter() - begin
        if kept is None:
            return
        state = {**training.state_dict(), "guard": rescue.state_dict()}
        by = None if s.stop is None else live.last.get("live_log_likelihood")
        kept.save(state, by, rescue.unsaved())
        rescue.tidy()
        grids.save()

    with waiting() as signals:
        try:
            if not training.iteration:
                save()  # a run that has begun can be resumed at any time
            iterate: Callable[[], Metrics] = partial(_first, training, signals, folder)
            while training.iteration < s.iterations and not live.done:
                metrics.add(training.iteration, {**iterate(), **live.look(training)})
                iterate = training.iterate
                grids.look()
                t, stop = training.iteration, signals.number
                end = t == s.iterations or live.done
                due = stop is not None or end or t % s.checkpoint_every == 0
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
                if stop is not None:
                    signals.taken = True
                    raise _stopped(training, folder, stop)
        except Diverged:
            save()
            raise
        finally:
            metrics.close()
    return History(metrics.columns(), rescue.events.parsed()) if folder is None else None


def _stopped(training: Training, folder: Path | None, number: int) -> Interrupted:
    saved = "" if folder is None else " and saved; --resume continues it"
    return Interrupted(f"stopped at iteration {training.iteration}{saved}", number)


def _first(training: Training, signals: Waiting, folder: Path | None) -> Metrics:
    """The first iteration, which may compile chains for a minute: signals do not wait for it.

    The run is then left as it was before, which is saved already.
    """
    before = copied(training.state_dict())
    try:
        signals.at_once = True
        metrics = training.iterate()
        signals.at_once = False
    except Signalled as error:
        training.load_state_dict(before)
        raise _stopped(training, folder, error.number) from None
    return metrics
