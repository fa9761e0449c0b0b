"""Files that hold tensors: checkpoints of a run, and weights of a model.

A checkpoint holds everything mutable: parameters, optimiser, average, chain banks, generators
and the iteration. Its checksum is verified when it is read. Loading never runs code from the file.
"""

from __future__ import annotations

import io
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from coldness.checksums import Damaged, headed, without_head
from coldness.files import BadFile, write_atomically

FORMAT = "coldness-checkpoint-3"
WITHOUT_CHECKSUM = "coldness-checkpoint-2"
OF_0_1 = "coldness-checkpoint-1"
ZIP = b"PK"

log = logging.getLogger("coldness")


def save_checkpoint(path: Path, state: dict[str, Any], *, into_folder: bool = True) -> None:
    """Writes a nested state of tensors and plain values; `into_folder` as in files.py."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, **state}, buffer)
    contents = headed(FORMAT, buffer.getvalue())
    write_atomically(path, lambda file: file.write(contents), into_folder=into_folder)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that a checkpoint holds.

    Raises:
        Damaged: the checksum does not match.
        BadFile: there is no checkpoint, or it is one of another program or an old version.
    """
    if not path.is_file():
        raise BadFile(f"no checkpoint at {path}")
    contents = path.read_bytes()
    verified = None
    if contents.startswith(FORMAT.encode()):
        verified = without_head(path, contents, FORMAT)
    elif not contents.startswith(ZIP):
        raise BadFile(f"{path} is truncated or no checkpoint of coldness")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about foreign pickles, which are refused below
            body = io.BytesIO(contents if verified is None else verified)
            state = torch.load(body, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail anywhere in the reader
        raise BadFile(f"{path} is truncated or no checkpoint of coldness") from error
    found = state.get("format") if isinstance(state, dict) else None
    if found == OF_0_1:
        raise BadFile(f"{path} was written by coldness 0.1: --overwrite starts the run anew")
    if found == WITHOUT_CHECKSUM:
        log.warning("%s is of coldness 0.9 or earlier: it has no checksum to verify", path)
    elif found == FORMAT and verified is None:
        raise Damaged(path)
    elif found != FORMAT:
        raise BadFile(f"{path} is no checkpoint of coldness")
    return state


def save_tensors(path: Path, state: dict[str, Tensor]) -> bytes:
    """Writes tensors as safetensors; returns the contents, for a checksum elsewhere."""
    contents = save({name: value.detach().cpu().contiguous() for name, value in state.items()})
    write_atomically(path, lambda file: file.write(contents))
    return contents


def load_tensors(path: Path) -> tuple[dict[str, Tensor], bytes]:
    """Tensors of a safetensors file, and its contents."""
    if not path.is_file():
        raise BadFile(f"no weights at {path}")
    contents = path.read_bytes()
    try:
        return load(contents), contents
    except (SafetensorError, ValueError, KeyError) as error:
        raise BadFile(f"{path} is truncated or no safetensors file") from error
