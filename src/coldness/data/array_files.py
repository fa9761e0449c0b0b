"""Arrays in .npy and .npz files, whose headers are compared with their sizes before they are read.

A header of 100 bytes may speak of terabytes, and an archive of 400 kB may hold 400 MB of zeros. So
an array must fit its file, an archive must not inflate by more than INFLATION where that is much,
and all of it must fit in memory. Headers are literals, and nothing in a file is executed.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np

from coldness.machine import memory

INFLATION = 200
SMALL = 10**8
"""An array of more than SMALL bytes must not be more than INFLATION times as large as in its
archive. Bytes of photographs shrink by less than 2, handwritten digits by about 10."""

VERSIONS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


DAMAGED = (SyntaxError, TokenError, RecursionError, MemoryError, TypeError, ValueError)
"""Errors of NumPy's reader of headers."""


def check_arrays(path: Path) -> None:
    """Raises ValueError, in one line, for a file of arrays that must not be read."""
    if zipfile.is_zipfile(path):
        _check_archive(path)
        return
    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            file.seek(0)
            _check_header(file, path.stat().st_size)


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            for member in members:
                size, packed = member.file_size, member.compress_size
                if size > SMALL and size > INFLATION * packed:
                    raise ValueError(
                        f"{member.filename[:60]} inflates from {_size(packed)} to {_size(size)}: "
                        f"above {_size(SMALL)}, at most {INFLATION} times as much is read"
                    )
                with archive.open(member) as file:
                    _check_header(file, size)
    except (RuntimeError, NotImplementedError) as error:  # encrypted, or compressed otherwise
        raise ValueError(f"it is no plain archive of arrays ({error})") from error
    whole = sum(member.file_size for member in members)
    if whole > memory():
        raise ValueError(f"it holds {_size(whole)}, and this machine has {_size(memory())}")


def _check_header(file: IO[bytes], size: int) -> None:
    """Raises ValueError if the array of a header is larger than what follows it.

    Args:
        file: at the beginning of the array.
        size: bytes of header and array.
    """
    try:
        version = np.lib.format.read_magic(file)
        if version not in VERSIONS:
            raise ValueError("an unknown version")
        shape, _, dtype = VERSIONS[version](file)
        if any(isinstance(n, bool) for n in shape):
            raise ValueError("no size")
    except DAMAGED as error:
        raise ValueError("its header is damaged") from error
    if dtype.hasobject:
        return  # refused by NumPy, which says why
    says, holds = math.prod(map(int, shape)) * dtype.itemsize, size - file.tell()
    if min(shape, default=0) < 0 or says > holds:
        raise ValueError(f"its header says {_size(says)}, but the file holds {_size(holds)} of it")
    if says > memory():
        raise ValueError(f"it holds {_size(says)}, and this machine has {_size(memory())}")


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= factor:
            return (
                f"{count / factor:,.3g} {unit}" if count < 1e12 else f"{count / factor:,.0f} {unit}"
            )
    return f"{count:.0f} bytes"
