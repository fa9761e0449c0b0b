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

import json
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from coldness.domain import Domain
from coldness.files import BadFile, write_atomically
from coldness.model import Model, load, save_encoder

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows, where a folder is not locked
    fcntl = None

MARK = "# a run of coldness"
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
    def checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.ckpt"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def holds_run(self) -> bool:
        return self.config.is_file() and self.config.read_text().startswith(MARK)

    def check_for(self, resume: bool, overwrite: bool) -> None:
        """Raises FolderError if the folder must not be written to; changes nothing."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise FolderError(f"{path} is a file, not a folder for a run")
        if not path.exists() or not any(path.iterdir()):
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
        """Creates the folder and keeps other processes from training in it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with lock(self.path):
            yield

    def open(self, overwrite: bool) -> None:
        """Removes an earlier run if `overwrite`, config.yaml last."""
        for name in reversed(OURS) if overwrite else ():
            there = self.path / name
            shutil.rmtree(there) if there.is_dir() else there.unlink(missing_ok=True)

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
        lines = self.config.read_text().splitlines()[:4]
        return next((line.removeprefix(label) for line in lines if line.startswith(label)), "")

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
        plain: dict[str, Any] = {name: value.cpu().numpy() for name, value in arrays.items()}
        write_atomically(
            self.path / "evaluation.npz", lambda file: np.savez_compressed(file, **plain)
        )
        text = json.dumps(as_json(metrics), indent=2, allow_nan=False) + "\n"
        write_atomically(self.path / "metrics.json", lambda file: file.write(text.encode()))

    def metrics(self) -> dict[str, Any]:
        path = self.path / "metrics.json"
        if not path.is_file():
            raise BadFile(f"{self.path} is not evaluated yet; run `coldness evaluate {self.path}`")
        try:
            metrics: dict[str, Any] = from_json(json.loads(path.read_text()))
        except json.JSONDecodeError as error:
            raise BadFile(f"{path} is truncated or not JSON") from error
        return metrics
