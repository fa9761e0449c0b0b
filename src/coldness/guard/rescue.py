"""Rescue: snapshots of a run, and the way back to them when the guard raises an alarm.

A snapshot is everything mutable, taken every so many iterations. An alarm says where the trouble
began; what is restored is the newest snapshot from before that. Trouble that comes again within the
cool-down of what was done against it is one spell: each of its alarms climbs one more rung of the
ladder, and every second one goes one snapshot further back.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from coldness.files import load_checkpoint, save_checkpoint
from coldness.guard.policy import Diverged, Guard
from coldness.guard.remedies import Cause, Relief, Remedy
from coldness.guard.watch import Alarm, Watch
from coldness.runs.events import EventLog

RELAPSES = 2
"""After so many relapses the relief stays to the end."""

QUIET = 500
"""Iterations in which a policy of warnings says the same cause only once."""


class Guarded(Protocol):
    """What the guard sees of a run."""

    iteration: int
    attempt: int
    seconds: float

    def state_dict(self) -> dict[str, Any]:
        """Everything mutable."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Puts it back."""

    def reseed(self) -> None:
        """New random numbers, those of the attempt."""

    def relieve(self, relief: Relief) -> None:
        """Puts relief in force, in place of what was."""


@dataclass
class Spell:
    """Trouble of one cause and what is done against it.

    Args:
        cause: of the last alarm.
        rung: of the ladder that was reached; -1 for none.
        relapses: how often it came back after the relief was taken away.
        cool_down: of the last remedy, doubled with every relapse.
        until: iteration at which the relief is taken away; infinite for never.
        relaxed: iteration at which it was; null while it is in force.
    """

    cause: Cause
    rung: int = -1
    relapses: int = 0
    cool_down: int = 0
    until: float = 0.0
    relaxed: int | None = None


class Rescue:
    """The guard at work in one run.

    Args:
        run: fresh, or loaded from a checkpoint.
        how: its policy.
        watch: what it looks for.
        folder: of the run; None to keep snapshots and events in memory alone.
        kept: the guard's own state, of a run that is resumed.
    """

    def __init__(
        self,
        run: Guarded,
        how: Guard,
        watch: Watch,
        folder: Path | None,
        kept: dict[str, Any] | None = None,
    ) -> None:
        self.run = run
        self.how = how
        self.watch = watch
        self.folder = None if folder is None else folder / "checkpoints"
        self.snapshots: list[dict[str, Any]] = []
        self.spell: Spell | None = None
        self.relief = Relief()
        self.warned: dict[str, int] = {}
        if kept is not None:
            self._load(kept)
        path = None if folder is None else folder / "events.jsonl"
        self.events = EventLog(path, 0 if kept is None else kept["events"])
        last = self.events.last
        if last is not None and last["event"] == "stopped":
            t = run.iteration
            self._add("resumed", t, last["cause"], None, f"goes on from iteration {t}")
        if not self.snapshots:
            self.snapshot()

    def look(self) -> bool:
        """At what was logged since the last look; whether the run was rolled back."""
        alarm = self.watch.look()
        t = self.run.iteration
        if alarm is not None:
            return self._act(alarm)
        if self.spell and self.spell.relaxed is None and t >= self.spell.until:
            self._relax(self.spell)
        if t % self.how.snapshot_every == 0:
            self.snapshot()
        return False

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint; snapshots are in files of their own, each written once."""
        if self.folder is not None:
            for snapshot in self.snapshots:
                path = self.folder / _name(snapshot)
                if not path.is_file():
                    save_checkpoint(path, snapshot)
        return {
            "watch": self.watch.state_dict(),
            "snapshots": [_name(snapshot) for snapshot in self.snapshots],
            "spell": None if self.spell is None else asdict(self.spell),
            "relief": asdict(self.relief),
            "warned": dict(self.warned),
            "events": self.events.count,
        }

    def tidy(self) -> None:
        """Removes files of snapshots that are no longer kept; after a checkpoint was written."""
        names = {_name(snapshot) for snapshot in self.snapshots}
        for path in self.folder.glob("good-*.ckpt") if self.folder is not None else ():
            if path.name not in names:
                path.unlink()

    def _load(self, state: dict[str, Any]) -> None:
        self.watch.load_state_dict(state["watch"])
        assert self.folder is not None
        self.snapshots = [load_checkpoint(self.folder / name) for name in state["snapshots"]]
        self.spell = None if state["spell"] is None else Spell(**state["spell"])
        self.relief = Relief(**state["relief"])
        self.warned = dict(state["warned"])
        if self.spell is not None and self.spell.relaxed is None:
            self.run.relieve(self.relief)

    def snapshot(self) -> None:
        """Keeps a copy of everything mutable."""
        self.snapshots.append(copied(self.run.state_dict()))
        del self.snapshots[: -self.how.snapshots]

    def _act(self, alarm: Alarm) -> bool:
        run, policy = self.run, self.how.policy
        row = self.watch.last_row
        if policy == "warn" and alarm.cause != "not_finite":
            t = run.iteration
            if t - self.warned.get(alarm.cause, -QUIET) >= QUIET:
                self._note("warning", alarm, alarm.text)
                self.warned[alarm.cause] = t
            self.watch.forget()
            return False
        if policy == "rollback" and run.attempt < self.how.attempts:
            self._note("alarm", alarm, alarm.text)
            self._roll_back(alarm)
            return True
        seen = alarm.text
        if policy == "rollback":
            seen += f"; given up after {run.attempt} rollbacks"
        kept = self._restore(alarm, further=0)
        self.watch.forget()  # for a run that goes on from here
        self._note("stopped", alarm, f"{seen}; ended with the model of iteration {kept}")
        raise Diverged(alarm.iteration, seen, row, kept)

    def _roll_back(self, alarm: Alarm) -> None:
        run, t = self.run, self.run.iteration
        spell = self._spell(alarm)
        relapsed = spell.relaxed is not None
        if relapsed:
            spell.relapses += 1
            spell.cool_down *= 2
            spell.relaxed = None
            what = "the same relief again"
        else:
            spell.rung += 1
            remedy = self._rung(spell)
            spell.cool_down = remedy.cool_down
            self.relief = remedy.strengthen(self.relief)
            what = remedy.description
        back = self._restore(alarm, further=0 if relapsed else spell.rung // 2)
        stays = spell.relapses >= RELAPSES
        spell.until = math.inf if stays else back + spell.cool_down
        long = "to the end" if stays else f"for {spell.cool_down} iterations"
        text = f"rolled back from {t} to {back}: {what}, {long}"
        self._note("rollback", alarm, text, action=what)
        run.attempt += 1
        run.reseed()
        run.relieve(self.relief)
        self.watch.forget()

    def _spell(self, alarm: Alarm) -> Spell:
        """The one that the alarm belongs to."""
        spell = self.spell
        over = spell is None or (
            spell.relaxed is not None and alarm.since > spell.relaxed + spell.cool_down
        )
        if spell is None or over:
            spell = self.spell = Spell(alarm.cause)
            self.relief = Relief()
        elif spell.relaxed is None and spell.cause != alarm.cause:
            spell.cause, spell.rung = alarm.cause, -1  # relief in force stays in force
        return spell

    def _rung(self, spell: Spell) -> Remedy:
        """The next that treats the cause; past the last one, the first again, on top of all."""
        suited = [remedy for remedy in self.how.rungs if spell.cause in remedy.treats]
        rungs = suited or self.how.rungs
        return rungs[spell.rung % len(rungs)]

    def _restore(self, alarm: Alarm, further: int) -> int:
        """Loads a snapshot from before the alarm's beginning; gives its iteration."""
        before = [s for s in self.snapshots if s["iteration"] < alarm.since]
        before = before or self.snapshots[:1]
        chosen = before[max(0, len(before) - 1 - further)]
        attempt, seconds = self.run.attempt, self.run.seconds
        self.run.load_state_dict(copied(chosen))
        self.run.attempt, self.run.seconds = attempt, seconds
        self.snapshots = [s for s in self.snapshots if s["iteration"] <= chosen["iteration"]]
        return int(chosen["iteration"])

    def _relax(self, spell: Spell) -> None:
        t = self.run.iteration
        spell.relaxed = t
        self.run.relieve(Relief())
        changed = self.relief != Relief()
        if changed:
            self.watch.forget()
        text = f"no alarm for {spell.cool_down} iterations: " + (
            "relief taken away" if changed else "it held"
        )
        self._add("relaxed", t, spell.cause, None, text)

    def _note(self, event: str, alarm: Alarm, text: str, **more: str) -> None:
        self._add(event, alarm.iteration, alarm.cause, alarm.since, text, **more)

    def _add(
        self, event: str, iteration: int, cause: Cause, since: int | None, text: str, **more: str
    ) -> None:
        place = {"iteration": iteration, "attempt": self.run.attempt}
        self.events.add(
            {**place, "event": event, "cause": cause, "since": since, "text": text, **more}
        )


def copied(state: Any) -> Any:
    """Of nested states; many times as fast as deepcopy, which keeps track of what is shared."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copied(value) for value in state)
    return state


def _name(snapshot: dict[str, Any]) -> str:
    """Of its file."""
    return f"good-{snapshot['attempt']}-{snapshot['iteration']}.ckpt"
