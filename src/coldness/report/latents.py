"""Pictures of models with latents: cosines, samples like an image, samples of attributes.

    cosines      between different held-out images, of the energy's features f, the model's
                 direction v and the encoder h, on one axis (Fig. 6)
    like         an image, set apart, and samples like it, one row per image (Fig. 3a)
    attributes   a table: rows are what was asked for, columns are attributes, cells the fraction of
                 samples that show them (Fig. 4b); and samples of some of these rows

Of long tables, equally many rows of one attribute, of a negated one, of two and of three are shown.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), sections 4.3,
    4.4, appendix E.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from coldness.report import confusion
from coldness.report.figures import Array, Columns, Curve, Theme
from coldness.report.images import ROW, Tiles, tiles

COSINES = {
    "cosines_f": "energy's features f",
    "cosines_v": "model's direction v",
    "cosines_h": "encoder h",
}
BINS = 50

TABLE_ROWS, TILE_ROWS = 48, 12
"""Most rows of the table, and most rows of samples of attributes."""

RULE = (128, 128, 128, 255)
"""Colour of the line between an image and samples like it: visible on light and dark pages."""


@dataclass(frozen=True)
class Cell:
    """The fraction of samples that show an attribute, and whether it was asked for (1, -1, 0)."""

    fraction: float
    asked: int


@dataclass(frozen=True)
class Table:
    """Attributes that were asked for, and those that samples show.

    Args:
        columns: names of attributes.
        rows: what was asked for, in words, with a cell for every attribute.
        total: number of rows, of which not all may be shown.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    total: int


@dataclass(frozen=True)
class LatentPictures:
    """All that a page shows; a kind without pictures is empty."""

    curves: Sequence[Curve]
    like: Sequence[Tiles]
    table: Table | None
    samples: Sequence[Tiles]


def pictures(
    arrays: Mapping[str, Array],
    metrics: Mapping[str, float],
    classes: Sequence[str],
    attributes: Sequence[str],
) -> LatentPictures | None:
    """Of one image run; None where its evaluation has none of the arrays.

    Args:
        arrays: of its evaluation.
        metrics: of the same, for captions.
        classes: names of classes; those without one are shown by their numbers.
        attributes: names of attributes; likewise.
    """
    table, samples = _attributes(arrays, attributes)
    drawn = [*_cosines(arrays, metrics), *confusion.curves(arrays, metrics, classes)]
    found = LatentPictures(drawn, _like(arrays), table, samples)
    return found if found.curves or found.like or found.table else None


# Cosines.


def _cosines(arrays: Mapping[str, Array], metrics: Mapping[str, float]) -> list[Curve]:
    there = {key: arrays[key] for key in COSINES if np.isfinite(arrays.get(key, np.nan)).any()}
    if not there:
        return []
    caption = (
        "Cosines between different held-out images, of three vectors of each. Around 0, images "
        "point in directions of their own; near 1, all point the same way. Features of the energy "
        "usually use few directions, since their length carries the density; the projector between "
        "f and v makes up for that. Where guidance works, v is distributed like h."
    )
    medians = [f"{key[-1]} {_two(float(np.nanmedian(x)))}" for key, x in there.items()]
    caption += f" Medians: {', '.join(medians)}."
    if "alignment" in metrics:
        caption += (
            " Alignment, the mean cosine between v and h of the same image: "
            f"{_two(metrics['alignment'])}."
        )
    return [Curve("Directions of different images", caption, _draw_cosines, aspect=0.8)]


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "\u2212")  # + 0.0: no minus zero


def _draw_cosines(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Histograms over [-1, 1], each with its highest bin at 1, so that narrow and wide compare."""
    (arrays,) = runs
    edges = np.linspace(-1, 1, BINS + 1)
    for (key, label), colour in zip(COSINES.items(), theme.runs, strict=False):
        values = arrays.get(key, np.zeros(0))
        values = np.clip(values[np.isfinite(values)], -1, 1)
        if not len(values):
            continue
        counts = np.histogram(values, edges)[0]
        heights = counts / counts.max()
        axes.stairs(heights, edges, fill=True, color=colour, alpha=0.22, linewidth=0)
        axes.stairs(heights, edges, color=colour, linewidth=1.3, label=label)
    axes.set_xlim(-1, 1)
    axes.set_ylim(0, 1.05)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_xlabel("cosine between two images")
    axes.set_ylabel("pairs (highest bin = 1)")
    axes.legend(
        frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1.0), handlelength=1.1,
        columnspacing=0.9, fontsize=8,
    )  # fmt: skip


# Samples like an image.


def _like(arrays: Mapping[str, Array]) -> list[Tiles]:
    if not {"x_instance", "x_like"} <= set(arrays):
        return []
    x, samples = arrays["x_instance"], arrays["x_like"]
    each = len(samples) // len(x)
    return [
        _beside(tiles("", image[None], 1), tiles(f"image {k + 1}", found[:ROW], ROW))
        for k, (image, found) in enumerate(zip(x, np.split(samples, len(x)), strict=True))
        if each
    ]


def _beside(first: Tiles, others: Tiles) -> Tiles:
    """One picture: the first, a wide gap with a line in its middle, and the others."""
    height, width, _ = first.pixels.shape
    half = max(2, width // 4)
    gap = np.zeros((height, 2 * half + 1, 4), np.uint8)
    gap[:, half] = RULE
    return Tiles(others.name, np.concatenate([first.pixels, gap, others.pixels], 1), others.note)


# Samples of attributes.


def _attributes(
    arrays: Mapping[str, Array], names: Sequence[str]
) -> tuple[Table | None, list[Tiles]]:
    if "attribute_table" not in arrays:
        return None, []
    asked, found = np.split(arrays["attribute_table"], 2, axis=1)
    count, size = asked.shape
    if len(names) != size:
        names = [f"attribute {k + 1}" for k in range(size)]
    words = [in_words(row, names) for row in asked]
    rows = [
        (words[k], [Cell(float(f), int(a)) for f, a in zip(found[k], asked[k], strict=True)])
        for k in spread(asked, TABLE_ROWS)
    ]
    x = arrays.get("x_attributes", np.zeros((0, 1, 1, 1)))
    samples = [
        tiles(words[k], np.split(x, count)[k][:ROW], ROW)
        for k in (spread(asked, TILE_ROWS) if len(x) else ())
    ]
    return Table(names, rows, count), samples


def in_words(asked: Array, names: Sequence[str]) -> str:
    """`red and circle`, `not large`, `small, red and circle`, of a row of 1, -1 and 0."""
    parts = [
        name if a > 0 else f"not {name}" for a, name in zip(asked, names, strict=True) if a != 0
    ]
    head, last = ", ".join(parts[:-1]), parts[-1] if parts else "nothing"
    return f"{head} and {last}" if head else last


def spread(asked: Array, most: int) -> list[int]:
    """At most so many rows, in their order, and equally many of every kind as far as there are.

    The kind of a row is how many attributes it asks for, and whether one of them is negated. Of a
    kind that has more, rows at equal distances are taken.
    """
    kinds: dict[tuple[int, bool], list[int]] = {}
    for k, row in enumerate(asked):
        kinds.setdefault((int((row != 0).sum()), bool((row < 0).any())), []).append(k)
    chosen: list[int] = []
    for place, rows in enumerate(sorted(kinds.values(), key=len)):
        count = min(len(rows), (most - len(chosen)) // (len(kinds) - place))
        chosen += [rows[int(k)] for k in np.linspace(0, len(rows) - 1, count).round()]
    return sorted(chosen)
