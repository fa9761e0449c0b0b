"""The folder of a run: its files, and when it may be written to.

config.yaml         the resolved recipe, with the command that made it
metrics.csv         metrics of every iteration, including those that were rolled back
events.jsonl        alarms and actions of the guard, if there were any
grids.npz           for images: negatives over training
checkpoints/        all mutable state
model/              the trained model or encoder, self-contained (coldness/model.py)
metrics.json        the final evaluation
evaluation.npz      grids and samples behind it
report.html         the report

A run of a study also has row.json, its row of the study's table.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from coldness.checksums import load_json, save_json, save_npz
from coldness.domain import Domain
from coldness.files import BadFile, FullDisk, left_over, remove, sweep, write_atomically
from coldness.model import Model, load, save_encoder
from coldness.runs import checkpoints

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows, where a folder is not locked
    fcntl = None

MARK = "# a run of coldness"
WRITTEN_INTO = ("checkpoints", "model", "tensorboard", "metrics.csv", "events.jsonl")
"""Folders within and logs, which must be no links: they would be written into elsewhere."""

OURS = (
    "config.yaml",
    "metrics.csv",
    "events.jsonl",
    "grids.npz",
    "checkpoints",
    "model",
    "model.safetensors",
    "metrics.json",
    "evaluation.npz",
    "report.html",
    "tensorboard",
    "row.json",
)


class FolderError(ValueError):
    """A folder that must not be written to, or that does not hold a run."""


def as_json(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics as JSON: numbers that are not finite become "nan", "inf" and "-inf"."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }


def from_json(metrics: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `as_json`."""
    return {
        name: float(value) if value in ("nan", "inf", "-inf") else value
        for name, value in metrics.items()
    }


def _is_metric(value: Any) -> bool:
    """Whether a value of metrics.json is a number, or None for one that was not measured."""
    if isinstance(value, int):
        return abs(value) < sys.float_info.max
    return value is None or isinstance(value, float)


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Locks a folder for this process; the lock ends with the process, however that ends."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"{folder} is in use by another process") from None
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run.

    Args:
        path: of the folder.
    """

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def holds_run(self) -> bool:
        return self.config.is_file() and self._text().startswith(MARK)

    def check_for(self, resume: bool, overwrite: bool) -> None:
        """Raises FolderError if the folder must not be written to; changes nothing."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise FolderError(f"{path} is a file, not a folder for a run")
        if not path.exists() or len(list(path.iterdir())) == len(left_over(path)):
            if resume:
                raise FolderError(f"{path} holds no run to resume")
            return
        if not self.holds_run():
            raise FolderError(f"{path} holds files that are not of a run; nothing was written")
        if not (resume or overwrite):
            raise FolderError(
                f"{path} already holds a run: --resume continues it, --overwrite replaces it"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Creates the folder and keeps other processes from training in it.

        Raises:
            FolderError: another process does.
            FullDisk: there was no room; the message says how to continue.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with lock(self.path):
                yield
        except FullDisk as error:
            how = "--resume continues the run" if self.holds_run() else "nothing was saved yet"
            raise FullDisk(f"{error}; make room, then {how}") from error

    def open(self, overwrite: bool) -> None:
        """Removes an earlier run if `overwrite`, config.yaml last, and what killed writers left.

        A run that is killed here can be overwritten again.

        Raises:
            FolderError: a folder within, or a log, is a link.
        """
        for name in reversed(OURS) if overwrite else ():
            remove(self.path / name)
        for name in WRITTEN_INTO:
            if (self.path / name).is_symlink():
                raise FolderError(
                    f"{self.path / name} is a symbolic link, which is not followed: put what it "
                    "leads to in its place, or --overwrite the run"
                )
        for folder in (self.path, self.model, self.checkpoints):
            sweep(folder)

    def begun(self) -> bool:
        """Whether iterations of the run were made, by the files that come of them."""
        files = ("metrics.csv", "model/model.yaml", "metrics.json", "evaluation.npz", "row.json")
        there = (self.path / name for name in files)
        return any(path.is_file() and path.stat().st_size > 0 for path in there)

    def saved_state(self, which: int | str | Path | None = None) -> dict[str, Any] | None:
        """The state to resume from; None if the run was stopped before it saved any.

        Args:
            which: iteration or path of a checkpoint; None for the newest that is whole.
        Raises:
            BadFile: the checkpoint is not there, or damaged.
            FolderError: the run has begun, and all checkpoints are gone.
        """
        folder = self.checkpoints
        found = checkpoints.newest(folder) if which is None else checkpoints.chosen(folder, which)
        if found is not None:
            return found[1]
        if self.begun():
            raise FolderError(
                f"{self.path} holds a run whose checkpoints are gone: it cannot be resumed, and "
                "--overwrite starts it anew"
            )
        return None

    def save_config(self, text: str, recipe: str, command: str, data: str = "") -> None:
        """Writes config.yaml.

        Args:
            text: YAML of the recipe.
            recipe: its name.
            command: that makes the same run.
            data: fingerprint of data that was given in Python; empty for the recipe's own.
        """
        head = f"{MARK}\n# recipe: {recipe}\n# command: {command}\n"
        head += f"# data given in Python: {data}\n" if data else ""
        write_atomically(self.config, lambda file: file.write((head + text).encode()))

    def recipe(self) -> str:
        """The name of the recipe that the run was made from."""
        return self._head("# recipe: ")

    def command(self) -> str:
        """The command that made the run."""
        return self._head("# command: ")

    def given_data(self) -> str:
        """The fingerprint of data that was given in Python; empty for the recipe's own."""
        return self._head("# data given in Python: ")

    def _head(self, label: str) -> str:
        lines = self._text().splitlines()[:4]
        return next((line.removeprefix(label) for line in lines if line.startswith(label)), "")

    def _text(self) -> str:
        return self.config.read_text(encoding="utf-8", errors="replace")

    def load(self, allow_imports: bool = False) -> Model:
        """The trained model; the data that it was trained on is not needed."""
        if not self.holds_run():
            raise FolderError(f"{self.path} holds no run of coldness")
        return load(self.path, allow_imports=allow_imports)

    def save_model(self, model: Model) -> None:
        model.save(self.model, overwrite=True)

    def save_encoder(self, encoder: nn.Module, domain: Domain) -> None:
        """Writes an encoder in place of a model: the result of `coldness pretrain`."""
        save_encoder(self.model, encoder, domain)

    def save_evaluation(self, metrics: dict[str, Any], arrays: dict[str, Tensor]) -> None:
        save_npz(self.path / "evaluation.npz", {k: v.cpu().numpy() for k, v in arrays.items()})
        save_json(self.path / "metrics.json", as_json(metrics))

    def metrics(self) -> dict[str, Any]:
        """Metrics of the final evaluation.

        Raises:
            BadFile: there is none, or metrics.json is damaged.
        """
        path = self.path / "metrics.json"
        if not path.is_file():
            raise BadFile(f"{self.path} is not evaluated yet; run `coldness evaluate {self.path}`")
        metrics = from_json(load_json(path))
        wrong = [name for name, value in metrics.items() if not _is_metric(value)]
        if wrong:
            raise BadFile(
                f"{path} is damaged: {wrong[0][:60]!r} is not a number; run `coldness evaluate "
                f"{self.path}` again"
            )
        return {name: value for name, value in metrics.items() if value is not None}
