"""The story of a guarded run: for every alarm, what was seen, what was done, what came of it.

Events are those of events.jsonl (training/events.py). An alarm says what was seen; a rollback, what
was done; "relaxed", that a remedy was taken away after a while without alarm; "stopped", that the
run was given up, which is an alarm too; "resumed", that it was made to go on after that. A warning
says what was seen where the policy is to do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from coldness.runs import events as file
from coldness.files import BadFile

Kind = Literal["alarm", "warning", "rollback", "relaxed", "stopped", "resumed"]

BEGIN: tuple[Kind, ...] = ("alarm", "warning", "stopped")
"""What an episode begins with: something was seen."""


@dataclass(frozen=True)
class Event:
    """One line of the file.

    Args:
        iteration: of the run when it happened.
        attempt: number of rollbacks before it.
        event: what kind.
        cause: which of the signs that the guard looks for.
        since: where it began, as far as it is known.
        text: in plain words.
    """

    iteration: int
    attempt: int
    event: Kind
    cause: str
    since: int | None
    text: str


@dataclass(frozen=True)
class Episode:
    """What was seen, what was done before anything else was seen, and what came of it."""

    seen: Event
    done: Sequence[Event]
    outcome: str


def read_events(folder: Path) -> list[Event]:
    """Of a run; none where there is no file.

    Raises:
        BadFile: there is something else than events in it.
    """
    path = folder / "events.jsonl"
    try:
        return [_event(found) for found in file.read_events(path)]
    except (ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{path} holds something else than events of a run") from error


def _event(found: Mapping[str, Any]) -> Event:
    since = found.get("since")
    if found["event"] not in get_args(Kind):
        raise ValueError(f"no kind of event: {found['event']}")
    return Event(
        int(found["iteration"]),
        int(found["attempt"]),
        found["event"],
        str(found["cause"]),
        None if since is None else int(since),
        str(found["text"]),
    )


def guard_metrics(events: Sequence[Event]) -> dict[str, float]:
    """How often the guard saw something and acted, and whether it gave the run up."""
    count = {kind: sum(e.event == kind for e in events) for kind in get_args(Kind)}
    return {
        "guard_alarms": count["alarm"] + count["stopped"],
        "guard_rollbacks": count["rollback"],
        "guard_warnings": count["warning"],
        "guard_stopped": count["stopped"] - count["resumed"],
    }


def story(events: Sequence[Event]) -> list[Episode]:
    """Episodes in the order of events."""
    begin = [k for k, e in enumerate(events) if e.event in BEGIN]
    episodes = []
    for k, end in zip(begin, [*begin[1:], len(events)], strict=True):
        done = events[k + 1 : end]
        episodes.append(Episode(events[k], done, _outcome(events[k], done, events[end:])))
    return episodes


def _outcome(seen: Event, done: Sequence[Event], later: Sequence[Event]) -> str:
    """In a run that is over."""
    if seen.event == "stopped" and not done:
        return "The run ended there, with the last good model."
    following = next((e for e in later if e.event in BEGIN), None)
    if following is None:
        return "The run went on to its end and nothing more was seen."
    at = f"at iteration {following.iteration:,}"
    if following.cause == seen.cause:
        return f"It was seen again {at}."
    return f"It was not seen again at once; {following.cause.replace('_', ' ')} was, {at}."
