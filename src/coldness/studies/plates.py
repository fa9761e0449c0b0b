"""Plates of a study: the figure of a paper, with results of the runs of a block.

Columns are the true density and, for every level of one axis, the model's density p beside that of
its short-run samples. Rows are density and log density, once for every combination of the other
axes' levels: a strip. If a run diverged or is missing, its place says so.

In more than two dimensions, where densities are known on a slice, a level has one column, and there
are twice as many rows: samples in the first two dimensions, and below them the model on the slice.
Images are tiles: data in the first column, and for every level short-run above long-run samples.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Fig. 2.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Fig. 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from coldness.report.densities import Densities, Ends, Panel
from coldness.report.figures import Array
from coldness.report.images import Tiles, side_of, square
from coldness.runs.reader import is_evaluated, read_evaluation
from coldness.studies.claims import Record
from coldness.studies.study import Block
from coldness.trust.answers import number

COLUMN_AXIS = "beta"
"""The column axis if a block varies it; otherwise the last axis that the block varies."""

MODEL, SAMPLES, SLICE = "p", "short-run samples", "slice"

SCALES = ("density", "log density")

IMAGE_ROWS = {"x_short": "short-run", "x_long": "long-run"}
"""Labels of the rows of a plate of images, by array."""

TILES = 4
"""Most images along a side of a tile."""


@dataclass(frozen=True)
class Place:
    """One run of a plate.

    Args:
        setting: its level of the column axis, as text.
        kl: of its model, in nats, as text; empty if it was not measured.
        panels: by the plate's kinds; empty if there is nothing to show.
        why: the reason that there is nothing to show.
        bracket: bounds of its KL where this is an estimate, as text.
    """

    setting: str
    kl: str
    panels: dict[str, Panel | Tiles]
    why: str = ""
    bracket: str = ""


@dataclass(frozen=True)
class Strip:
    """Runs along the column axis at one combination of the other axes' levels.

    `truth` and `ends` are those of every row's panels, by the first of its kinds; both are empty
    where there is no run to take them from. Images have no colour scale, and so no ends.
    """

    setting: str
    truth: dict[str, Panel | Tiles]
    ends: dict[str, Ends]
    places: tuple[Place, ...]


@dataclass(frozen=True)
class PlateRow:
    """One row of panels: `kinds` beside each other for every run, on one `scale`."""

    label: str
    kinds: tuple[str, ...]
    scale: str

    @property
    def of(self) -> str:
        """Key of the truth and the ends of this row."""
        return self.kinds[0]


@dataclass(frozen=True)
class Plate:
    """The figure of a block; `rows` are those of each strip, `box` is that of the data.

    `truth` is what the first column shows: the truth, or data where its density is not known.
    `heads` are above the columns of a run. `by_kernels` is how densities of samples are estimated.
    """

    seed: int
    box: float
    dimension: int
    by_kernels: bool
    truth: str
    heads: tuple[str, ...]
    rows: tuple[PlateRow, ...]
    strips: tuple[Strip, ...]
    is_images: bool

    @property
    def sliced(self) -> bool:
        return any(row.of == SLICE for row in self.rows)


def column_axis(block: Block) -> str | None:
    """The axis that runs along the columns; None for a block of a single setting."""
    varied = [axis for axis, levels in block.axes.items() if len(levels) > 1] or list(block.axes)
    if COLUMN_AXIS in varied:
        return COLUMN_AXIS
    return varied[-1] if varied else None


def strip_levels(block: Block) -> list[dict[str, Any]]:
    """All combinations of levels of the other axes; a single empty one where there are none."""
    others = {axis: levels for axis, levels in block.axes.items() if axis != column_axis(block)}
    return [dict(zip(others, choice, strict=True)) for choice in product(*others.values())]


def column_levels(block: Block) -> list[dict[str, Any]]:
    """Levels of the column axis; a single empty one where there is none."""
    axis = column_axis(block)
    return [{}] if axis is None else [{axis: level} for level in block.axes[axis]]


def at(rows: Sequence[Record], levels: Mapping[str, Any]) -> list[Record]:
    """Records of runs at the levels named."""
    return [row for row in rows if all(row.get(k) == level for k, level in levels.items())]


def words(levels: Mapping[str, Any]) -> str:
    """Levels as text, such as "beta = 0.1, variant = default"."""
    return ", ".join(f"{axis} = {level}" for axis, level in levels.items())


def lay_out(block: Block, rows: Sequence[Record], runs: Path) -> Plate | None:
    """The plate of a block for the smallest seed there is.

    Args:
        block: of the study.
        rows: of finished runs of all blocks.
        runs: the folder of run folders.

    Returns:
        None where no run has densities in the plane or images to show.

    Raises:
        BadFile: an evaluation is broken.
    """
    rows = at(rows, {"block": block.name})
    seed = min((row["seed"] for row in rows), default=0)
    rows = at(rows, {"seed": seed})
    read = {row["run"]: _read(runs / str(row["run"])) for row in rows}
    there = [densities for densities in read.values() if densities is not None]
    if not there or there[0].evaluation.is_line:
        return None
    first, is_images = there[0], there[0].evaluation.is_images
    heads, truth, rows_of_plate = _layout(there)
    if not rows_of_plate:
        return None
    strips = [_strip(block, levels, rows, read, rows_of_plate) for levels in strip_levels(block)]
    return Plate(
        seed,
        first.box,
        first.dimension,
        not is_images and all(densities.by_kernels for densities in there),
        truth,
        heads,
        rows_of_plate,
        tuple(strips),
        is_images,
    )


def _layout(there: Sequence[Densities]) -> tuple[tuple[str, ...], str, tuple[PlateRow, ...]]:
    """Heads of a run's columns, that of the first column, and rows."""
    if there[0].evaluation.is_images:
        found = {key for densities in there for key in densities.arrays}
        labels = {key: label for key, label in IMAGE_ROWS.items() if key in found}
        rows = [PlateRow(label, (key,), "image") for key, label in labels.items()]
        return ("samples",), "data", tuple(rows)
    if any(densities.has_slices for densities in there):
        labels = {SAMPLES: "samples", SLICE: "slice"}
        rows = [
            PlateRow(label if scale == "density" else f"{label}, log", (kind,), scale)
            for scale in SCALES
            for kind, label in labels.items()
        ]
        return ("model",), "truth", tuple(rows)
    known = any(densities.model is not None for densities in there)
    kinds = (MODEL, SAMPLES) if known else (SAMPLES,)
    rows = [PlateRow(scale, kinds, scale) for scale in SCALES]
    return kinds, there[0].truth.name.lower(), tuple(rows)


def _read(folder: Path) -> Densities | None:
    return Densities(read_evaluation(folder)) if is_evaluated(folder) else None


def _strip(
    block: Block,
    levels: Mapping[str, Any],
    rows: Sequence[Record],
    read: Mapping[str, Densities | None],
    rows_of_plate: Sequence[PlateRow],
) -> Strip:
    rows = at(rows, levels)
    there = [x for row in rows if (x := read[row["run"]]) is not None]
    wanted = list(dict.fromkeys(row.of for row in rows_of_plate))
    truth: dict[str, Panel | Tiles] = {}
    ends: dict[str, Ends] = {}
    if there and there[0].evaluation.is_images:
        truth |= _data_tiles(there[0].arrays["x_data"], wanted)
        wanted = []
    for of in wanted:
        first = next((x for x in there if of != SLICE or x.has_slices), None)
        if first is not None:
            truth[of] = first.slice_truth if of == SLICE else first.truth
            ends[of] = first.slice_ends if of == SLICE else first.ends
    places = [_place(column, at(rows, column), read) for column in column_levels(block)]
    return Strip(words(levels), truth, ends, tuple(places))


def _place(
    levels: Mapping[str, Any], rows: Sequence[Record], read: Mapping[str, Densities | None]
) -> Place:
    setting = words(levels)
    if not rows:
        return Place(setting, "", {}, "not run")
    row, densities = rows[0], read[rows[0]["run"]]
    kl = "" if row.get("kl") is None else number(row["kl"])
    if row["diverged_at"] is not None:
        return Place(setting, kl, {}, f"diverged at iteration {row['diverged_at']:,}")
    if densities is None:
        return Place(setting, kl, {}, "not evaluated")
    if densities.evaluation.is_images:
        return Place(setting, kl, {**_sample_tiles(densities.arrays)})
    panels: dict[str, Panel | Tiles] = {SAMPLES: densities.short}
    if densities.model is not None:
        panels[MODEL] = densities.model
    if densities.has_slices:
        panels[SLICE] = densities.slice_model
    ends = bracket(row)
    return Place(setting, kl, panels, bracket=" to ".join(map(number, ends)))


def _data_tiles(x_data: Array, rows: Iterable[str]) -> dict[str, Tiles]:
    """Examples of data beside every row of images: other ones in each, where there are enough."""
    count = side_of(x_data, TILES) ** 2
    starts = [k * count if len(x_data) >= (k + 1) * count else 0 for k in range(len(IMAGE_ROWS))]
    return {
        key: square("data", x_data[start:], TILES) for key, start in zip(rows, starts, strict=False)
    }


def _sample_tiles(arrays: Mapping[str, Array]) -> dict[str, Tiles]:
    """Samples of one run, by row."""
    return {
        key: square(label, arrays[key], TILES) for key, label in IMAGE_ROWS.items() if key in arrays
    }


def bracket(row: Record) -> tuple[float, float] | tuple[()]:
    """Bounds of a run's KL; none where it has none, or where KL is an integral on a grid."""
    low, high = row.get("kl_low"), row.get("kl_high")
    if row.get("tv") is not None or low is None or high is None:
        return ()
    return low, high
