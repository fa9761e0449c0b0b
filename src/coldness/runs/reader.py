"""Reading a run folder, for reports, comparisons and studies.

    config.yaml      the settings, as text and as a mapping
    metrics.csv      columns over the iterations that led to the model
    metrics.json     metrics of the final evaluation
    evaluation.npz   its arrays; whether examples are images is decided here, once
    grids.npz        for images: negatives during training
    row.json         in a study: the run's row of the table
    model/           its card, model.yaml, for the names of classes and attributes

Events of the guard are read in events.py. Nothing in a file is executed. A file that is missing or
broken raises BadFile, whose message names the file and the command that writes it, in one line.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldness.cards import read_card as read_model_card
from coldness.checksums import Damaged, checked_npz, load_json
from coldness.data.array_files import check_arrays
from coldness.documents import read_yaml
from coldness.files import BadFile
from coldness.runs.log import read_metrics

Array = NDArray[np.float64]

BROKEN = (
    OSError, ValueError, EOFError, TypeError, AttributeError, LookupError, ArithmeticError,
    RecursionError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors raised by reading a file that is truncated or was not written by coldness."""

IMAGES_READ = 100
"""Most images of every kind that are shown, except those of which every row belongs to another."""

SLICES = {"slice_log_p_data", "slice_log_p_model"}

CONDITIONAL = {"x_class", "x_instance", "x_like", "x_attributes"}
IMAGES = {"x_data", "x_short", "x_long", "x_bank", "x_from_data", "x_nearest", *CONDITIONAL}
WHOLE = {*CONDITIONAL, "x_class_labels"}
"""Arrays that are read whole, because every row belongs to a row of another array."""

LENGTHS = {
    "x_class_labels": "x_class",
    "reliability_accuracy": "reliability_share",
    "reliability_confidence": "reliability_share",
    "reliability_refined_accuracy": "reliability_refined_share",
    "reliability_refined_confidence": "reliability_refined_share",
}
"""Arrays (n,) of image runs, and the array that has the same length."""

WIDTHS = {
    "unusual_slopes": "unusual_x",
    "unusual_score": "unusual_x",
    "unusual_place": "unusual_x",
    "table_distances": "table_columns",
    "table_pair_p": "table_pairs",
    "table_pair_distances": "table_pairs",
}
"""Arrays of tables, and the array that has the same number of rows."""

MULTIPLES = {"x_like": "x_instance", "x_attributes": "attribute_table"}
"""Samples of image runs, and the array that has one row for every m of them."""


@dataclass(frozen=True)
class Evaluation:
    """The arrays of an evaluation.

    Args:
        arrays: by name; samples are x_data, x_short, x_long (n, D) or (n, C, H, W).
        is_images: whether examples are images (C, H, W) and not points (D,).
    """

    arrays: dict[str, Array]
    is_images: bool

    @property
    def dimension(self) -> int:
        """Number of values in one example."""
        return math.prod(self.arrays["x_data"].shape[1:])

    @property
    def is_line(self) -> bool:
        """Whether examples are points in one dimension."""
        return not self.is_images and self.dimension == 1

    @property
    def is_plane(self) -> bool:
        """Whether examples are points in two dimensions or more, of which two are drawn."""
        return not self.is_images and self.dimension >= 2

    @property
    def has_directions(self) -> bool:
        """Whether the leading directions of a table are known, which are drawn in their place."""
        return "table_axes" in self.arrays

    @property
    def has_slices(self) -> bool:
        """Whether the true density and the model's are known on a slice."""
        return set(self.arrays) >= SLICES


@dataclass(frozen=True)
class Grids:
    """Negatives x (T, n, C, H, W), in bytes, at iterations (T,) of the training."""

    iterations: Sequence[int]
    x: NDArray[np.uint8]


# Files that training writes.


def read_config(folder: Path) -> str:
    """The text of config.yaml, which is a mapping or empty."""
    path = _trained(folder, "config.yaml")
    with _whole(path, "train"):
        text = path.read_text()
        if not isinstance(read_yaml(text), dict | None):
            raise BadFile(f"{path} holds no settings; it should be a mapping")
    return text


def settings_of(config: str) -> dict[str, Any]:
    """The settings in the text of a config.yaml."""
    return read_yaml(config) or {}


def read_columns(folder: Path) -> dict[str, Array]:
    """Columns of metrics.csv, of the iterations that led to the model."""
    path = _trained(folder, "metrics.csv")
    with _whole(path, "train"):
        return {k: np.array(v, dtype=np.float64) for k, v in read_metrics(path).items()}


def read_grids(folder: Path) -> Grids | None:
    """Negatives from grids.npz; None where there is no file, or nothing in it."""
    path = folder / "grids.npz"
    if not path.is_file():
        return None
    with _whole(path, "train"):
        if not zipfile.is_zipfile(path):
            raise ValueError("not an npz file")
        check_arrays(path)
        with np.load(checked_npz(path), allow_pickle=False) as file:
            iterations, x = file["iterations"], file["x"]
        known = x.dtype == np.uint8 and x.ndim == 5 and 0 not in x.shape[1:]
        if not known or iterations.shape != x.shape[:1]:
            raise ValueError("x is not (T, n, C, H, W) of bytes, with iterations (T,)")
    return Grids([int(k) for k in iterations], x) if len(x) else None


def read_card(folder: Path) -> dict[str, Any]:
    """The card of the run's model, model/model.yaml; empty where there is none."""
    path = folder / "model" / "model.yaml"
    if not path.is_file():
        return {}
    try:
        return read_model_card(path)
    except BadFile as error:
        raise BadFile(f"{error}; run `coldness train` again") from error


def read_row(folder: Path) -> dict[str, Any] | None:
    """A run's row in the table of its study; None where the run is not finished."""
    path = folder / "row.json"
    if not path.is_file():
        return None
    try:
        return load_json(path)
    except (OSError, BadFile) as error:
        raise BadFile(f"{error}; remove it and run the study again") from error


# Files that an evaluation writes.


def read_final_metrics(folder: Path) -> dict[str, float]:
    """Metrics of metrics.json; those without a value are left out."""
    path = _evaluated(folder, "metrics.json")
    with _whole(path, f"evaluate {folder}"):
        metrics = load_json(path)
        return {key: float(value) for key, value in metrics.items() if value is not None}


def read_evaluation(folder: Path) -> Evaluation:
    """The arrays of evaluation.npz, with shapes checked."""
    path = _evaluated(folder, "evaluation.npz")
    with _whole(path, f"evaluate {folder}"):
        check_arrays(path)
        with np.load(checked_npz(path), allow_pickle=False) as file:
            is_images = file["x_data"].ndim == 4
            arrays = {key: _array(key, file[key], is_images) for key in file.files}
        # The box is not stored where the data's density is unknown.
        arrays.setdefault("box", np.abs(arrays["x_data"]).max())
        _check(arrays, is_images)
    return Evaluation(arrays, is_images)


def is_evaluated(folder: Path) -> bool:
    """Whether the run has the arrays of an evaluation."""
    return (folder / "evaluation.npz").is_file()


def _array(key: str, array: NDArray[Any], is_images: bool) -> Array:
    cut = is_images and key.startswith("x_") and key not in WHOLE
    return (array[:IMAGES_READ] if cut else array).astype(np.float64)


def _check(arrays: Mapping[str, Array], is_images: bool) -> None:
    if is_images:
        _check_images(arrays)
    else:
        for key in ("x_data", "x_short", "x_long"):
            if arrays[key].ndim != 2 or not len(arrays[key]):
                raise ValueError(f"{key} is not (n, D)")
    for key, of in WIDTHS.items():
        if (key in arrays) != (of in arrays) or (
            key in arrays and len(arrays[key]) != len(arrays[of])
        ):
            raise ValueError(f"{key} does not have as many rows as {of}")
    if "table_axes" in arrays and arrays["table_axes"].shape[1:] != arrays["x_data"].shape[1:]:
        raise ValueError("table_axes is not (K, D)")
    for key in {"log_p_data", "log_p_model"} & set(arrays):
        if arrays[key].shape != arrays["x_data"].shape[1] * arrays["side"].shape:
            raise ValueError(f"{key} is not (G, G), or (G,) in one dimension")
    for key in SLICES & set(arrays):
        if arrays[key].shape != 2 * arrays["slice_side"].shape:
            raise ValueError(f"{key} is not (G, G)")
    for trail in {"trail_long", "trail_data"} & {key.rpartition("_")[0] for key in arrays}:
        notes = arrays[f"{trail}_steps"].shape
        shapes = arrays[f"{trail}_u"].shape, arrays[f"{trail}_distance"].shape
        if len(notes) != 1 or shapes != ((*notes, 3), notes):
            raise ValueError(f"{trail} is not steps (K,), u (K, 3) and distance (K,)")
    if not float(arrays["box"]) > 0:
        raise ValueError("box must be > 0")


def _check_images(arrays: Mapping[str, Array]) -> None:
    shape = arrays["x_data"].shape[1:]
    for key in IMAGES & set(arrays):
        if arrays[key].shape[1:] != shape or not arrays[key].size:
            raise ValueError(f"{key} is not (n, {', '.join(map(str, shape))})")
    for key, of in LENGTHS.items():
        if key in arrays and of in arrays and arrays[key].shape != arrays[of].shape[:1]:
            raise ValueError(f"{key} does not have the length of {of}")
    for key in {"cosines_f", "cosines_v", "cosines_h"} & set(arrays):
        if arrays[key].ndim != 1:
            raise ValueError(f"{key} is not (P,)")
    if "confusion" in arrays and arrays["confusion"].shape != 2 * arrays["confusion"].shape[:1]:
        raise ValueError("confusion is not (K, K)")
    if "attribute_table" in arrays:
        table = arrays["attribute_table"]
        if table.ndim != 2 or table.shape[1] % 2 or not table.size:
            raise ValueError("attribute_table is not (R, 2A)")
    for key, of in MULTIPLES.items():
        if key in arrays and (of not in arrays or len(arrays[key]) % len(arrays[of])):
            raise ValueError(f"{key} does not have equally many rows for every row of {of}")


# Missing and broken files.


def _trained(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise BadFile(f"{folder} is not a run: it has no {name}; make one with `coldness train`")
    return folder / name


def _evaluated(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise BadFile(f"{folder} has no {name}; run `coldness evaluate {folder}` first")
    return folder / name


@contextmanager
def _whole(path: Path, command: str) -> Iterator[None]:
    """Raises BadFile for a file that cannot be read, and names the command that writes it."""
    try:
        yield
    except Damaged as error:
        raise BadFile(f"{error}; run `coldness {command}` again") from error
    except BadFile:
        raise
    except BROKEN as error:
        raise BadFile(
            f"{path} is truncated or was not written by coldness; run `coldness {command}` again"
        ) from error
