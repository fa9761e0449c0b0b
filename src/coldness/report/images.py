"""Pictures of image runs: tiles of samples, by class, during training, and nearest neighbours.

A picture holds many images, pixel for pixel:

    colour = round(127.5 (x + 1)),   x clipped to [-1, 1]

Pixels of chains may lie beyond, unless their kernel clamps them; they are clipped here, for the
picture only, and a note says how many. A pixel that is NaN or infinite is magenta. Every pixel of
an image becomes a block of equal ones, and gaps are transparent: light and dark pages show the same
file.

Of whatever an evaluation and a run left:

    samples     data, short-run and long-run samples and the replay buffer, as grids of tiles
    by class    samples of p(x | y), one row per class
    neighbours  a sample above the training example nearest to it, with their distance; beside them
                the median of the same distance for test images, none of which is a copy
    training    negatives at iterations of the training, from grids.npz
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coldness.report.figures import Array, address_of
from coldness.runs.reader import Grids

# Tiles.


Pixels = NDArray[np.uint8]

NOT_FINITE = (255, 0, 255)
"""Magenta: neither grey images nor natural ones have much of it."""

BEYOND = 0.001
"""A fraction of pixels outside of [-1, 1] below this gets no note."""

SHARP = 200
"""Pictures are enlarged by a whole number until their longer side has at least this many pixels."""

GRID_PIXELS, GRID_TILES = 320, (3, 8)
"""Pixels of images along a side of a grid, and the least and most tiles along it."""


@dataclass(frozen=True)
class Tiles:
    """One picture of many images, in rows of tiles from the top left.

    Args:
        name: what they show.
        pixels: (height, width, 4), red, green, blue and opacity, not enlarged.
        note: text below them.
    """

    name: str
    pixels: Pixels
    note: str = ""

    @property
    def factor(self) -> int:
        return max(1, -(-SHARP // max(self.pixels.shape[:2])))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the file."""
        return self.pixels.shape[1] * self.factor, self.pixels.shape[0] * self.factor

    @cached_property
    def address(self) -> str:
        """As a data address, enlarged."""
        enlarged = self.pixels.repeat(self.factor, 0).repeat(self.factor, 1)
        file = io.BytesIO()
        Image.fromarray(enlarged).save(file, "png", optimize=True)
        return address_of(file)


def tiles(name: str, x: Array | Pixels, columns: int) -> Tiles:
    """Images x (n, C, H, W) in rows of `columns` tiles; the last row may be short.

    Floats are values in [-1, 1], bytes are colours. With three channels or more the first three are
    red, green and blue, else the first is grey.
    """
    shown = colours(x)
    n, height, width, _ = shown.shape
    columns = min(columns, n)
    gap = gap_of(height, width)
    rows = -(-n // columns)
    whole = np.zeros((rows * (height + gap) - gap, columns * (width + gap) - gap, 4), np.uint8)
    for k, image in enumerate(shown):
        top, left = k // columns * (height + gap), k % columns * (width + gap)
        whole[top : top + height, left : left + width, :3] = image
        whole[top : top + height, left : left + width, 3] = 255
    return Tiles(name, whole, note_on(x))


def square(name: str, x: Array | Pixels, most: int = GRID_TILES[1]) -> Tiles:
    """The first of x (n, C, H, W), in as many columns as rows."""
    side = side_of(x, most)
    return tiles(name, x[: side**2], side)


def side_of(x: Array | Pixels, most: int = GRID_TILES[1]) -> int:
    """Tiles along a side: fewer for large images, and no more than there are images for."""
    fits = GRID_PIXELS // max(x.shape[2:])
    return max(1, min(max(fits, GRID_TILES[0]), most, math.isqrt(len(x))))


def gap_of(height: int, width: int) -> int:
    """Pixels between tiles."""
    return 1 if max(height, width) < 16 else 2


def colours(x: Array | Pixels) -> Pixels:
    """Images (n, C, H, W) as colours (n, H, W, 3)."""
    x = x[:, :3] if x.shape[1] >= 3 else x[:, :1].repeat(3, 1)
    x = x.transpose(0, 2, 3, 1)
    if x.dtype == np.uint8:
        return x.astype(np.uint8)
    finite = np.isfinite(x)
    shown = np.round(127.5 * (np.clip(np.where(finite, x, 0), -1, 1) + 1)).astype(np.uint8)
    shown[~finite.all(-1)] = NOT_FINITE
    return shown


def note_on(x: Array | Pixels) -> str:
    """On values of x that cannot be shown as they are."""
    if x.dtype == np.uint8:
        return ""
    lost = int((~np.isfinite(x).reshape(len(x), -1).all(1)).sum())
    beyond = float((np.abs(x) > 1).mean())  # False for NaN
    notes = [f"{lost} of {len(x)} images have NaN or infinite pixels (magenta)"] if lost else []
    notes += [f"{beyond:.1%} of pixels clipped"] if beyond >= BEYOND else []
    return ", ".join(notes)


# What a page shows of a run.


SAMPLES = {
    "x_data": "Data",
    "x_short": "Short-run samples",
    "x_long": "Long-run samples",
    "x_bank": "Replay buffer",
    "x_from_data": "Chains from data",
}
"""Chains from data are shown where there is no replay buffer: four pictures fit a row."""

ROW = 10
"""Most examples per class, and most pairs of neighbours."""

CLASSES = 20
"""Most classes that are shown."""

MOMENTS, SMALL = 8, 4
"""Most iterations that are shown, and most tiles along a side of their grids."""


@dataclass(frozen=True)
class Neighbours:
    """Pairs, each with its distance; `median` is the same of test images, if known."""

    pairs: Sequence[tuple[Tiles, float]]
    median: float | None


@dataclass(frozen=True)
class ImagePictures:
    """All that a page shows; a kind without pictures is empty."""

    samples: Sequence[Tiles]
    by_class: Sequence[Tiles]
    classes: int
    neighbours: Neighbours | None
    moments: Sequence[Tiles]


def pictures(
    arrays: Mapping[str, Array], grids: Grids | None, names: Sequence[str] = ()
) -> ImagePictures:
    """Of one run.

    Args:
        arrays: of its evaluation.
        grids: of its training, if there are any.
        names: of classes; a class without a name, or whose name is a number, is shown as
            `class 3`.
    """
    there = [key for key in SAMPLES if len(arrays.get(key, ()))]
    if "x_bank" in there and "x_from_data" in there:
        there.remove("x_from_data")
    classes, rows = _by_class(arrays, names)
    return ImagePictures(
        [square(SAMPLES[key], arrays[key]) for key in there],
        rows,
        classes,
        _neighbours(arrays),
        [] if grids is None else _during_training(grids),
    )


def _by_class(arrays: Mapping[str, Array], names: Sequence[str]) -> tuple[int, list[Tiles]]:
    """The number of classes, and rows of the first of them."""
    if not {"x_class", "x_class_labels"} <= set(arrays):
        return 0, []
    x, labels = arrays["x_class"], arrays["x_class_labels"]
    found = [int(k) for k in np.unique(labels)]
    rows = [tiles(_class_name(k, names), x[labels == k][:ROW], ROW) for k in found[:CLASSES]]
    return len(found), rows


def _class_name(k: int, names: Sequence[str]) -> str:
    name = names[k] if k < len(names) else str(k)
    return f"class {name}" if name.isdecimal() else name


def _neighbours(arrays: Mapping[str, Array]) -> Neighbours | None:
    if not {"x_short", "x_nearest", "nearest_distance"} <= set(arrays):
        return None
    triples = zip(arrays["x_short"], arrays["x_nearest"], arrays["nearest_distance"], strict=False)
    pairs = [
        (tiles(f"sample {k}, nearest training example below it", np.stack([x, y]), 1), float(d))
        for k, (x, y, d) in enumerate(list(triples)[:ROW], 1)
    ]
    of_test = arrays.get("nearest_distance_test", np.zeros(0))
    return Neighbours(pairs, float(np.median(of_test)) if len(of_test) else None)


def _during_training(grids: Grids) -> list[Tiles]:
    count = len(grids.iterations)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOMENTS)).round().astype(int))
    return [
        square(f"iteration {grids.iterations[k]:,}", grids.x[k], SMALL) for k in chosen.tolist()
    ]
