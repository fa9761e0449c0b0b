"""The guard: how a run is watched, and what is done when it goes wrong.

It looks at the metrics of all iterations, a few at a time, so that it never makes the device wait
inside an iteration; what it looks for is in watch.py. What then happens is its policy:

    warn       a line, and an event in events.jsonl; the run goes on
    stop       the run ends with the last good model, exit code 3 and an explanation
    rollback   back to the last good snapshot, with new random numbers and one more rung of the
               ladder (remedies.py); relief is taken away again after its cool-down, comes back at
               once and for twice as long if the trouble does, and stays after the second relapse;
               a run that this does not save ends as with `stop`

A figure that is not finite is never replaced. Under `warn` it ends the run, for nothing can go on
from it.
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
    """How a run is watched.

    Args:
        policy: `rollback`, `stop` or `warn`.
        every: iterations between two looks; each reads the metrics back from the device.
        snapshot_every: iterations between two snapshots of everything mutable.
        snapshots: how many are kept.
        attempts: rollbacks after which a run is given up.
        ladder: remedies, mildest first; each cause climbs those that treat it. Null for new seed,
            nearer start (starvation), smaller learning rate, larger beta, more steps, noise on
            data, smaller steps.
    """

    policy: Policy = "rollback"
    every: int = 10
    snapshot_every: int = 100
    snapshots: int = 3
    attempts: int = 20
    ladder: list[Remedy] | None = None

    def __post_init__(self) -> None:
        for name in ("every", "snapshot_every", "snapshots", "attempts"):
            if getattr(self, name) < 1:
                raise ValueError(f"guard.{name} must be >= 1, got {getattr(self, name)}")
        if self.snapshot_every % self.every:
            raise ValueError(
                f"guard.snapshot_every must be a multiple of guard.every, got "
                f"{self.snapshot_every} and {self.every}"
            )
        if self.ladder is not None and not self.ladder:
            raise ValueError("guard.ladder must name at least one remedy, or be null")

    @property
    def rungs(self) -> list[Remedy]:
        return default_ladder() if self.ladder is None else self.ladder


class Diverged(RuntimeError):
    """A run went wrong and was given up.

    Args:
        iteration: where it was seen.
        seen: what.
        metrics: all that was logged there.
        kept: iteration of the last good model, which the run ends with; None for none.
    """

    exit_code = 3
    model: Any = None
    """The last good model, where `coldness.train` raises this."""

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
        end = "" if kept is None else f"; the model is that of iteration {kept}, the last good one"
        super().__init__(f"diverged at iteration {iteration}: {seen} ({', '.join(good)}){end}")
