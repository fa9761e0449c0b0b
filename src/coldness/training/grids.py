"""Pictures during the training on images: negatives of the first source, at a few iterations.

Stored as bytes: values are clipped to [-1, 1] and rounded, for display only.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from coldness.checksums import checked_npz, save_npz
from coldness.files import BadFile
from coldness.training.settings import Settings

TIMES = 8
IMAGES = 36


class Pictured(Protocol):
    """The interface of a run that pictures are taken of."""

    iteration: int
    x_model: torch.Tensor


class Grids:
    """grids.npz: iterations (T,), and x (T, n, C, H, W) in uint8. No file unless data is images.

    Args:
        folder: of the run; None for no file. Pictures of a resumed run are kept up to its
            iteration.
        training: the run.
        settings: of the run.
    """

    def __init__(self, folder: Path | None, training: Pictured, settings: Settings) -> None:
        self.path = None if folder is None else folder / "grids.npz"
        self.training = training
        self.active = settings.data.domain.is_images and self.path is not None
        self.kept: dict[int, NDArray[np.uint8]] = {}
        if self.active and training.iteration and self.path is not None and self.path.is_file():
            self.kept = _read(self.path)
        n = settings.iterations
        self.due = {max(1, round(n * (k + 1) / TIMES)) for k in range(TIMES)}

    def look(self) -> None:
        """Takes a picture after an iteration, if one is due."""
        t = self.training.iteration
        if self.active and t in self.due:
            self.kept[t] = as_bytes(self.training.x_model[:IMAGES])

    def save(self) -> None:
        """Called with every checkpoint; drops pictures of iterations that were rolled back."""
        now = self.training.iteration
        self.kept = {t: x for t, x in self.kept.items() if t <= now}
        if not self.kept or self.path is None:
            return
        iterations = sorted(self.kept)
        x = np.stack([self.kept[t] for t in iterations])
        save_npz(self.path, {"iterations": np.array(iterations), "x": x})


def as_bytes(x: torch.Tensor) -> NDArray[np.uint8]:
    """Images with values in [-1, 1] as bytes."""
    return ((x.detach().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu().numpy()


def _read(path: Path) -> dict[int, NDArray[np.uint8]]:
    try:
        with np.load(checked_npz(path), allow_pickle=False) as file:
            return dict(zip(file["iterations"].tolist(), file["x"], strict=True))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path} is truncated or was not written by coldness") from error
