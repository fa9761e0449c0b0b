"""Metrics of a run: collected on the device, read back a block at a time, written as CSV.

TensorBoard events are written as an option.
"""

from __future__ import annotations

import csv
import io
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coldness.files import append, shorten, write_atomically

log = logging.getLogger("coldness")

Row = dict[str, float]

ATTEMPT = "attempt"
"""Column with the number of rollbacks so far; rows of all attempts stay in the file."""


class MetricsLog:
    """metrics.csv with one row per iteration, and the rows that are not written yet.

    Args:
        path: of the CSV file; None to keep the rows in memory instead.
        attempt: number of rollbacks so far of a resumed run.
        keep_until: rows of this attempt from this iteration on, and rows of later attempts, are
            dropped: they were written before an interruption.
        tensorboard: folder for TensorBoard events; None for no events.
    """

    def __init__(
        self,
        path: Path | None,
        keep_until: int = 0,
        tensorboard: Path | None = None,
        attempt: int = 0,
    ) -> None:
        self.path = path
        self._pending: list[tuple[int, dict[str, Tensor | float | None]]] = []
        self._columns: list[str] = []
        self._names: list[str] = []
        self._last: float | None = None
        self.rows: list[Row] = []
        self._writer = _tensorboard_writer(tensorboard, keep_until) if tensorboard else None
        if path is None:
            return
        if (keep_until or attempt) and path.is_file():
            self._truncate(path, attempt, keep_until)
        else:
            write_atomically(path, lambda file: None)
        if keep_until and self._last != keep_until - 1:
            log.warning("%s lacks iterations before %s, from which it goes on", path, keep_until)

    def add(self, iteration: int, metrics: Mapping[str, Tensor | float | None]) -> None:
        """Adds a row; nothing is read back from the device here.

        None stands for a metric that was not measured at this iteration: its cell stays empty.
        """
        self._pending.append((iteration, dict(metrics)))

    def drain(self) -> list[Row]:
        """The pending rows as numbers, with one transfer from the device.

        A row lacks what was not measured at its iteration.
        """
        if not self._pending:
            return []
        names = list(self._pending[0][1])
        flat = [metrics[name] for _, metrics in self._pending for name in names]
        on_device = [v for v in flat if isinstance(v, Tensor)]
        numbers = iter(torch.stack(on_device).cpu().double().tolist() if on_device else [])
        values = iter([next(numbers) if isinstance(v, Tensor) else v for v in flat])
        rows = []
        for iteration, _ in self._pending:
            row = {name: next(values) for name in names}
            measured = {name: float(value) for name, value in row.items() if value is not None}
            rows.append({"iteration": float(iteration), **measured})
        self._pending, self._names = [], ["iteration", *names]
        return rows

    def write(self, rows: list[Row]) -> None:
        """Appends rows to the file."""
        if self.path is None:
            self.rows += rows
            return
        if not rows:
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self._columns:
            self._columns = self._names
            writer.writerow(self._columns)
        for row in rows:
            writer.writerow([_cell(row, name) for name in self._columns])
        append(self.path, text.getvalue().encode())
        if self._writer is not None:
            for row in rows:
                for name in self._columns[1:]:
                    if name in row:
                        self._writer.add_scalar(name, row[name], int(row["iteration"]))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def columns(self) -> dict[str, list[float]]:
        """Columns of the iterations that led to the model, where rows are kept in memory.

        NaN stands for what was not measured.
        """
        rows: list[Row] = []
        for row in self.rows:
            while rows and rows[-1]["iteration"] >= row["iteration"]:
                rows.pop()
            rows.append(row)
        return {name: [row.get(name, math.nan) for row in rows] for name in self._names}

    def _truncate(self, path: Path, attempt: int, keep_until: int) -> None:
        """Cuts off rows that are written again, and what a killed process wrote of a row."""
        rows = path.read_bytes().splitlines(keepends=True)
        head = rows[0].decode(errors="replace").strip() if rows else ""
        self._columns = head.split(",") if head else []
        counted = ATTEMPT in self._columns
        place = self._columns.index(ATTEMPT) if counted else 0

        def is_kept(line: str) -> bool:
            if not line.endswith("\n") or line.count(",") != len(self._columns) - 1:
                return False
            if not counted or (of := _attempt(line, place)) == attempt:
                return _iteration(line) < keep_until
            return of < attempt

        kept = [row for row in rows[1:] if is_kept(row.decode(errors="replace"))]
        self._last = _iteration(kept[-1].decode(errors="replace")) if kept else None
        shorten(path, b"".join(rows[:1] + kept))


def _cell(row: Row, name: str) -> int | str:
    """Of the CSV file; empty for what was not measured."""
    if name not in row:
        return ""
    return int(row[name]) if name in ("iteration", ATTEMPT) else f"{row[name]:.7g}"


def _iteration(line: str) -> float:
    """The iteration of a row; a damaged one counts as none."""
    head, comma, _ = line.partition(",")
    return int(head) if comma and head.isdigit() else float("inf")


def _attempt(line: str, place: int) -> float:
    """The attempt of a row; a damaged one counts as none."""
    cell = line.split(",")[place].strip()
    return int(cell) if cell.isdigit() else float("inf")


def _tensorboard_writer(folder: Path, purge_step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ValueError(
            "tensorboard is not installed: pip install 'coldness[tensorboard]'"
        ) from error
    return SummaryWriter(str(folder), purge_step=purge_step or None)


def read_metrics(path: Path, abandoned: bool = False) -> dict[str, list[float]]:
    """Columns of metrics.csv, for the iterations that led to the model; NaN for empty cells.

    Args:
        path: of the file.
        abandoned: include iterations that the guard rolled back, in the order of their execution.
    """
    if not path.is_file():  # opening a pipe would wait for ever
        raise OSError(f"{path} is no file")
    with path.open(newline="") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        rows: list[list[float]] = []
        for cells in reader:
            row = [float(value or "nan") for _, value in zip(header, cells, strict=True)]
            while rows and not abandoned and rows[-1][0] >= row[0]:
                rows.pop()
            rows.append(row)
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}
