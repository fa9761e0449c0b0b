"""Events of a run: what the guard saw and did, one JSON object a line of events.jsonl.

    iteration   where the run was
    attempt     rollbacks before it
    event       warning, alarm, rollback, relaxed, stopped; resumed where a run that was stopped
                goes on
    cause       not_finite, gap, gradient, saturation, starvation
    since       where it began
    text        the same in words

There is no file where nothing happened.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

log = logging.getLogger("coldness")

Event = dict[str, Any]


class EventLog:
    """events.jsonl, or a list in memory.

    Args:
        path: of the file; None for no file.
        keep: lines of a run that is resumed; later ones, left by a run that was cut off, are
            dropped.
    """

    def __init__(self, path: Path | None, keep: int = 0) -> None:
        self.path = path
        self.events: list[Event] = []
        if path is None:
            return
        lines = path.read_text().splitlines()[:keep] if path.is_file() else []
        if lines:
            path.write_text("".join(line + "\n" for line in lines))
        else:
            path.unlink(missing_ok=True)
        self.events = read_events(path)

    @property
    def count(self) -> int:
        return len(self.events)

    @property
    def last(self) -> Event | None:
        return self.events[-1] if self.events else None

    def add(self, event: Event) -> None:
        """Appends it, and logs its text."""
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(event) + "\n")
        self.events.append(event)
        log.warning("guard at iteration %s: %s", event["iteration"], event["text"])


def read_events(path: Path) -> list[Event]:
    """Of a run; none where there is no file. A line that was cut off is left out."""
    events = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events
