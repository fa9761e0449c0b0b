"""Plates of a study: the figure of a paper, laid out again from the runs of a block.

Columns are the truth and, for every level of one axis, the model's density p beside that of its
short-run samples, SGLD(p). Rows are density and log density, once for every combination of the
other axes' levels: a strip. Where a run diverged or is missing, its place says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from coldness.report.page import BROKEN
from coldness.report.panels import Densities, Ends, Panel, read_densities
from coldness.report.verdict import number
from coldness.studies.claims import Row
from coldness.studies.study import Block
from coldness.training.checkpoint import BadFile

COLUMN_AXIS = "beta"
"""Runs along the columns where a block varies it; else the last that it varies does."""

MODEL, SAMPLES = "p", "SGLD(p)"


@dataclass(frozen=True)
class Place:
    """One run of a plate.

    Args:
        setting: its level of the column axis, as text.
        kl: of its model, as text; empty where it was not measured.
        panels: by the kinds of the plate; empty where there is nothing to show.
        why: there is nothing to show.
    """

    setting: str
    kl: str
    panels: dict[str, Panel]
    why: str = ""


@dataclass(frozen=True)
class Strip:
    """Runs along the column axis at one combination of the other axes' levels."""

    setting: str
    truth: Panel | None
    ends: Ends
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Plate:
    """The figure of a block; `kinds` are the pictures of a run, `box` is that of the data.

    `truth` is what the first column shows: the truth, or data where its law is not known.
    """

    seed: int
    box: float
    dimension: int
    truth: str
    kinds: tuple[str, ...]
    strips: tuple[Strip, ...]


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


def at(rows: Sequence[Row], levels: Mapping[str, Any]) -> list[Row]:
    """Rows at the levels named."""
    return [row for row in rows if all(row.get(k) == level for k, level in levels.items())]


def words(levels: Mapping[str, Any]) -> str:
    """Levels as text, such as "beta = 0.1, variant = default"."""
    return ", ".join(f"{axis} = {level}" for axis, level in levels.items())


def lay_out(block: Block, rows: Sequence[Row], runs: Path) -> Plate | None:
    """The plate of a block for the smallest seed there is.

    Args:
        block: of the study.
        rows: of finished runs of all blocks.
        runs: the folder of run folders.

    Returns:
        None where no run has anything to show in the plane.

    Raises:
        BadFile: an evaluation is broken.
    """
    rows = at(rows, {"block": block.name})
    seed = min((row["seed"] for row in rows), default=0)
    rows = at(rows, {"seed": seed})
    read = {row["run"]: _read(runs / str(row["run"])) for row in rows}
    there = [densities for densities in read.values() if densities is not None]
    if not there or there[0].dimension < 2:
        return None
    known = any(densities.model is not None for densities in there)
    kinds = (MODEL, SAMPLES) if known else (SAMPLES,)
    strips = [_strip(block, levels, rows, read) for levels in strip_levels(block)]
    first = there[0]
    return Plate(seed, first.box, first.dimension, first.truth.name.lower(), kinds, tuple(strips))


def _read(folder: Path) -> Densities | None:
    path = folder / "evaluation.npz"
    if not path.is_file():
        return None
    try:
        return read_densities(path)
    except BROKEN as error:
        raise BadFile(
            f"{path} is truncated or not of coldness; write it anew with `coldness evaluate "
            f"{folder}`"
        ) from error


def _strip(
    block: Block,
    levels: Mapping[str, Any],
    rows: Sequence[Row],
    read: Mapping[str, Densities | None],
) -> Strip:
    rows = at(rows, levels)
    first = next((x for row in rows if (x := read[row["run"]]) is not None), None)
    truth, ends = (None, {}) if first is None else (first.truth, first.ends)
    places = [_place(column, at(rows, column), read) for column in column_levels(block)]
    return Strip(words(levels), truth, ends, tuple(places))


def _place(
    levels: Mapping[str, Any], rows: Sequence[Row], read: Mapping[str, Densities | None]
) -> Place:
    setting = words(levels)
    if not rows:
        return Place(setting, "", {}, "not run")
    row, densities = rows[0], read[rows[0]["run"]]
    kl = "" if row["kl"] is None else number(row["kl"])
    if row["diverged_at"] is not None:
        return Place(setting, kl, {}, f"diverged at {row['diverged_at']}")
    if densities is None:
        return Place(setting, kl, {}, "no evaluation")
    panels = {SAMPLES: densities.short}
    if densities.model is not None:
        panels[MODEL] = densities.model
    return Place(setting, kl, panels)
