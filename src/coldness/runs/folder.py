"""The folder of a run: what is in it, and when it may be written to.

config.yaml         the resolved recipe, with the command that made it
metrics.csv         metrics of every iteration, also of those that were rolled back
events.jsonl        what the guard saw and did, where there was anything
grids.npz           of images: negatives over training
checkpoints/        everything mutable
model.safetensors   weights of the trained model
metrics.json        the final evaluation
evaluation.npz      grids and samples behind it
report.html         for people

In a study also row.json, its row of the table.
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
from torch import Tensor

from coldness.energies import Coordinates
from coldness.runs.files import BadFile, load_weights, save_weights, write_atomically
from coldness.training.recipe import Recipe
from coldness.training.settings import Settings

fcntl: Any
try:
    import fcntl
except ImportError:  # not on Windows, where two processes in one folder are not kept apart
    fcntl = None

MARK = "# a run of coldness"
OURS = (
    "config.yaml",
    "metrics.csv",
    "events.jsonl",
    "grids.npz",
    "checkpoints",
    "model.safetensors",
    "metrics.json",
    "evaluation.npz",
    "report.html",
    "tensorboard",
    "row.json",
)


class FolderError(ValueError):
    """A folder that must not be written to, or is no run."""


def as_json(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics as JSON can hold them: numbers that are not finite as "nan", "inf" and "-inf"."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }


def from_json(metrics: dict[str, Any]) -> dict[str, Any]:
    """The inverse."""
    return {
        name: float(value) if value in ("nan", "inf", "-inf") else value
        for name, value in metrics.items()
    }


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Holds a folder for this process; the lock goes with the process, however that ends."""
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
    def weights(self) -> Path:
        return self.path / "model.safetensors"

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
        """Says why the folder may not be written to, if it may not; changes nothing."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise FolderError(f"{path} is a file, not a folder for a run")
        if not path.exists() or not any(path.iterdir()):
            if resume:
                raise FolderError(f"{path} holds no run to resume")
            return
        if not self.holds_run():
            raise FolderError(f"{path} holds something else than a run; nothing was written")
        if not (resume or overwrite):
            raise FolderError(
                f"{path} already holds a run: --resume goes on with it, --overwrite starts anew"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder and keeps other processes from training in it meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True)
        with lock(self.path):
            yield

    def open(self, overwrite: bool) -> None:
        """Empties the folder of an earlier run on overwrite, config.yaml last."""
        for name in reversed(OURS) if overwrite else ():
            there = self.path / name
            shutil.rmtree(there) if there.is_dir() else there.unlink(missing_ok=True)

    def save_config(self, text: str, recipe: str, command: str) -> None:
        head = f"{MARK}\n# recipe: {recipe}\n# command: {command}\n"
        write_atomically(self.config, lambda file: file.write((head + text).encode()))

    def recipe(self) -> str:
        """The name of the recipe that the run was made from."""
        return self._head("# recipe: ")

    def command(self) -> str:
        """The command that made the run."""
        return self._head("# command: ")

    def _head(self, label: str) -> str:
        lines = self.config.read_text().splitlines()[:4]
        return next((line.removeprefix(label) for line in lines if line.startswith(label)), "")

    def load(self, allow_imports: bool = False) -> Settings:
        """The run's settings, with the trained weights in their energy."""
        if not self.holds_run():
            raise FolderError(f"{self.path} holds no run of coldness")
        settings = Recipe.read(self.config, allow_imports=allow_imports).parts()
        kind, shape = settings.preconditioner, settings.data.shape
        settings.energy.coordinates = Coordinates.like(kind, shape)
        if not self.weights.is_file():
            raise BadFile(f"{self.path} is not trained to its end: go on with --resume")
        try:
            settings.load_model_state(load_weights(self.weights))
        except (RuntimeError, KeyError) as error:
            raise BadFile(f"{self.weights} does not fit {self.config}") from error
        return settings

    def save_model(self, weights: dict[str, Tensor]) -> None:
        save_weights(self.weights, weights)

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
            raise BadFile(f"{self.path} is not evaluated yet: coldness evaluate {self.path}")
        try:
            metrics: dict[str, Any] = from_json(json.loads(path.read_text()))
        except json.JSONDecodeError as error:
            raise BadFile(f"{path} is truncated or no JSON") from error
        return metrics
