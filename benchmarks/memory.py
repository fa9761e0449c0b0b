"""Memory: the peak of resident memory above what was there after imports.

Every contender runs in a process of its own: `python -m benchmarks.memory NAME BATCH STEPS THREADS`
prints, in megabytes,

    first-call  from imports through set-up and one call, with whatever it takes to compile
    chain       of one more call, above what is resident before it (Linux only)
"""

from __future__ import annotations

import ctypes
import json
import resource
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.contenders import load

KINDS = ("first-call", "chain")
CLEAR_REFS = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def megabytes(name: str, batch: int, steps: int, threads: int) -> dict[str, float]:
    """Peaks of that contender, measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", name, *map(str, (batch, steps, threads))]
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
    name, batch, steps, threads = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(threads)
    contender = load(name)
    before = _peak()
    chain = contender.chain(batch, steps)
    chain()
    peaks = {"first-call": _peak() - before}
    if CLEAR_REFS.exists():  # Linux: the peak can be forgotten
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR_REFS.write_text("5")
        before = _status("VmRSS")
        chain()
        peaks["chain"] = _peak() - before
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()
