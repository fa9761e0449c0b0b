"""The story of a guarded run: for every alarm, what was seen, what was done, what came of it.

Events are those of events.jsonl (runs/events.py). An alarm says what was seen; a rollback, what was
done; "relaxed", that a remedy was removed after a while without alarms; "stopped", that the guard
gave the run up, which is an alarm too; "resumed", that the run was resumed after that. A warning
says what was seen where the policy is to do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coldness.runs.events import Event, Kind

BEGIN: tuple[Kind, ...] = ("alarm", "warning", "stopped")
"""What an episode begins with: something was seen."""


@dataclass(frozen=True)
class Episode:
    """What was seen, what was done before anything else was seen, and what came of it."""

    seen: Event
    done: Sequence[Event]
    outcome: str


def story(events: Sequence[Event]) -> list[Episode]:
    """Episodes in the order of events."""
    begin = [k for k, e in enumerate(events) if e.event in BEGIN]
    if not begin:
        return []
    episodes = []
    for k, end in zip(begin, [*begin[1:], len(events)], strict=True):
        done = [e for e in events[k + 1 : end] if e.event != "note"]
        episodes.append(Episode(events[k], done, _outcome(events[k], done, events[end:])))
    return episodes


def _outcome(seen: Event, done: Sequence[Event], later: Sequence[Event]) -> str:
    """In a run that is over."""
    if seen.event == "stopped" and not done:
        return "The run ended there, with the last good model."
    following = next((e for e in later if e.event in BEGIN), None)
    if following is None:
        return "The run continued to its end, and nothing more was seen."
    at = f"at iteration {following.iteration:,}"
    if following.cause == seen.cause:
        return f"It was seen again {at}."
    return f"The next event was {following.cause.replace('_', ' ')}, {at}."
