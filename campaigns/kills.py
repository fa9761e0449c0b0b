"""SIGKILL at random moments and at write points: resumed runs equal an uninterrupted one.

Half of the kills are at points of the writer, every point in turn, half at random moments.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from campaigns.runs import BRIEF, Ended, child, difference, outcome, prepare, trained
from campaigns.tally import Tally
from coldness.training.recipe import Recipe

COUNT, QUICK = 200, 6


def run(count: int, seed: int, folder: Path) -> Tally:
    """Kills `count` runs."""
    prepare()
    tally, rng, log = Tally("kills"), random.Random(seed), folder / "log.txt"
    points, recipe = folder / "points.txt", Recipe.read("mixture2d", BRIEF)
    whole = child(partial(trained, recipe, folder / "whole"), log, reached=_counting(points))
    if whole.code:
        raise RuntimeError(f"the run without faults failed: {whole.said}")
    expected = outcome(folder / "whole")
    places = points.read_text().splitlines()
    at_points = list(range(len(places)))
    if count // 2 < len(places):
        at_points = sorted(rng.sample(at_points, count // 2))
    for k in range(count):
        out = folder / "run"
        if k < count // 2:
            place = at_points[k % len(at_points)]
            name = f"killed at {places[place]} (write point {place})"
            killed = child(partial(trained, recipe, out), log, reached=_killing(place))
        else:
            moment = rng.uniform(0, whole.seconds)
            name = f"killed after {moment:.3f} s"
            killed = child(partial(trained, recipe, out), log, after=moment)
        finding, resumed = resume(recipe, killed, out, log, expected)
        tally.count(f"{name}: {finding}" if finding else "", killed.seconds + resumed)
        shutil.rmtree(out, ignore_errors=True)
    return tally


def resume(
    recipe: Recipe, killed: Ended, out: Path, log: Path, expected: dict[str, bytes]
) -> tuple[str, float]:
    """Resumes a run; what was lost, empty for nothing, and how long it took."""
    if killed.code not in (-signal.SIGKILL, 0):
        return f"exit code {killed.code}: {killed.said[-300:]}", 0.0
    again = child(partial(trained, recipe, out), log)
    if again.code:
        return f"not resumed, exit code {again.code}: {again.said[-300:]}", again.seconds
    return difference(outcome(out), expected), again.seconds


def _counting(points: Path) -> Callable[[str, Path], None]:
    def reached(point: str, path: Path) -> None:
        with points.open("a") as file:
            file.write(f"{point} of {path.name}\n")

    return reached


def _killing(place: int) -> Callable[[str, Path], None]:
    seen = 0

    def reached(point: str, path: Path) -> None:
        nonlocal seen
        if seen == place:
            os.kill(os.getpid(), signal.SIGKILL)
        seen += 1

    return reached
