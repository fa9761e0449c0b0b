"""Panels in the plane of one evaluation: truth, model, and densities of its samples.

Every panel is drawn as a density and as a log density. Colours mean the same in all panels of a
kind: their scale is that of the truth. In more than two dimensions, samples are shown in the first
two, and densities, where they are known, on the slice where all others are 0. Images have no
panels: what is shown of them is tiles (image_grids.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coldness.report import figures
from coldness.report.figures import Array

Ends = dict[str, tuple[float, float]]
"""Lowest and highest value of the colour scale, for "density" and for "log density"."""

ENOUGH_FOR_KERNELS = 200
"""Samples in more than two dimensions. Fewer are shown as histograms: kernels would be blobs."""

IMAGES_READ = 100
"""Of every array but x_class, whose classes may be many: more are not shown."""

SLICES = {"slice_log_p_data", "slice_log_p_model"}

IMAGES = {"x_data", "x_short", "x_long", "x_bank", "x_from_data", "x_class", "x_nearest"}
LENGTHS = {
    "x_class_labels": "x_class",
    "reliability_accuracy": "reliability_share",
    "reliability_confidence": "reliability_share",
    "reliability_refined_accuracy": "reliability_refined_share",
    "reliability_refined_confidence": "reliability_refined_share",
}
"""Arrays (n,) of image runs, and those that have as many."""


@dataclass(frozen=True)
class Panel:
    """A picture [x, y], what it shows, and what to say below it."""

    name: str
    density: Array
    log_density: Array
    note: str = ""

    def values(self, kind: str) -> Array:
        """Of "density" or "log density"."""
        return self.density if kind == "density" else self.log_density


@dataclass(frozen=True)
class Densities:
    """The arrays of an evaluation as panels; estimates are made when they are asked for."""

    arrays: dict[str, Array]

    @property
    def box(self) -> float:
        return float(self.arrays["box"])

    @property
    def dimension(self) -> int:
        return math.prod(self.arrays["x_data"].shape[1:])

    @property
    def of_images(self) -> bool:
        """Whether examples are (C, H, W)."""
        return self.arrays["x_data"].ndim == 4

    @cached_property
    def truth(self) -> Panel:
        """The density where it is known, else that of the data."""
        if "log_p_data" in self.arrays:
            return self._grid("Truth", "log_p_data")
        return self._samples("Data", "x_data")

    @cached_property
    def model(self) -> Panel | None:
        """None where the model's density is not known."""
        return self._grid("Model", "log_p_model") if "log_p_model" in self.arrays else None

    @cached_property
    def short(self) -> Panel:
        return self._samples("Short-run samples", "x_short")

    @cached_property
    def long(self) -> Panel:
        return self._samples("Long-run samples", "x_long")

    @property
    def has_slices(self) -> bool:
        """Whether truth and model are known on a slice."""
        return set(self.arrays) >= SLICES

    @cached_property
    def slice_truth(self) -> Panel:
        return self._grid("Truth, slice", "slice_log_p_data", "slice_side")

    @cached_property
    def slice_model(self) -> Panel:
        return self._grid("Model, slice", "slice_log_p_model", "slice_side")

    @property
    def by_kernels(self) -> bool:
        """Whether densities of samples are estimated with kernels; else they are histograms."""
        fewest = min(len(self.arrays[f"x_{of}"]) for of in ("data", "short", "long"))
        return self.dimension == 2 or fewest >= ENOUGH_FOR_KERNELS

    @cached_property
    def ends(self) -> Ends:
        """The colour scales of the truth."""
        ends = _ends(self.truth.density)
        if not self.by_kernels:  # just below a bin with one sample in it
            density, (low, high) = self.truth.density, ends["log density"]
            low = float(np.log(density[density > 0].min(initial=np.exp(high)))) - 1
            ends["log density"] = low, high
        return ends

    @cached_property
    def slice_ends(self) -> Ends:
        """The colour scales of the truth on the slice."""
        return _ends(self.slice_truth.density)

    def same_truth(self, other: Densities) -> bool:
        if self.box != other.box or self.dimension != other.dimension:
            return False
        if self.by_kernels != other.by_kernels or self.has_slices != other.has_slices:
            return False
        key = "log_p_data" if "log_p_data" in self.arrays else "x_data"
        return key in other.arrays and np.array_equal(self.arrays[key], other.arrays[key])

    def _grid(self, name: str, key: str, side: str = "side") -> Panel:
        log_p = figures.crop(self.arrays[side], self.arrays[key], self.box)
        missing = float(np.isnan(log_p).mean())
        note = f"{missing:.0%} is not a number (grey)" if missing else ""
        return Panel(name, np.exp(log_p), figures.log_density(np.exp(log_p)), note)

    def _samples(self, name: str, key: str) -> Panel:
        x = self.arrays[key]
        estimate = figures.sample_density if self.by_kernels else figures.histogram
        density = estimate(x[:, :2], self.box)
        lost = 1 - float(np.isfinite(x).all(1).mean())
        outside = 1 - float((np.abs(x[:, :2]) <= self.box).all(1).mean()) - lost
        note = f"{outside:.1%} lie outside the panel" if outside >= 0.001 else ""
        if lost:
            note = f"{lost:.1%} are not finite" + (f", {note}" if note else "")
        return Panel(name, density, figures.log_density(density), note)


def _ends(density: Array) -> Ends:
    high = float(density.max()) or 1.0
    high_log = float(np.log(high))
    return {"density": (0.0, high), "log density": (high_log - figures.LOG_RANGE, high_log)}


def read_densities(path: Path) -> Densities:
    """From an evaluation.npz; nothing in it is run.

    Raises:
        OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile: it is broken.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: _as_float(key, file[key]) for key in file.files}
    arrays.setdefault("box", np.abs(arrays["x_data"]).max())  # where the law is not known
    _check(arrays)
    return Densities(arrays)


def _as_float(key: str, array: NDArray[Any]) -> Array:
    """Of images, no more than are shown."""
    shown = array[:IMAGES_READ] if array.ndim == 4 and key != "x_class" else array
    return shown.astype(np.float64)


def _check(arrays: Mapping[str, Array]) -> None:
    if arrays["x_data"].ndim == 4:
        _check_images(arrays)
    else:
        for key in ("x_data", "x_short", "x_long"):
            if arrays[key].ndim != 2 or not len(arrays[key]):
                raise ValueError(f"{key} is not (n, D)")
    for key in {"log_p_data", "log_p_model"} & set(arrays):
        if arrays[key].shape != arrays["x_data"].shape[1] * arrays["side"].shape:
            raise ValueError(f"{key} is not (G, G), or (G,) on the line")
    for key in SLICES & set(arrays):
        if arrays[key].shape != 2 * arrays["slice_side"].shape:
            raise ValueError(f"{key} is not (G, G)")
    for trail in {"trail_long", "trail_data"} & {key.rpartition("_")[0] for key in arrays}:
        notes = arrays[f"{trail}_steps"].shape
        shapes = arrays[f"{trail}_u"].shape, arrays[f"{trail}_distance"].shape
        if len(notes) != 1 or shapes != ((*notes, 3), notes):
            raise ValueError(f"{trail} is not steps (K,), u (K, 3) and distance (K,)")
    if not float(arrays["box"]) > 0:
        raise ValueError("box is not > 0")


def _check_images(arrays: Mapping[str, Array]) -> None:
    shape = arrays["x_data"].shape[1:]
    for key in IMAGES & set(arrays):
        if arrays[key].shape[1:] != shape or not arrays[key].size:
            raise ValueError(f"{key} is not (n, {', '.join(map(str, shape))})")
    for key, of in LENGTHS.items():
        if key in arrays and of in arrays and arrays[key].shape != arrays[of].shape[:1]:
            raise ValueError(f"{key} is not of as many as {of}")
