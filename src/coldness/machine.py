"""Settings of the process, and the size of the machine.

Threads, reuse of freed memory, and the cache of compiled chains; and how much memory there is.

Importing coldness changes no setting of the process. `train` sets the number of threads of the
recipe while it runs and restores the previous number afterwards. `prepare_process` makes the
settings that last longer. The commands call it, and a script may call it before it imports torch:

    import coldness
    coldness.prepare_process()

Freed memory: the activations of a convolution are blocks of several megabytes, which are allocated
and freed at every step of a chain. By default glibc returns such blocks to the system at once, and
using new ones costs one page fault per four kilobytes: 16% of the time of a Langevin step of
WRN-10-2 at batch size 64 and 18% of its training pass. Keeping freed blocks does not change peak
memory; up to 2 GB of freed memory stays resident.

References:
    mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of the two parameters in malloc.h."""

LARGEST_TRIM, LARGEST_MMAP = 2**31 - 1, 2**25
"""The largest values that glibc accepts, in bytes."""

CACHE = "TORCHINDUCTOR_CACHE_DIR"

GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Where Linux says how much memory a container may use."""

MOST_THREADS = 1024
"""Most threads, if the machine has fewer processors; some tens of thousands abort the process."""


def most_threads() -> int:
    """The largest number of threads that a run may ask for."""
    return max(MOST_THREADS, os.cpu_count() or 1)


def check_threads(count: int | None) -> None:
    """Raises ValueError for a number of threads that no process could start."""
    if count is not None and not 1 <= count <= most_threads():
        raise ValueError(f"threads must be >= 1 and <= {most_threads():,}, got {count:,}")


def memory() -> float:
    """Bytes of memory that this machine has, or that this container may use; infinite if unknown.

    All of it counts, and not only what is free now: a run must not depend on other processes.
    """
    try:
        whole = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        swap = re.search(r"SwapTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
        whole += 1024 * int(swap[1]) if swap else 0
    except (AttributeError, ValueError, OSError):  # not on Linux
        return math.inf
    try:
        return min(whole, float(GROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return whole


def check_memory(needs: Mapping[str, float]) -> None:
    """Raises ValueError where more memory is needed than there is.

    Args:
        needs: bytes by the name of the setting that needs them, all at the same time.
    """
    whole, there = sum(needs.values()), memory()
    if whole > there:
        name = max(needs, key=needs.__getitem__)
        raise ValueError(
            f"the run needs at least {_size(whole)} of memory, {_size(needs[name])} of it for "
            f"{name}, and this machine has {_size(there)}"
        )


def _size(count: float) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e9:.2g} GB"


def prepare_process() -> None:
    """Makes this process keep freed memory, and keep compiled chains for later processes.

    PyTorch chooses the folder for compiled code when its compiler is first imported, so this
    function must be called before. A folder that the environment variable already names is kept.
    """
    keep_freed_memory()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    os.environ.setdefault(CACHE, str(cache / "coldness" / "compiled"))


def keep_freed_memory() -> bool:
    """Keeps freed memory in this process; returns whether the allocator supports this."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    settings = ((TRIM_THRESHOLD, LARGEST_TRIM), (MMAP_THRESHOLD, LARGEST_MMAP))
    told = [mallopt(name, value) for name, value in settings]
    return all(told)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Sets the number of PyTorch threads and restores it on exit; None changes nothing."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
