"""Files of a run that hold tensors: written so that they are whole or not there.

A checkpoint holds everything mutable: parameters, optimiser, average, chain banks, generators
and the iteration. It is written to a file beside the old one, flushed to disk, and moved over it,
so a process killed at any moment leaves a loadable one. Loading never runs code from the file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

FORMAT = "coldness-checkpoint-2"
FORMAT_OF_0_1 = "coldness-checkpoint-1"


class BadFile(ValueError):
    """A file that is not what it should be."""


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """`write` fills a file that then takes the place of `path` in one move."""
    beside = path.with_name(path.name + ".partial")
    try:
        with beside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    write_atomically(path, lambda file: torch.save({"format": FORMAT, **state}, file))


def load_checkpoint(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BadFile(f"no checkpoint at {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about foreign pickles, which are refused below
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail anywhere in the reader
        raise BadFile(f"{path} is truncated or no checkpoint of coldness") from error
    if isinstance(state, dict) and state.get("format") == FORMAT_OF_0_1:
        raise BadFile(f"{path} was written by coldness 0.1: --overwrite starts the run anew")
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise BadFile(f"{path} is no checkpoint of coldness")
    return state


def save_tensors(path: Path, state: dict[str, Tensor]) -> None:
    """Tensors as safetensors."""
    contents = save({name: value.detach().cpu().contiguous() for name, value in state.items()})
    write_atomically(path, lambda file: file.write(contents))


def load_tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise BadFile(f"no weights at {path}")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise BadFile(f"{path} is truncated or no safetensors file") from error
