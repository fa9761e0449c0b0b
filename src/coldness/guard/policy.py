"""The guard: how a run is monitored, and what happens when it diverges.

The guard checks the metrics of all iterations, a block at a time, so that it never makes the device
wait inside an iteration. watch.py defines the alarms. The policy decides what follows an alarm:

    warn       logs a warning and an event in events.jsonl; the run continues
    stop       ends the run with the last good model, exit code 3 and an explanation
    rollback   returns to the last good snapshot, with new random numbers and one more rung of the
               ladder of remedies (remedies.py). The original settings are restored after a
               cool-down. If the problem returns, the remedies are applied again at once, for twice
               as long, and after the second relapse to the end of the run. A run that does not
               recover ends as with `stop`: after `attempts` rollbacks, after `most_lost`
               iterations, or when no remedy is left.

NaN or infinite metrics are never replaced. Under `warn` they end the run too, because training
cannot continue from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from coldness.guard.remedies import Remedy, default_ladder

Policy = Literal["rollback", "stop", "warn"]


@dataclass
class Guard:
    """How a run is monitored.

    Args:
        policy: `rollback`, `stop` or `warn`.
        every: iterations between checks; each check reads the metrics back from the device.
        snapshot_every: iterations between snapshots of all mutable state.
        snapshots: number of snapshots that are kept.
        attempts: number of rollbacks after which the run is stopped.
        most_lost: iterations lost to rollbacks after which it is stopped too; one with k times as
            many steps per chain counts k times.
        ladder: remedies, mildest first; each cause uses those that treat it. None for the default:
            new seed, nearer start (starvation), smaller learning rate, larger beta, more steps,
            noise on data, smaller steps.
    """

    policy: Policy = "rollback"
    every: int = 10
    snapshot_every: int = 100
    snapshots: int = 3
    attempts: int = 20
    most_lost: int = 10_000
    ladder: list[Remedy] | None = None

    def __post_init__(self) -> None:
        for name in ("every", "snapshot_every", "snapshots", "attempts", "most_lost"):
            if getattr(self, name) < 1:
                raise ValueError(f"guard.{name} must be >= 1, got {getattr(self, name)}")
        if self.snapshot_every % self.every:
            raise ValueError(
                f"guard.snapshot_every must be a multiple of guard.every, got "
                f"{self.snapshot_every} and {self.every}"
            )
        if self.ladder is not None and not self.ladder:
            raise ValueError("guard.ladder must name at least one remedy, or be None")

    @property
    def rungs(self) -> list[Remedy]:
        return default_ladder() if self.ladder is None else self.ladder


class Diverged(RuntimeError):
    """A run diverged and was stopped.

    Args:
        iteration: at which the problem was detected.
        seen: description of the problem.
        metrics: all metrics logged at that iteration.
        kept: iteration of the last good model, which the run ends with; None for none.
    """

    exit_code = 3
    model: Any = None
    """The last good model, if raised by `coldness.train`."""

    def __init__(
        self, iteration: int, seen: str, metrics: Mapping[str, float], kept: int | None = None
    ) -> None:
        self.iteration = iteration
        self.kept = kept
        self.metrics = dict(metrics)
        good = [
            f"{name} {value:.4g}"
            for name, value in metrics.items()
            if math.isfinite(value) and name not in ("iteration", "attempt")
        ]
        end = "" if kept is None else f"; kept the last good model, of iteration {kept}"
        super().__init__(f"diverged at iteration {iteration}: {seen} ({', '.join(good)}){end}")
