"""The writer of all files of a run: they are whole or not there, and nothing else is touched.

    write_atomically   a whole file, by a temporary file beside it that takes its place
    write_together     several of one folder, flushed at the same time, in the order given
    append             rows at the end of a log, all of them or none
    shorten            a log without its last rows, in place
    remove, sweep      what is no longer needed; temporary files of writers that were killed

Temporary files have random names, are created and never opened, and are flushed to disk before
they are moved. A symbolic link at the place of a file is replaced or refused, never followed. So a
process that is killed at any moment leaves files that can be read, and a folder that came from
elsewhere cannot make coldness write outside of it.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""Errors of a disk, a quota or a limit on files that leave no room."""

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
"""Names of temporary files."""

PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


Write = Callable[[BinaryIO], object]
"""Fills a file."""


class BadFile(ValueError):
    """A file that is not what it should be."""


class FullDisk(OSError):
    """There was no room for a file; the file that was there before is as it was."""

    exit_code = 4


def reached(point: str, path: Path) -> None:
    """Called at every point of writing; fault campaigns replace it to kill or to fail there.

    Args:
        point: open, write, sync, replace or replaced of a whole file; append, appended or shorten
            of a log; remove.
        path: of the file.
    """


def write_atomically(path: Path, write: Write) -> None:
    """`write` fills a file that then takes the place of `path`, or of a link there, in one move."""
    write_together([(path, write)])


def write_together(files: Sequence[tuple[Path, Write]], logs: Sequence[Path] = ()) -> None:
    """Whole files of one folder, which take their places in this order once all are on disk.

    They are flushed to disk at the same time, which takes about as long as for one of them.

    Args:
        files: paths, and what fills the temporary file of each.
        logs: plain files, as they are by then on disk before any of the others is in its place.
    """
    made: list[tuple[Path, Path]] = []
    try:
        with _room(files[-1][0]), ExitStack() as opened:
            descriptors = [opened.enter_context(_opened(path, os.O_RDWR)) for path in logs]
            for path, write in files:
                with _room(path):
                    reached("open", path)
                    beside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}.partial")
                    new = PLAIN | os.O_WRONLY | os.O_CREAT | os.O_EXCL
                    file = opened.enter_context(os.fdopen(os.open(beside, new, 0o666), "wb"))
                    made.append((beside, path))
                    reached("write", path)
                    write(file)
                    file.flush()
                    reached("sync", path)
                descriptors.append(file.fileno())
            _sync_all(descriptors)
        for beside, path in made:
            with _room(path):
                reached("replace", path)
                os.replace(beside, path)
                reached("replaced", path)
    except BaseException:
        for beside, _ in made:
            beside.unlink(missing_ok=True)
        raise
    _sync_folder(files[-1][0].parent)


def append(path: Path, rows: bytes) -> None:
    """Appends rows to a log; where there is no room for all of them, none are."""
    with _room(path), _opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
        size, left = os.fstat(descriptor).st_size, memoryview(rows)
        reached("append", path)
        try:
            while left:
                left = left[os.write(descriptor, left) :]
        except BaseException:
            os.ftruncate(descriptor, size)
            raise
        reached("appended", path)


def shorten(path: Path, kept: bytes) -> None:
    """Leaves `kept` of a log: cut off in place where the log begins with it, written anew if not.

    A log with other hard links is written anew too, which leaves those as they are.
    """
    with _opened(path, os.O_RDWR) as descriptor:
        alone = os.fstat(descriptor).st_nlink == 1
        if alone and os.read(descriptor, len(kept) + 1)[: len(kept)] == kept:
            reached("shorten", path)
            os.ftruncate(descriptor, len(kept))
            os.fsync(descriptor)
            return
    write_atomically(path, lambda file: file.write(kept))


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all that is in it; no link is followed."""
    reached("remove", path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Removes temporary files that killed writers left in a folder."""
    for path in left_over(folder):
        path.unlink(missing_ok=True)


def left_over(folder: Path) -> list[Path]:
    """Temporary files in a folder; none if it is no folder."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if TEMPORARY.fullmatch(path.name)]


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """The descriptor of a plain file, which is not a link."""
    try:
        descriptor = os.open(path, PLAIN | flags, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadFile(f"{path} is a symbolic link, which is not followed") from None
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _room(path: Path) -> Iterator[None]:
    """Names the file for which there is no room."""
    try:
        yield
    except FullDisk:
        raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise FullDisk(f"there is no room to write {path} ({error.strerror})") from error


def _sync_all(descriptors: Sequence[int]) -> None:
    """Waits until files are on disk; the disk is asked for all of them at once."""
    if len(descriptors) == 1:
        os.fsync(descriptors[0])
        return
    with ThreadPoolExecutor(len(descriptors)) as threads:
        list(threads.map(os.fsync, descriptors))


def _sync_folder(folder: Path) -> None:
    """Waits until the entries of a folder are on disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
