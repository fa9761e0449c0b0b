"""A full disk at every point of writing: one line, exit code 4, and the run goes on afterwards.

Half of the faults are errors raised at points of the writer (no room, quota, largest file), every
point in turn. The other half fill a small tmpfs of random size, where the system lets us mount one;
otherwise they limit the size of files.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

from campaigns.runs import child, difference, outcome, prepare, train
from campaigns.tally import Tally
from coldness.cli.main import main

COUNT, QUICK = 60, 2
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run(count: int, seed: int, folder: Path) -> Tally:
    """Fills the disk `count` times."""
    prepare()
    tally, rng, log = Tally("disk"), random.Random(seed), folder / "log.txt"
    points = folder / "points.txt"
    whole = child(lambda: main(train(folder / "whole")), log, reached=_counting(points))
    if whole.code:
        raise RuntimeError(f"the run with room failed: {whole.said}")
    expected, places = outcome(folder / "whole"), points.read_text().splitlines()
    size = sum(p.stat().st_size for p in (folder / "whole").rglob("*") if p.is_file())
    order = rng.sample(range(len(places)), len(places))
    for k in range(count):
        if k % 2:
            room = rng.randrange(8192, size)
            name, fault = f"room for {room} bytes", partial(_filled, room)
        else:
            at = order[k // 2 % len(order)]
            error = rng.choice(ERRORS)
            name, fault = f"{errno.errorcode[error]} at {places[at]}", partial(_failed, at, error)
        finding, seconds = fault(folder / "disk", log, expected)
        tally.count(f"{name}: {finding}" if finding else "", seconds)
    return tally


def _failed(
    at: int, error: int, disk: Path, log: Path, expected: dict[str, bytes]
) -> tuple[str, float]:
    """A run in which one point of the writer fails."""
    full = child(lambda: main(train(disk / "run")), log, reached=_failing(at, error))
    return _resumed(full.code, full.said, disk, log, expected, full.seconds)


def _filled(room: int, disk: Path, log: Path, expected: dict[str, bytes]) -> tuple[str, float]:
    """A run on a small disk, or with a small limit on files, and on a large one afterwards."""
    disk.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={room}", "campaign", str(disk)]
    mounted = os.getuid() == 0 and not subprocess.run(words, capture_output=True).returncode
    try:
        full = child(partial(_limited, None if mounted else room // 8, disk / "run"), log)
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        if not full.code:
            return "", full.seconds  # there was room
        return _resumed(full.code, full.said, disk, log, expected, full.seconds)
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)
        shutil.rmtree(disk, ignore_errors=True)


def _limited(largest: int | None, out: Path) -> int:
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    return main(train(out))


def _resumed(
    code: int, said: str, disk: Path, log: Path, expected: dict[str, bytes], seconds: float
) -> tuple[str, float]:
    """What is wrong about the end of a run without room, or about its resumption."""
    out, lines = disk / "run", [line for line in said.splitlines() if "coldness: " in line]
    finding = ""
    if code != 4:
        finding = f"exit code {code}: {said[-300:]}"
    elif "Traceback" in said or len(lines) != 1 or str(out) not in lines[0]:
        finding = f"said {said[-300:]}"
    elif list(out.rglob("*.partial")):
        finding = "left temporary files"
    resume = ["--resume"] if (out / "config.yaml").is_file() else []
    again = child(lambda: main([*train(out), *resume]), log)
    if not finding and again.code:
        finding = f"not resumed, exit code {again.code}: {again.said[-300:]}"
    finding = finding or difference(outcome(out), expected)
    shutil.rmtree(out, ignore_errors=True)
    return finding, seconds + again.seconds


def _counting(points: Path) -> Callable[[str, Path], None]:
    def reached(point: str, path: Path) -> None:
        if point not in ("remove", "replaced", "appended", "shorten"):  # these need no room
            with points.open("a") as file:
                file.write(f"{point} of {path.name}\n")

    return reached


def _failing(at: int, error: int) -> Callable[[str, Path], None]:
    seen = 0

    def reached(point: str, path: Path) -> None:
        nonlocal seen
        if point in ("remove", "replaced", "appended", "shorten"):
            return
        if seen == at:
            seen += 1
            raise OSError(error, os.strerror(error))
        seen += 1

    return reached
