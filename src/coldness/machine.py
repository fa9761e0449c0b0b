"""This process on its machine: threads, freed memory, and where compiled chains are kept.

Importing coldness changes nothing of the process. `train` sets the recipe's threads while it runs
and restores them. What lasts longer is set by `prepare_process`, which the commands call, and which
a script may call before it imports torch:

    import coldness
    coldness.prepare_process()

Freed memory: a convolution's activations are blocks of megabytes, made and freed at every step of a
chain. By default glibc gives such blocks back to the system at once, and touching them anew costs a
page fault every four kilobytes: 16% of the time of a Langevin step of WRN-10-2 at batch 64 and 18%
of its training pass. The peak is what it was; up to 2 GB of what was freed stays resident.

References:
    mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Names of the two parameters in malloc.h."""

LARGEST_TRIM, LARGEST_MMAP = 2**31 - 1, 2**25
"""The largest values that glibc takes, in bytes."""

CACHE = "TORCHINDUCTOR_CACHE_DIR"


def prepare_process() -> None:
    """Keeps freed memory, and compiled chains between processes; for the whole process.

    PyTorch settles on a folder for compiled code when its compiler is first imported, so this must
    come before that. A folder that the environment names already is left as it is.
    """
    keep_freed_memory()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    os.environ.setdefault(CACHE, str(cache / "coldness" / "compiled"))


def keep_freed_memory() -> bool:
    """For the whole process; says whether this system's allocator could be told."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    settings = ((TRIM_THRESHOLD, LARGEST_TRIM), (MMAP_THRESHOLD, LARGEST_MMAP))
    told = [mallopt(name, value) for name, value in settings]
    return all(told)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """So many threads of PyTorch meanwhile, as many as before afterwards; None for no change."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
