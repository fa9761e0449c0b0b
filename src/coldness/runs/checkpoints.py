"""The checkpoints of a run: which are kept, and which one a run is resumed from.

    checkpoints/iteration-1000.ckpt              of the first attempt
    checkpoints/iteration-900-attempt-1.ckpt     after the guard's first rollback

The newest `keep` files stay, and with early stopping also the one whose held-out log-likelihood was
best. A run is resumed from the newest file that is whole. Resuming from an older one removes those
that came after it, for their rows are cut off metrics.csv.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from coldness.files import BadFile, remove
from coldness.tensor_files import load_checkpoint, save_checkpoints

NAME = re.compile(r"iteration-(\d{1,18})(?:-attempt-(\d{1,9}))?\.ckpt")
OF_0_9 = "last.ckpt"
LOGS = ("metrics.csv", "events.jsonl")
"""Files beside the folder of checkpoints, of which a checkpoint knows the length."""

log = logging.getLogger("coldness")


class Checkpoints:
    """The folder of checkpoints of one run.

    Args:
        folder: that holds them.
        keep: number of newest files that are kept.
        held_out: held-out log-likelihoods of files, by name, from the checkpoint that the run was
            resumed from.
    """

    def __init__(self, folder: Path, keep: int, held_out: dict[str, float] | None = None) -> None:
        self.folder = folder
        self.keep = keep
        self.held_out = dict(held_out or {})
        folder.mkdir(parents=True, exist_ok=True)

    def save(
        self,
        state: dict[str, Any],
        held_out: float | None = None,
        snapshots: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Writes a checkpoint, and removes those that are no longer kept.

        Logs of the run are on disk before it counts on them.

        Args:
            state: of the run, with its iteration and its attempt, if it has any.
            held_out: log-likelihood in nats by which the best is kept; None for no such choice.
            snapshots: other states by the names of their files, which are written before it.
        """
        attempt = state.get("attempt", 0)
        name = f"iteration-{state['iteration']}{f'-attempt-{attempt}' if attempt else ''}.ckpt"
        if held_out is not None:
            self.held_out[name] = held_out
        states = {**snapshots, name: {**state, "held_out": dict(self.held_out)}}
        logs = [log for log in map(self.folder.with_name, LOGS) if log.exists()]
        save_checkpoints({self.folder / name: state for name, state in states.items()}, logs)
        there = saved(self.folder)
        kept = {path.name for path in there[-self.keep :]}
        held_out_there = {p.name: self.held_out[p.name] for p in there if p.name in self.held_out}
        if held_out_there:
            kept.add(max(held_out_there, key=lambda name: held_out_there[name]))
        for path in there:
            if path.name not in kept:
                remove(path)
        self.held_out = {k: v for k, v in held_out_there.items() if k in kept}


def saved(folder: Path) -> list[Path]:
    """Files of checkpoints, oldest first; one of coldness 0.9 counts as the oldest."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name == OF_0_9 or NAME.fullmatch(path.name)]
    return sorted(found, key=_place)


def iteration_of(path: Path) -> int | None:
    """The iteration in a checkpoint's name; None for one of coldness 0.9."""
    match = NAME.fullmatch(path.name)
    return None if match is None else int(match[1])


def newest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that is whole, and its state; None where there are no files.

    Damaged ones are named in a warning and left out.

    Raises:
        BadFile: none of the files is whole.
    """
    first: BadFile | None = None
    for path in reversed(saved(folder)):
        try:
            state = load_checkpoint(path)
        except BadFile as error:
            first = first or error
            log.warning("%s; trying an older one", error)
        else:
            return path, state
    if first is not None:
        raise BadFile(f"{first}, and no other checkpoint is whole; --overwrite starts anew")
    return None


def chosen(folder: Path, which: int | str | Path) -> tuple[Path, dict[str, Any]]:
    """A checkpoint by its iteration or its path, and its state.

    Raises:
        BadFile: it is not there, or damaged; the message lists those that are there.
    """
    if isinstance(which, int) or str(which).isdigit():
        there = saved(folder)
        found = [path for path in there if iteration_of(path) == int(str(which))]
        if not found:
            have = ", ".join(str(k) for p in there if (k := iteration_of(p)) is not None) or "none"
            raise BadFile(f"{folder} has no checkpoint of iteration {which}; it has {have}")
        path = found[-1]
    else:
        path = Path(which)
    return path, load_checkpoint(path)


def drop_later(folder: Path, state: dict[str, Any]) -> None:
    """Removes checkpoints that came after a state, newest first."""
    for path in reversed(saved(folder)):
        if _place(path) > (state.get("attempt", 0), state["iteration"]):
            remove(path)


def _place(path: Path) -> tuple[int, int]:
    """The attempt and iteration in a checkpoint's name, by which they follow each other."""
    match = NAME.fullmatch(path.name)
    return (-1, -1) if match is None else (int(match[2] or 0), int(match[1]))
