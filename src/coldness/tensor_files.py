"""Files that hold tensors: checkpoints of a run, and weights of a model.

A checkpoint holds everything mutable: parameters, optimiser, average, chain banks, generators
and the iteration. Its checksum is verified when it is read. Loading never runs code from the file.
`check_form` compares what was read with a state of the run that it is for.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from coldness.checksums import Damaged, headed, without_head
from coldness.documents import shortened
from coldness.files import BadFile, write_atomically, write_together

FORMAT = "coldness-checkpoint-3"
WITHOUT_CHECKSUM = "coldness-checkpoint-2"
OF_0_1 = "coldness-checkpoint-1"
ZIP = b"PK"

EVERY = "*"
"""In a form: stands for all names of a dictionary."""

MISFITS = (KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError, OverflowError)
"""Errors of a state that does not fit what it is loaded into."""

log = logging.getLogger("coldness")


def misfit(what: str, error: Exception) -> BadFile:
    """The error of a state in which `what` does not fit; its message is one line."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return BadFile(f"{what} ({shortened(line, 150)})")


@dataclass(frozen=True)
class Maybe:
    """In a form: None, or a value of this form."""

    form: Any


def form_of(state: Any) -> Any:
    """The form of a state: its tensors without their values."""
    if isinstance(state, Tensor):
        return torch.empty_like(state, device="meta")
    if isinstance(state, dict):
        return {name: form_of(value) for name, value in state.items()}
    if isinstance(state, Maybe):
        return Maybe(form_of(state.form))
    if isinstance(state, list | tuple):
        return type(state)(form_of(value) for value in state)
    return state


def check_form(state: Any, form: Any, at: str) -> None:
    """Compares a state that was read with one that the run would write.

    A kernel of PyTorch that is handed a tensor of another shape, or something else than a tensor,
    may crash the process instead of raising an error.

        tensor        the same type of numbers and the same shape; any shape if the form is empty
        dictionary    no names that the form lacks, if it has any; EVERY stands for all
        list, tuple   as many entries, each like that of the form
        list of one   any number of entries like it; of none: any list
        None          anything
        value         the same type; an int may stand for a float

    Args:
        state: nested dictionaries, lists and tuples of tensors and plain values.
        form: of the same kind; `form_of` a state.
        at: what the state is, for the message.
    Raises:
        BadFile: they differ; the message names the place.
    """
    same, inner = True, []
    if isinstance(form, Maybe):
        inner = [] if state is None else [(state, form.form, at)]
    elif isinstance(form, Tensor):
        same = isinstance(state, Tensor) and state.dtype == form.dtype
        same = same and (not form.numel() or state.shape == form.shape)
    elif isinstance(form, dict):
        same = isinstance(state, dict) and (not form or EVERY in form or set(state) <= set(form))
        if same and form:
            inner = [(v, form.get(k, form.get(EVERY)), f"{at}, {k}") for k, v in state.items()]
    elif isinstance(form, list | tuple):
        any_number = isinstance(form, list) and len(form) < 2
        same = isinstance(state, list | tuple) and (any_number or len(state) == len(form))
        if same and form:
            entries = repeat(form[0]) if any_number else form
            inner = [(v, f, at) for v, f in zip(state, entries, strict=False)]
    elif form is not None:
        same = type(state) is type(form) or (type(form) is float and type(state) is int)
    if not same:
        raise BadFile(f"{shortened(at, 200)} is not what this run would write")
    for each in inner:
        check_form(*each)


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Writes a nested state of tensors and plain values."""
    save_checkpoints({path: state})


def save_checkpoints(states: Mapping[Path, dict[str, Any]], logs: Sequence[Path] = ()) -> None:
    """Writes states into one folder, in this order; `logs` as in files.py."""

    def write(state: dict[str, Any], file: BinaryIO) -> None:
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, **state}, buffer)
        file.write(headed(FORMAT, buffer.getvalue()))

    write_together([(path, partial(write, state)) for path, state in states.items()], logs)


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
