"""Scores of rows, for the terminal and for CSV files: shared by `score` and `detect`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from coldness.cli.console import output
from coldness.data.table_files import Sheet
from coldness.files import write_atomically
from coldness.runs.folder import FolderError


@dataclass(frozen=True)
class Scored:
    """Scores of rows.

    Args:
        name: what the score is: log_p or minus_u.
        scores: (N,), higher for usual rows.
        percentile: of held-out rows with a lower score, (N,); None if it is not known.
        why: one text per row; may be empty.
        outlier: whether each row is one; None if no threshold is known.
        sheet: the rows themselves, to be written beside their scores; None for none.
    """

    name: str
    scores: NDArray[np.float64]
    percentile: NDArray[np.float64] | None = None
    why: Sequence[str] = field(default=())
    outlier: NDArray[np.bool_] | None = None
    sheet: Sheet | None = None


def check_out(name: str | None, overwrite: bool) -> Path | None:
    """The file to write, if it may be written."""
    if name is None:
        return None
    out = Path(name)
    if out.suffix != ".csv" or out.is_dir():
        raise FolderError(f"--out must name a file that ends in .csv, got {out}")
    if out.exists() and not overwrite:
        raise FolderError(f"{out} exists: --overwrite replaces it")
    if not out.parent.is_dir():
        raise FolderError(f"there is no folder {out.parent} to write {out.name} to")
    return out


def print_unusual(scored: Scored, count: int) -> None:
    """The rows with the lowest scores, as a table."""
    columns = ["row", scored.name.replace("_", " ")]
    columns += ["percentile"] if scored.percentile is not None else []
    columns += ["why"] if scored.why else []
    table = Table(*columns, title="most unusual rows, counted from 0", title_justify="left")
    for k in np.argsort(scored.scores, kind="stable")[:count]:
        cells = [str(k), f"{scored.scores[k]:.4g}"]
        cells += [f"{scored.percentile[k]:.3g}"] if scored.percentile is not None else []
        cells += [escape(scored.why[k])] if scored.why else []
        table.add_row(*cells)
    output.print(table)


def write_scores(out: Path, scored: Scored) -> None:
    """One line per row: its columns where they are known, then its scores."""
    text = io.StringIO()
    writer = csv.writer(text)
    sheet = scored.sheet
    head = [] if sheet is None else list(sheet.names)
    for name, there in (
        (scored.name, True),
        ("percentile", scored.percentile is not None),
        ("outlier", scored.outlier is not None),
        ("why", bool(scored.why)),
    ):
        head += [name] if there else []
    writer.writerow(head)
    for k in range(len(scored.scores)):
        cells: list[Any] = [] if sheet is None else _cells(sheet, k)
        cells.append(repr(float(scored.scores[k])))
        cells += [] if scored.percentile is None else [f"{scored.percentile[k]:.4g}"]
        cells += [] if scored.outlier is None else [int(scored.outlier[k])]
        cells += [scored.why[k]] if scored.why else []
        writer.writerow(cells)
    write_atomically(out, lambda file: file.write(text.getvalue().encode()))
    output.print(f"scores: {out}", markup=False)


def _cells(sheet: Sheet, k: int) -> list[Any]:
    """A row as it was in its file."""
    cells: list[Any] = []
    for value, names in zip(sheet.values[k].tolist(), sheet.categories, strict=True):
        if value != value:
            cells.append("")
        elif names:
            cells.append(names[int(value)])
        else:
            cells.append(int(value) if float(value).is_integer() and abs(value) < 2**53 else value)
    return cells
