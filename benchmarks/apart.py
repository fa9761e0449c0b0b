"""A contender in a process of its own, which does its work once whenever it is told to.

`python -m benchmarks.apart WORK NAME THREADS` sets the work `chain` or `iteration` of JEM up, does
it once, says so with a line, and then once more for every line it reads. So a contender has what
its own code has imported and set for the whole process, and nothing of the others: coldness makes
the allocator keep freed memory (coldness/machine.py), from which a loop beside it would gain too.
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType

import torch

from benchmarks.contenders import load_jem


class Apart:
    """Calls of a contender that runs elsewhere; `with` ends its process.

    Args:
        work: `chain` or `iteration`.
        name: of the contender.
        threads: of the processor.
    """

    def __init__(self, work: str, name: str, threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.apart", work, name, str(threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        self._wait()

    def __call__(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._wait()

    def _wait(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"a contender stopped with exit code {self._process.wait()}")

    def __enter__(self) -> Apart:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()


def main() -> None:
    work, name, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    contender = load_jem(name)
    once = contender.chain() if work == "chain" else contender.iteration()
    assert once is not None
    once()
    print("done", flush=True)
    for _ in sys.stdin:
        once()
        print("done", flush=True)


if __name__ == "__main__":
    main()
