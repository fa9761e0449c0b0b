"""Events of a run: alarms and actions of the guard, one JSON object per line of events.jsonl.

    iteration   of the run when it happened
    attempt     number of rollbacks before it
    event       warning, alarm, rollback, relaxed (recovered), stopped; resumed after a stop; note
    cause       not_finite, gap, gradient, saturation, starvation; likelihood of warnings and notes
                about the held-out log-likelihood; settings of notes about data and settings
    since       iteration at which the problem began
    text        description of the event
    action      of a rollback: what was changed

A run without events has no such file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from coldness.files import BadFile, append, remove, shorten

log = logging.getLogger("coldness")

Line = dict[str, Any]
Kind = Literal["alarm", "warning", "rollback", "relaxed", "stopped", "resumed", "note"]


@dataclass(frozen=True)
class Event:
    """One line of the file.

    Args:
        iteration: of the run when it happened.
        attempt: number of rollbacks before it.
        event: kind of event.
        cause: kind of alarm; see guard/watch.py.
        since: iteration at which the problem began, where it is known.
        text: description of the event.
    """

    iteration: int
    attempt: int
    event: Kind
    cause: str
    since: int | None
    text: str


class EventLog:
    """events.jsonl, or a list in memory.

    Args:
        path: of the file; None for no file.
        keep: number of lines to keep of a resumed run; later lines, written before an
            interruption, are dropped.
    """

    def __init__(self, path: Path | None, keep: int = 0) -> None:
        self.path = path
        self.events: list[Line] = []
        if path is None:
            return
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        kept = [line for line in lines[:keep] if line.endswith(b"\n")]
        if kept:
            shorten(path, b"".join(kept))
        else:
            remove(path)
        self.events = read_lines(path)

    @property
    def count(self) -> int:
        return len(self.events)

    @property
    def last(self) -> Line | None:
        return self.events[-1] if self.events else None

    def parsed(self) -> list[Event]:
        """All events so far."""
        return [_event(line) for line in self.events]

    def add(self, event: Line) -> None:
        """Appends an event, and logs its text."""
        if self.path is not None:
            append(self.path, f"{json.dumps(event)}\n".encode())
        self.events.append(event)
        if event["event"] == "note":
            log.info("%s", event["text"])
        else:
            log.warning("guard at iteration %s: %s", event["iteration"], event["text"])


def read_lines(path: Path) -> list[Line]:
    """Lines of the file; none where there is no file. A truncated line is left out."""
    lines = []
    for text in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # not JSON, or not UTF-8
            continue
        if isinstance(line, dict):
            lines.append(line)
    return lines


def read_events(path: Path) -> list[Event]:
    """Events of the file; none where there is no file.

    Raises:
        BadFile: a line is not an event.
    """
    try:
        return [_event(line) for line in read_lines(path)]
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise BadFile(f"{path} holds something else than events of a run") from error


def _event(found: Mapping[str, Any]) -> Event:
    since = found.get("since")
    if found["event"] not in get_args(Kind):
        raise ValueError(f"unknown kind of event: {found['event']}")
    return Event(
        int(found["iteration"]),
        int(found["attempt"]),
        found["event"],
        str(found["cause"]),
        None if since is None else int(since),
        str(found["text"]),
    )


def guard_metrics(events: Sequence[Event]) -> dict[str, float]:
    """Numbers of alarms and of rollbacks, and whether the guard stopped the run."""
    count = {kind: sum(e.event == kind for e in events) for kind in get_args(Kind)}
    return {
        "guard_alarms": count["alarm"] + count["stopped"],
        "guard_rollbacks": count["rollback"],
        "guard_warnings": count["warning"],
        "guard_stopped": count["stopped"] - count["resumed"],
    }
