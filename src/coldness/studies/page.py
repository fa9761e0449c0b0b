"""The report of a study: what a paper reports, claims that test it, and results of the runs.

Claims come first, then for every block the paper's figure with results of the runs, curves, means
over seeds, checks that need no training run, and the command. Like the report of runs, the page is
self-contained, has no script, and escapes all text from files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from coldness.files import BadFile, write_atomically
from coldness.metrics import STUDY_PAGE, metric
from coldness.report import figures
from coldness.report.densities import Panel
from coldness.report.figures import Array
from coldness.report.images import Tiles
from coldness.report.page import environment
from coldness.studies import study_curves
from coldness.studies.claims import Outcome, Record
from coldness.studies.loose import TEXT, is_loose
from coldness.studies.plates import (
    Place,
    Plate,
    PlateRow,
    Strip,
    at,
    bracket,
    column_levels,
    lay_out,
    strip_levels,
)
from coldness.studies.study import Block, Study
from coldness.trust.answers import number

TILE_POINTS = 160
"""Most pixels along a side of a tile: it is shown at 100 to 150 pixels."""


BADGES = {
    True: ("yes", "holds"),
    False: ("no", "does not hold"),
    None: ("not measured", "not measured"),
}


def write_study_report(
    study: Study,
    rows: Sequence[Record],
    outcomes: Sequence[Outcome],
    numbers: Sequence[Mapping[str, Any]],
    runs: Path,
    out: Path,
    command: str,
    compared: Sequence[Record] = (),
) -> Path:
    """Writes the report on a study, finished or not, to the file `out`.

    Args:
        study: the grid and its claims.
        rows: of finished runs.
        outcomes: of the study's claims.
        numbers: checks that need no run: claim, equation, expected, measured, holds.
        runs: the folder of run folders.
        out: file to write.
        command: command line that made the study.
        compared: a table of every run, where the study has one.

    Raises:
        BadFile: an evaluation is broken, or `out` is a folder.
    """
    if out.is_dir():
        raise BadFile(f"{out} is a folder; name a file, such as {out / 'report.html'}")
    templates = environment()
    templates.filters["shown"] = shown
    page = templates.get_template("study.html.j2").render(
        study=study,
        command=command,
        claims=[(*BADGES[outcome.holds], outcome) for outcome in outcomes],
        summary=summarise(rows, outcomes),
        blocks=[_block(block, rows, runs) for block in study.blocks],
        numbers=[(*BADGES[row["holds"]], row) for row in numbers],
        compared=compared,
        colour_scale=figures.colour_scale(),
        light=figures.LIGHT.runs,
        dark=figures.DARK.runs,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda file: file.write(page.encode()))
    return out


def summarise(rows: Sequence[Record], outcomes: Sequence[Outcome]) -> str:
    """How many claims hold, and on how many runs."""
    counts = Counter(outcome.holds for outcome in outcomes)
    parts = []
    if outcomes:
        parts.append(f"{counts[True]} of {len(outcomes)} claims hold")
    if counts[None]:
        parts.append(f"{counts[None]} not measured")
    if rows:
        seeds = len({row["seed"] for row in rows})
        parts.append(f"{_many(len(rows), 'run')} with {_many(seeds, 'seed')}")
    diverged = sum(row["diverged_at"] is not None for row in rows)
    if diverged:
        parts.append(f"{diverged} of them diverged")
    return ", ".join(parts)


def shown(value: Any) -> str:
    """A value of a table as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    return number(value, 4)


def _many(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _block(block: Block, rows: Sequence[Record], runs: Path) -> dict[str, Any]:
    plate = lay_out(block, rows, runs)
    of_block = at(rows, {"block": block.name})
    columns = [name for name in STUDY_PAGE if any(row.get(name) is not None for row in of_block)]
    return {
        "name": block.name,
        "recipe": block.recipe,
        "axes": list(block.axes),
        "plate": None if plate is None else _plate(plate),
        "legend": study_curves.legend(block),
        "curves": _curves(block, rows),
        "columns": [metric(name).short_title for name in columns],
        "table": _table(block, of_block, columns),
    }


def _curves(block: Block, rows: Sequence[Record]) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of each."""
    if not study_curves.is_drawn(block) or not at(rows, {"block": block.name}):
        return []
    lines = study_curves.lines(block, rows)
    return [
        (c.title, c.caption, c.render(lines, figures.LIGHT), c.render(lines, figures.DARK))
        for c in study_curves.curves(block, lines)
    ]


# Plates.


def _plate(plate: Plate) -> dict[str, Any]:
    return {
        "plate": plate,
        "tiles": 1 + len(plate.heads) * len(plate.strips[0].places),
        "strips": [_strip(strip, plate.rows) for strip in plate.strips],
    }


def _strip(strip: Strip, rows: Sequence[PlateRow]) -> dict[str, Any]:
    there = [row for row in rows if row.of in strip.truth]

    def picture(panel: Panel | Tiles, row: PlateRow) -> str:
        if isinstance(panel, Tiles):
            return panel.address
        return figures.panel(_thin(panel.values(row.scale)), *strip.ends[row.of][row.scale])

    def pictures(place: Place) -> dict[str, dict[str, str]]:
        """By row and kind."""
        return {
            row.label: {k: picture(place.panels[k], row) for k in row.kinds if k in place.panels}
            for row in there
            if place.panels
        }

    return {
        "setting": strip.setting,
        "ends": {row.label: strip.ends[row.of][row.scale] for row in there if row.of in strip.ends},
        "truth": {row.label: picture(strip.truth[row.of], row) for row in there},
        "places": [(place, pictures(place)) for place in strip.places],
    }


def _thin(values: Array) -> Array:
    stride = -(-len(values) // TILE_POINTS)
    return values[::stride, ::stride]


# Means over seeds.


def _table(block: Block, rows: Sequence[Record], columns: Sequence[str]) -> list[dict[str, Any]]:
    """One line per combination of levels."""
    lines = []
    for others in strip_levels(block):
        for column in column_levels(block):
            levels = others | column
            chosen = at(rows, levels)
            lines.append(
                {
                    "levels": [levels[axis] for axis in block.axes],
                    "means": [_cell(chosen, name) for name in columns],
                    "seeds": len(chosen),
                    "diverged": sum(row["diverged_at"] is not None for row in chosen),
                }
            )
    return lines


def _cell(rows: Sequence[Record], name: str) -> tuple[str, list[str]]:
    """A mean, and the lines below it: the range over seeds, the bounds of KL, and if loose."""
    mean, spread = _mean([row.get(name) for row in rows])
    brackets = [ends for row in rows if name == "kl" and (ends := bracket(row))]
    between = ""
    if mean and len(brackets) == len(rows):
        low, high = (number(fmean(ends)) for ends in zip(*brackets, strict=True))
        between = f"between {low} and {high}"
    loose = f"{TEXT}: not compared" if any(is_loose(row, name) for row in rows) else ""
    return mean, [text for text in (spread, between, loose) if text]


def _mean(values: Sequence[float | None]) -> tuple[str, str]:
    """The mean where every run has the metric, and the smallest and largest where they differ."""
    there = [value for value in values if value is not None]
    if not there:
        return "", ""
    low, high = number(min(there)), number(max(there))
    mean = number(fmean(there)) if len(there) == len(values) else ""
    return mean, f"({low} to {high})" if low != high else ""
