"""`python -m benchmarks.checkpoints [RECIPE ...]`: what checkpoints cost, as a part of a training.

A run is trained into a folder, as `coldness train` does it and at its default interval. The time
spent in all that writes a checkpoint (its state, snapshots of the guard, flushing, removing old
files) is divided by the time of the training without its first iterations, when chains compile.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from coldness.guard.rescue import Rescue
from coldness.machine import keep_freed_memory, threads
from coldness.runs.checkpoints import Checkpoints
from coldness.training import build
from coldness.training.fit import fit
from coldness.training.loop import Training
from coldness.training.recipe import Recipe

PARTS = ((Training, "state_dict"), (Rescue, "state_dict"), (Checkpoints, "save"), (Rescue, "tidy"))
"""Methods in which a checkpoint is written, none inside of another."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoints")
    parser.add_argument("recipes", nargs="*", default=["mixture2d", "digits-jem"], metavar="RECIPE")
    parser.add_argument("--iterations", type=int, default=None, help="default: the recipe's")
    options = parser.parse_args()
    keep_freed_memory()
    with threads(1):
        for name in options.recipes:
            print(_measured(name, options.iterations), flush=True)


def _measured(name: str, iterations: int | None) -> str:
    more = {} if iterations is None else {"iterations": iterations}
    training = build(Recipe.read(name, more).parts())
    in_all, times = _timed(training)
    spent, count = sum(times), training.iteration // training.settings.checkpoint_every
    return (
        f"{name}: {training.iteration} iterations in {in_all:.1f} s, of which about {count} "
        f"checkpoints took {1000 * spent:.0f} ms: {spent / in_all:.2%}"
    )


def _timed(training: Training) -> tuple[float, list[float]]:
    """Seconds of a training after its first block, and of each part of its checkpoints."""
    times: list[float] = []
    before = [getattr(owner, name) for owner, name in PARTS]
    for (owner, name), work in zip(PARTS, before, strict=True):
        setattr(owner, name, _clocked(work, times))
    begin = 0.0

    def on_block(iteration: int, row: object) -> None:
        nonlocal begin
        if not begin:
            begin = time.perf_counter()
            times.clear()

    try:
        with tempfile.TemporaryDirectory() as folder:
            fit(training, Path(folder), on_block)
            return time.perf_counter() - begin, times
    finally:
        for (owner, name), work in zip(PARTS, before, strict=True):
            setattr(owner, name, work)


def _clocked(work: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    @wraps(work)
    def clocked(*arguments: Any) -> Any:
        begin = time.perf_counter()
        result = work(*arguments)
        times.append(time.perf_counter() - begin)
        return result

    return clocked


if __name__ == "__main__":
    main()
