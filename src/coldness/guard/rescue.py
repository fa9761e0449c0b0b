"""Rescue: snapshots of a run, and rollback to them when the guard raises an alarm.

A snapshot holds all mutable state and is taken at a fixed interval. An alarm says at which
iteration the problem began; the newest snapshot from before that is restored. Alarms within the
cool-down of the last remedy belong to the same spell: each climbs one more rung of the ladder, and
every second one goes back one snapshot further. A rung that cannot act within its range
(remedies.py) is skipped, and the event names it. When a problem returns after the original settings
were restored, the event also says which settings to change.
"""

from __future__ import annotations

import logging
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from torch import Tensor

from coldness.files import BadFile, remove
from coldness.guard.policy import Diverged, Guard
from coldness.guard.remedies import Cause, Relief, Treated
from coldness.guard.watch import Alarm, Watch
from coldness.runs.events import EventLog
from coldness.tensor_files import (
    EVERY,
    MISFITS,
    Maybe,
    check_form,
    load_checkpoint,
    misfit,
)

log = logging.getLogger("coldness")

RELAPSES = 2
"""Number of relapses after which the relief stays to the end of the run."""

QUIET = 500
"""Under the policy `warn`, a cause is reported at most once in this many iterations."""

NOTHING_LEFT = "new random numbers"
"""What is done where no remedy can act within its range."""

EMPTY = 2
"""Rollbacks with nothing but new random numbers, after all remedies, until a run is given up."""


class Guarded(Treated, Protocol):
    """The interface of a run that the guard uses, in addition to what remedies ask."""

    iteration: int
    attempt: int
    seconds: float

    def state_dict(self) -> dict[str, Any]:
        """All mutable state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores it."""

    def check_form(self, state: dict[str, Any], at: str) -> None:
        """Raises BadFile for a state that is not of the form of this run's."""

    def reseed(self) -> None:
        """Seeds the random numbers anew, by the number of the attempt."""

    def relieve(self, relief: Relief) -> None:
        """Applies this relief in place of the previous one."""

    def advice(self, relief: Relief) -> str:
        """Which settings to change instead of this relief, in one sentence; empty for none."""

    def first_change(self, cause: Cause) -> str:
        """Which setting to change first where nothing helped, in one sentence."""


@dataclass
class Spell:
    """A series of related alarms, and the remedies applied so far.

    Args:
        cause: of the last alarm.
        rung: highest rung of the ladder reached; -1 for none.
        relapses: how often the problem returned after the original settings were restored.
        cool_down: of the last remedy, doubled with every relapse.
        until: iteration at which the original settings are restored; infinite for never.
        relaxed: iteration at which they were restored; None while the relief is in force.
        empty: rollbacks in which no remedy could act.
    """

    cause: Cause
    rung: int = -1
    relapses: int = 0
    cool_down: int = 0
    until: float = 0.0
    relaxed: int | None = None
    empty: int = 0


FORM = {
    "watch": {},
    "snapshots": [""],
    "spell": Maybe({**asdict(Spell("gap")), "relaxed": Maybe(0)}),
    "relief": asdict(Relief()),
    "warned": {EVERY: 0},
    "lost": 0,
    "events": 0,
}
"""Of the guard's state."""


class Rescue:
    """The guard at work in one run.

    Args:
        run: fresh, or loaded from a checkpoint.
        how: settings of the guard.
        watch: detects the alarms.
        folder: of the run; None to keep snapshots and events in memory only.
        kept: the guard's own state in the checkpoint of a resumed run; None for a fresh run.
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
        self.lost = 0
        events = 0 if kept is None else self._load(kept)
        path = None if folder is None else folder / "events.jsonl"
        self.events = EventLog(path, events)
        last = self.events.last
        if last is not None and last.get("event") == "stopped":
            t, cause = run.iteration, str(last.get("cause"))
            self._add("resumed", t, cause, None, f"resumed from iteration {t}")
        if not self.snapshots:
            self.snapshot()

    def look(self) -> bool:
        """Checks the metrics logged since the last call; True if the run was rolled back."""
        alarm = self.watch.look()
        t = self.run.iteration
        if alarm is not None:
            return self._act(alarm)
        if self.spell and self.spell.relaxed is None and t >= self.spell.until:
            self._relax(self.spell)
        if t % self.how.snapshot_every == 0:
            self.snapshot()
        return False

    def tell(self, event: Literal["warning", "note"], cause: str, text: str) -> None:
        """Writes down what others than the watch have seen; nothing is done about it.

        Warnings of one cause are written at most once in QUIET iterations.
        """
        t = self.run.iteration
        if event == "warning":
            if t - self.warned.get(cause, -QUIET) < QUIET:
                return
            self.warned[cause] = t
        self._add(event, t, cause, None, text)

    def state_dict(self) -> dict[str, Any]:
        """State for the checkpoint; snapshots have files of their own."""
        return {
            "watch": self.watch.state_dict(),
            "snapshots": [_name(snapshot) for snapshot in self.snapshots],
            "spell": None if self.spell is None else asdict(self.spell),
            "relief": asdict(self.relief),
            "warned": dict(self.warned),
            "lost": self.lost,
            "events": self.events.count,
        }

    def unsaved(self) -> dict[str, dict[str, Any]]:
        """Snapshots that have no file yet, by the names of their files."""
        if self.folder is None:
            return {}
        named = {_name(snapshot): snapshot for snapshot in self.snapshots}
        return {k: v for k, v in named.items() if not (self.folder / k).is_file()}

    def tidy(self) -> None:
        """Removes files of snapshots no longer kept; called after a checkpoint was written."""
        names = {_name(snapshot) for snapshot in self.snapshots}
        for path in self.folder.glob("good-*.ckpt") if self.folder is not None else ():
            if path.name not in names:
                remove(path)

    def _load(self, state: dict[str, Any]) -> int:
        """Restores a state; returns the number of events until then."""
        assert self.folder is not None
        try:
            check_form(state, FORM, "the guard")
            self.watch.load_state_dict(state["watch"])
            self.snapshots = _whole(self.folder, state["snapshots"], self.run)
            self.spell = None if state["spell"] is None else Spell(**state["spell"])
            self.relief = Relief(**state["relief"])
            self.warned = dict(state["warned"])
            self.lost = state.get("lost", 0)  # runs of 0.9 did not count them
            events: int = state["events"]
        except MISFITS as error:
            raise misfit("the checkpoint does not fit its guard", error) from error
        if self.spell is not None and self.spell.relaxed is None:
            self.run.relieve(self.relief)
        return events

    def snapshot(self) -> None:
        """Keeps a copy of all mutable state."""
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
        limit = self._limit(alarm) if policy == "rollback" else policy
        if not limit:
            self._note("alarm", alarm, alarm.text)
            self._roll_back(alarm)
            return True
        seen = alarm.text
        if policy == "rollback":
            change = run.first_change(alarm.cause)
            seen += f"; given up after {run.attempt} rollbacks, {limit}: {change}"
        kept = self._restore(alarm, further=0)
        self.watch.forget()  # the run may be resumed from here
        self._note("stopped", alarm, f"{seen}; stopped with the model of iteration {kept}")
        raise Diverged(alarm.iteration, seen, row, kept)

    def _limit(self, alarm: Alarm) -> str:
        """Why there is no further rollback; empty if there is one.

        All limits are counts, so that a run gives the same results on any machine.
        """
        how, spell = self.how, self.spell
        if self.run.attempt >= how.attempts:
            return "which is guard.attempts"
        if self.lost >= how.most_lost:
            return f"which took as long as {self.lost:,} iterations (guard.most_lost)"
        if spell is not None and spell.cause == alarm.cause and spell.empty >= EMPTY:
            return "because no remedy was left"
        return ""

    def _roll_back(self, alarm: Alarm) -> None:
        run, t = self.run, self.run.iteration
        factor = self.relief.steps if self.spell and self.spell.relaxed is None else 1
        repeats, helped = self._repeats(alarm), self.relief
        spell = self._spell(alarm)
        relapsed = spell.relaxed is not None
        back = self._restore(alarm, further=0 if relapsed else (spell.rung + 1) // 2)
        self.lost += factor * (t - back)
        if relapsed:
            spell.relapses += 1
            spell.cool_down *= 2
            spell.relaxed = None
            action = said = "the same remedies again"
        else:
            action, said = self._climb(spell)
        stays = spell.relapses >= RELAPSES
        spell.until = math.inf if stays else back + spell.cool_down
        long = "to the end of the run" if stays else f"for {spell.cool_down} iterations"
        text = f"rolled back from iteration {t} to {back}: {said}, {long}"
        advice = run.advice(helped) if repeats else ""
        text += f". {advice}" if advice else ""
        self._note("rollback", alarm, text, action=action)
        run.attempt += 1
        run.reseed()
        run.relieve(self.relief)
        self.watch.forget()

    def _climb(self, spell: Spell) -> tuple[str, str]:
        """Adds the next remedy that can act in the restored state; its name, and with values.

        If none of the ladder can, the relief stays as it is, and random numbers are new.
        """
        suited = [remedy for remedy in self.how.rungs if spell.cause in remedy.treats]
        rungs = suited or self.how.rungs
        skipped: list[str] = []
        for _ in rungs:
            spell.rung += 1
            remedy = rungs[spell.rung % len(rungs)]  # after the last one, the first once more
            spell.cool_down = remedy.cool_down
            stronger = remedy.strengthen(self.relief, self.run)
            if stronger is not None:
                said = remedy.said(self.relief, stronger, self.run)
                self.relief = stronger
                return remedy.description, said + _left_out(skipped)
            skipped.append(remedy.description)
        spell.empty += 1
        return NOTHING_LEFT, f"{NOTHING_LEFT}{_left_out(skipped)}"

    def _repeats(self, alarm: Alarm) -> bool:
        """Whether the run had recovered from the same problem, and its settings were restored."""
        spell = self.spell
        return spell is not None and spell.relaxed is not None and spell.cause == alarm.cause

    def _spell(self, alarm: Alarm) -> Spell:
        """The spell that the alarm belongs to."""
        spell = self.spell
        over = spell is None or (
            spell.relaxed is not None and alarm.since > spell.relaxed + spell.cool_down
        )
        if spell is None or over:
            spell = self.spell = Spell(alarm.cause)
            self.relief = Relief()
        elif spell.relaxed is None and spell.cause != alarm.cause:
            spell.cause, spell.rung, spell.empty = alarm.cause, -1, 0  # the relief stays in force
        return spell

    def _restore(self, alarm: Alarm, further: int) -> int:
        """Loads a snapshot from before the problem began; returns its iteration."""
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
        text = f"recovered: no alarm for {spell.cool_down} iterations" + (
            "; original settings restored" if changed else ""
        )
        self._add("relaxed", t, spell.cause, None, text)

    def _note(self, event: str, alarm: Alarm, text: str, **more: str) -> None:
        self._add(event, alarm.iteration, alarm.cause, alarm.since, text, **more)

    def _add(
        self, event: str, iteration: int, cause: str, since: int | None, text: str, **more: str
    ) -> None:
        place = {"iteration": iteration, "attempt": self.run.attempt}
        self.events.add(
            {**place, "event": event, "cause": cause, "since": since, "text": text, **more}
        )


def _whole(folder: Path, names: list[str], run: Guarded) -> list[dict[str, Any]]:
    """Snapshots that can be read; without any, the run takes a new one where it is."""
    snapshots = []
    for name in names:
        try:
            snapshot = load_checkpoint(folder / name)
            run.check_form(snapshot, f"{folder / name}")
            if not {"iteration", "attempt"} <= set(snapshot):
                raise BadFile(f"{folder / name} is no snapshot")
            snapshots.append(snapshot)
        except BadFile as error:
            log.warning("%s; the guard goes on without this snapshot", error)
    return snapshots


def copied(state: Any) -> Any:
    """A copy of a nested state; much faster than deepcopy, which tracks shared objects."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {name: copied(value) for name, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(copied(value) for value in state)
    return state


def _left_out(skipped: list[str]) -> str:
    """Remedies that could not act, as text."""
    return f" (skipped, can go no further: {', '.join(skipped)})" if skipped else ""


def _name(snapshot: dict[str, Any]) -> str:
    """The name of a snapshot's file."""
    return f"good-{snapshot['attempt']}-{snapshot['iteration']}.ckpt"
