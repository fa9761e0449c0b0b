"""Pictures of an image run: samples beside data, by class, over training, and nearest neighbours.

Of whatever an evaluation and a run left:

    samples     data, short-run, long-run samples and the bank, as grids of tiles
    by class    samples of p(x | y), a row a class
    neighbours  a sample above the training example nearest to it, with their distance; beside them
                the median of the same distance for test images, which nobody copied
    training    negatives at iterations of the training, from grids.npz
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coldness.report.figures import Array
from coldness.report.tiles import Pixels, Tiles, square, tiles

SAMPLES = {
    "x_data": "Data",
    "x_short": "Short-run samples",
    "x_long": "Long-run samples",
    "x_bank": "Bank",
    "x_from_data": "Chains from data",
}
"""Chains from data are shown where there is no bank: four pictures fit a row."""

ROW = 10
"""Examples of a class, and pairs of neighbours, at most."""

CLASSES = 20
"""Rows at most."""

MOMENTS, SMALL = 8, 4
"""Iterations that are shown at most, and the most tiles of their grids a side."""


@dataclass(frozen=True)
class Neighbours:
    """Pairs, each with the distance of its two; `median` is that of test images, if known."""

    pairs: Sequence[tuple[Tiles, float]]
    median: float | None


@dataclass(frozen=True)
class Moments:
    """Grids of negatives x (T, n, C, H, W) at iterations (T,)."""

    iterations: Sequence[int]
    x: Pixels


@dataclass(frozen=True)
class ImagePictures:
    """All that a page shows; what there is nothing for is empty."""

    samples: Sequence[Tiles]
    by_class: Sequence[Tiles]
    classes: int
    neighbours: Neighbours | None
    moments: Sequence[Tiles]


def pictures(
    arrays: Mapping[str, Array], moments: Moments | None, names: Sequence[str] = ()
) -> ImagePictures:
    """Of one run.

    Args:
        arrays: of its evaluation.
        moments: of its training, if there are any.
        names: of classes; they are numbers where there is none.
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
        [] if moments is None else _over_training(moments),
    )


def _by_class(arrays: Mapping[str, Array], names: Sequence[str]) -> tuple[int, list[Tiles]]:
    """How many classes there are, and rows of the first of them."""
    if not {"x_class", "x_class_labels"} <= set(arrays):
        return 0, []
    x, labels = arrays["x_class"], arrays["x_class_labels"]
    found = [int(k) for k in np.unique(labels)]
    rows = [
        tiles(names[k] if k < len(names) else f"class {k}", x[labels == k][:ROW], ROW)
        for k in found[:CLASSES]
    ]
    return len(found), rows


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


def _over_training(moments: Moments) -> list[Tiles]:
    count = len(moments.iterations)
    chosen = np.unique(np.linspace(0, count - 1, min(count, MOMENTS)).round().astype(int))
    return [
        square(f"iteration {moments.iterations[k]:,}", moments.x[k], SMALL) for k in chosen.tolist()
    ]


def read_moments(folder: Path) -> Moments | None:
    """From grids.npz of a run; None where it has none. Nothing in it is run.

    Raises:
        OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile: it is broken.
    """
    path = folder / "grids.npz"
    if not path.is_file():
        return None
    if not zipfile.is_zipfile(path):
        raise ValueError("no npz file")
    with np.load(path, allow_pickle=False) as file:
        iterations, x = file["iterations"], file["x"]
    if x.dtype != np.uint8 or x.ndim != 5 or iterations.shape != x.shape[:1] or 0 in x.shape[1:]:
        raise ValueError("x is not (T, n, C, H, W) of bytes, with iterations (T,)")
    return Moments([int(k) for k in iterations], x) if len(x) else None
