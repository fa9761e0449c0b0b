"""Checksums inside files, so that a damaged file is told from a whole one when it is read.

    checkpoints     a first line with the SHA-256 of all that follows
    YAML            the same, in the comment that is the first line
    .npz            the comment of the zip archive, which np.load does not mind
    JSON            the last entry, "sha256"

A change of any single bit is found, also one in the checksum or in what marks it. Files of coldness
0.9 have none and are read without; so is a YAML or JSON file from which a person took it out.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from coldness.files import BadFile, write_atomically

LABEL = "sha256"
ENTRY = f',\n  "{LABEL}": "'
LAST_ENTRY = re.compile(r'"[0-9a-f]{64}"\s*}\s*\Z')
COMMENT = re.compile(rb"sha256:[0-9a-f]{64}")
EMPTY_END, BARE_END = b"PK\x05\x06", 22
"""Signature and size of the last record of a zip archive without a comment."""


class Damaged(BadFile):
    """A file that is not as it was written.

    Args:
        path: of the file.
        seen: what shows it.
    """

    def __init__(self, path: Path, seen: str = "its checksum does not match") -> None:
        super().__init__(f"{path} is truncated or damaged: {seen}")


def digest(contents: bytes | memoryview) -> str:
    return hashlib.sha256(contents).hexdigest()


# Files that begin with a line of their own.


def headed(mark: str, body: bytes) -> bytes:
    """Contents that begin with a mark and the checksum of the rest."""
    return f"{mark}, {LABEL} {digest(body)}\n".encode() + body


def without_head(path: Path, contents: bytes, mark: str) -> bytes | None:
    """The contents after the first line; None if that has the mark only, and no checksum.

    Raises:
        Damaged: the first line is anything else, or the checksum does not match.
    """
    head, _, body = contents.partition(b"\n")
    if head == mark.encode():
        return None
    if head.decode(errors="replace") != f"{mark}, {LABEL} {digest(body)}":
        raise Damaged(path)
    return body


# Arrays.


def save_npz(path: Path, arrays: dict[str, Any]) -> None:
    """Writes arrays as a compressed .npz file with a checksum."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    archive = buffer.getvalue()
    comment_size = (len(LABEL) + 1 + 64).to_bytes(2, "little")
    body = archive[:-2] + comment_size
    write_atomically(path, lambda file: file.write(body + f"{LABEL}:{digest(body)}".encode()))


def checked_npz(path: Path) -> io.BytesIO:
    """The contents of an .npz file, for np.load.

    Raises:
        Damaged: the checksum does not match.
    """
    contents = path.read_bytes()
    end = contents[-BARE_END:]
    if not (end.startswith(EMPTY_END) and end.endswith(b"\0\0")):  # otherwise it has none
        size = len(LABEL) + 1 + 64
        body, comment = contents[:-size], contents[-size:]
        if not COMMENT.fullmatch(comment) or comment[-64:].decode() != digest(body):
            raise Damaged(path)
    return io.BytesIO(contents)


# JSON objects.


def save_json(path: Path, values: dict[str, Any]) -> None:
    """Writes a JSON object, one entry per line, with a checksum as its last entry."""
    body = json.dumps(values, indent=2, allow_nan=False).removesuffix("\n}")
    text = f'{body}{ENTRY}{digest(body.encode())}"\n}}\n'
    write_atomically(path, lambda file: file.write(text.encode()))


def load_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file, without its checksum.

    Raises:
        Damaged: the checksum does not match, or the file holds no JSON object.
    """
    try:
        text = path.read_bytes().decode()
        body, found, tail = text.rpartition(ENTRY)
        if (found or LAST_ENTRY.search(text)) and tail != f'{digest(body.encode())}"\n}}\n':
            raise Damaged(path)
        values = json.loads(text)
    except Damaged:
        raise
    except (ValueError, RecursionError) as error:  # bytes, JSON, or a number of too many digits
        raise Damaged(path, "it is not JSON") from error
    if not isinstance(values, dict):
        raise Damaged(path, "it holds no JSON object")
    values.pop(LABEL, None)
    return values
