"""Memory: the peak of resident memory above what was there after imports.

Every contender runs in a process of its own: `python -m benchmarks.memory chain NAME THREADS BATCH
STEPS` on the toy, `... jem NAME THREADS` for an iteration of JEM, prints, in megabytes,

    first-call  from imports through set-up and one call, with whatever it takes to compile
    WORK        of one more call, above what is resident before it (Linux only)
"""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.contenders import load, load_jem
from benchmarks.toy import Iteration

CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def megabytes(work: str, name: str, threads: int, sizes: tuple[int, ...] = ()) -> dict[str, float]:
    """Peaks of that contender, measured in a process of its own."""
    numbers = map(str, (threads, *sizes))
    command = [sys.executable, "-m", "benchmarks.memory", work, name, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def _peak() -> float:
    """Largest resident memory so far, in megabytes.

    On Linux not ru_maxrss, which a process takes over from the one that started it.
    """
    if STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _status(field: str) -> float:
    """A field of /proc/self/status, given there in kilobytes, in megabytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024 / 1e6


def main() -> None:
    work, name, threads, *sizes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    torch.set_num_threads(threads)
    contender = load(name) if work == "chain" else load_jem(name)
    before = _peak()
    once: Iteration | None = contender.chain(*sizes) if work == "chain" else contender.iteration()
    assert once is not None
    once()
    peaks = {"first-call": _peak() - before}
    if CLEAR_REFS.exists():  # Linux: the peak can be forgotten
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR_REFS.write_text("5")
        before = _status("VmRSS")
        once()
        peaks[work] = _peak() - before
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()
