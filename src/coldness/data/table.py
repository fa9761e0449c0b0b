"""Tables as they come: numbers, integers, categories, missing values and far values, in any file.

Rows are split at random into training, validation and test parts, and every column is made fit for
a density by what the training part holds. Each thing that is done is one sentence of `notes`:

    constant columns               dropped
    columns that follow linearly   dropped (residual variance below 1e-9)
    from others
    integers                       uniform noise as wide as the smallest gap between two of them
                                   (dequantisation), so that their density is finite
    categories                     one column of zeros and ones each, or one column of codes where
                                   there are two or many, with uniform noise of width 1
    text that is never the same    dropped
    missing numbers                drawn from other rows of the same column
    values far from all others     compressed like a logarithm (table_units.py)
    repeated rows                  kept, and counted

log p is a density in the units of the table. With noise of width g on a column of integers, the
probability of an integer is about p g. The noise and the values drawn for missing numbers are there
in all three parts, but not where a model scores rows: there integers are scored as they are, in the
middle of their noise, and missing numbers by the median.

References:
    A note on the evaluation of generative models (Theis, van den Oord, Bethge, 2016), section 3.1,
    for uniform noise on integers.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coldness.data.base import Labelled
from coldness.data.point_checks import BadPoints
from coldness.data.points import COLLINEAR, MARGIN, ROUNDING, Validation, split
from coldness.data.table_files import Sheet, is_number, read_sheet, sheet_of
from coldness.data.table_units import TableUnits
from coldness.documents import counted
from coldness.domain import Domain

LEAST_ROWS = 5

VALIDATION = 0.1
"""Fraction of the training part that `validation="auto"` keeps: twice that of `Points`, because
training is stopped by it."""

SURVEYED = 20_000
"""Most rows that quantiles, gaps and linear relations are estimated from."""

VALUES_AT_ONCE = 2**20
"""Values of a block of rows; tables larger than memory allows are never held twice."""

ONE_HOT = 12
"""Most categories that become a column each."""

MOST_CLASSES = 50
"""Most values of a target for it to be classes."""

KNEE = 5.0
"""Robust standard deviations beyond which values of a column with far values are compressed."""

FAR = 50.0
"""A column has far values if one of them is this many robust standard deviations from the median.
The farthest of 5,000 log-normal values is 40 away."""

ROOM = 20.0
"""Columns without far values are compressed only beyond twice their farthest value, and beyond this
many standard deviations: never where data is, but a new value of 1e30 does no harm."""

NAMED = 6
"""Columns that a note names."""


class Table(Labelled):
    """A table from a file, or given as a frame or an array (`Table.of`).

    Args:
        path: file: .npy, .npz (X, and y as the target), .csv, .tsv, .txt or .parquet.
        target: name or position of the column that is the target: it is no part of the density,
            and its values are classes where there are few; None for none.
        held_out: fraction of the rows kept for testing, from 0 to below 1.
        split_seed: seed of the random split and of the noise.
        validation: fraction of the training part kept for the log-likelihood during training; 0 for
            none. `auto`: a tenth, at most 1,000 rows, and none if that is fewer than 20.
    Shapes: (N, C) in the file.
    """

    def __init__(
        self,
        path: str | None = None,
        target: str | None = None,
        held_out: float = 0.2,
        split_seed: int = 0,
        validation: Validation = "auto",
    ) -> None:
        if path is None:
            raise BadPoints("name a table: --data.path my.csv (in Python: data=frame or array)")
        self._make(read_sheet(path, target), path, held_out, split_seed, validation)

    @classmethod
    def of(
        cls,
        given: Any,
        labels: Any = None,
        held_out: float = 0.2,
        split_seed: int = 0,
        validation: Validation = "auto",
    ) -> Table:
        """Makes a table from a pandas frame, an array (N, C), or nested lists.

        Args:
            given: the rows.
            labels: one class per row, which is no part of the density; None for none.
            held_out: as in the class, and so on.
        """
        table = cls.__new__(cls)
        table._make(sheet_of(given, labels), "the table", held_out, split_seed, validation)
        return table

    def _make(
        self, sheet: Sheet, path: str, held_out: float, split_seed: int, validation: Validation
    ) -> None:
        count = len(sheet.values)
        if not 0 <= held_out < 1:
            raise BadPoints(f"held_out must be at least 0 and below 1, got {held_out}")
        if count < LEAST_ROWS:
            raise BadPoints(
                f"{path} holds {counted(count, 'row')}; at least {LEAST_ROWS} are needed"
            )
        order, tested, kept = split(count, held_out, split_seed, validation, VALIDATION)
        survey = Survey.of(sheet, order[tested + kept :].numpy(), path)
        self._notes: list[str] = []
        held = order[: tested + kept].numpy()
        self.units = _Columns(sheet, survey, self._notes, path, held).units()
        self.places = order[:tested]
        x, self.missing = _filled(sheet, self.units, survey, order, tested, split_seed)
        self.test, self.validation = x[:tested], x[tested : tested + kept]
        self.train = x[tested + kept :]
        seen = torch.cat([self.train.aminmax(dim=0).min, self.train.aminmax(dim=0).max])
        self.box = MARGIN * float(seen.abs().max())
        self._label(sheet, order, tested, kept)

    def _label(self, sheet: Sheet, order: Tensor, tested: int, kept: int) -> None:
        """Classes of the rows, where the target has few values."""
        self.classes: tuple[str, ...] = ()
        codes = torch.zeros(len(order) if sheet.labels is not None else 0, dtype=torch.int64)
        if sheet.labels is not None:
            labels = sheet.labels
            lost = labels != labels if labels.dtype.kind in "fO" else labels == ""
            if lost.any():
                labels = np.where(lost, "missing", labels.astype(str))
            names, found = np.unique(labels, return_inverse=True)
            if 2 <= len(names) <= MOST_CLASSES:
                self.classes = tuple(map(str, names))
                codes = torch.from_numpy(found.reshape(-1).astype(np.int64))[order]
                if lost.any():
                    self._notes.append(
                        f"the target is missing in {counted(int(lost.sum()), 'row')}, "
                        "a class of their own"
                    )
            else:
                self._notes.append(
                    f"the target has {len(names)} values, so rows have no classes (2 to "
                    f"{MOST_CLASSES} are possible)"
                )
        self.test_labels, self.validation_labels = codes[:tested], codes[tested : tested + kept]
        self.train_labels = codes[tested + kept :]

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    @property
    def labelled(self) -> Table | None:  # type: ignore[override]
        return self if self.classes else None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.train.shape[1:])

    @property
    def domain(self) -> Domain:
        return Domain(self.shape, self.units, self.classes)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from the training part with replacement."""
        return self.train[torch.randint(len(self.train), (count,), generator=generator)]

    def sample_labelled(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        at = torch.randint(len(self.train), (count,), generator=generator)
        return self.train[at], self.train_labels[at]


@dataclass(frozen=True)
class Survey:
    """What the training part holds: whole columns, and some of its rows.

    Args:
        low: smallest value of each column; NaN where there is none.
        high: largest value.
        mean: mean of each column.
        std: standard deviation of each column.
        missing: missing values per column.
        whole: whether all values of a column are integers.
        count: number of rows.
        rows: at most SURVEYED of them, (M, C) in float64.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    missing: NDArray[np.int64]
    whole: NDArray[np.bool_]
    count: int
    rows: NDArray[np.float64]

    @classmethod
    def of(cls, sheet: Sheet, train: NDArray[np.int64], path: str) -> Survey:
        """Surveys the training rows of a table; refuses infinite values of any row."""
        columns = sheet.values.shape[1]
        inside = np.zeros(len(sheet.values), dtype=bool)
        inside[train] = True
        low, high = np.full(columns, np.inf), np.full(columns, -np.inf)
        missing, n = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        whole = np.ones(columns, bool)
        shift, total, square = np.zeros(columns), np.zeros(columns), np.zeros(columns)
        for at, block in _blocks(sheet.values):
            bad = np.argwhere(np.isinf(block))
            if len(bad):
                row, column = bad[0]
                raise BadPoints(
                    f"column {sheet.names[column]!r} of {path} has an infinite value in row "
                    f"{at + row} (input contains infinity)"
                )
            x = block[inside[at : at + len(block)]]
            if not len(x):
                continue
            there = ~np.isnan(x)
            with np.errstate(over="ignore", invalid="ignore"):
                low = np.minimum(low, np.where(there, x, np.inf).min(0))
                high = np.maximum(high, np.where(there, x, -np.inf).max(0))
                whole &= (~there | (x == np.round(x))).all(0)
                first = np.where(there.any(0), x[there.argmax(0), np.arange(columns)], 0.0)
                shift = np.where(n == 0, first, shift)
                moved = np.where(there, x - shift, 0.0)
                total, square = total + moved.sum(0), square + (moved * moved).sum(0)
            missing, n = missing + (~there).sum(0), n + there.sum(0)
        with np.errstate(all="ignore"):
            mean = shift + total / n
            std = np.sqrt(np.maximum(square - total * total / n, 0) / np.maximum(n - 1, 1))
        rows = np.sort(train[:SURVEYED])
        some = np.array(sheet.values[rows], dtype=np.float64)
        return cls(low, high, mean, std, missing, whole, len(train), some)


def _blocks(values: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Rows in float64, a block at a time, with the number of the first.

    Pages of a file that were read are given back.
    """
    size = max(1, VALUES_AT_ONCE // values.shape[1])
    pages = getattr(values, "_mmap", None)
    for at in range(0, len(values), size):
        yield at, np.array(values[at : at + size], dtype=np.float64)
        if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


class _Columns:
    """Decides what becomes of every column.

    Args:
        sheet: the table.
        survey: what its training part holds.
        notes: list that sentences about columns are added to.
        path: for messages.
        held: rows that are not of the training part.
    """

    def __init__(
        self, sheet: Sheet, survey: Survey, notes: list[str], path: str, held: NDArray[np.int64]
    ) -> None:
        self.sheet, self.survey, self.notes, self.path = sheet, survey, notes, path
        self.held = held
        self.said: dict[str, list[str]] = {}
        columns = len(sheet.names)
        self.kinds = [""] * columns
        self.names: list[tuple[str, ...]] = [()] * columns
        self.fill, self.steps = [0.0] * columns, [0.0] * columns
        self.weights: list[tuple[float, ...]] = [()] * columns

    def units(self) -> TableUnits:
        """The units of the table, after all columns are decided."""
        for j in range(len(self.kinds)):
            self._category(j) if self.sheet.categories[j] else self._number(j)
        numbers = {j: self._scales(j) for j, k in enumerate(self.kinds) if k in ("number", "whole")}
        self._drop_dependent(numbers)
        if not any(kind in ("number", "whole", "code", "onehot") for kind in self.kinds):
            raise BadPoints(f"no column of {self.path} varies: there is no density to learn")
        scales: list[tuple[float, float, float, float, float]] = []
        for j, kind in enumerate(self.kinds):
            if kind in ("number", "whole"):
                scales.append(numbers[j])
            elif kind in ("code", "onehot"):
                scales += self._category_scales(j)
        self._count_copies()
        for what, columns in self.said.items():
            more = f" and {len(columns) - NAMED} more" if len(columns) > NAMED else ""
            some = "columns" if len(columns) > 1 else "column"
            self.notes.append(f"{some} {', '.join(columns[:NAMED])}{more}: {what}")
        centre, scale, knee, mean, std = zip(*scales, strict=True)
        return TableUnits(
            self.sheet.names, tuple(self.kinds), tuple(self.names), tuple(self.fill),
            tuple(self.steps), tuple(self.weights), centre, scale, knee, mean, std,
        )  # fmt: skip

    def _say(self, j: int, what: str) -> None:
        self.said.setdefault(what, []).append(self.sheet.names[j])

    def _category(self, j: int) -> None:
        names, missing = self.sheet.categories[j], int(self.survey.missing[j])
        column = self.survey.rows[:, j]
        there = column[~np.isnan(column)]
        different = len(np.unique(there))
        if different > max(ONE_HOT, len(there) / 2):
            self.kinds[j] = "empty"
            text = [name for name in names if not is_number(name)]
            if len(text) < len(names) / 2:
                self._say(
                    j, f"numbers among text such as {text[0][:20]!r}, dropped; as NA it is missing"
                )
            else:
                self._say(j, "text that is rarely the same twice, dropped")
            return
        if missing:
            names = (*names, "")
        if different + bool(missing) < 2:
            self.kinds[j], self.names[j] = "constant", names
            self.fill[j] = float(there[0]) if len(there) else 0.0
            self._say(j, "constant, dropped")
            return
        self.names[j], self.fill[j] = names, float(len(names) - 1)
        self.steps[j] = 1.0
        one_hot = 2 < len(names) <= ONE_HOT
        self.kinds[j] = "onehot" if one_hot else "code"
        how = "one column each" if one_hot else "their numbers in one column"
        also = ", missing is one of them" if missing else ""
        self._say(j, f"{len(names)} categories as {how}, with uniform noise of width 1{also}")

    def _number(self, j: int) -> None:
        s = self.survey
        if not np.isfinite(s.low[j]):
            self.kinds[j] = "empty"
            self._say(j, "no values, dropped")
            return
        column = s.rows[:, j]
        there = column[~np.isnan(column)]
        self.fill[j] = float(np.median(there)) if len(there) else float(s.low[j])
        if s.low[j] == s.high[j] or s.std[j] <= ROUNDING * abs(s.mean[j]):
            self.kinds[j] = "constant"
            about = "" if s.low[j] == s.high[j] else " but for the last of its digits"
            self._say(j, f"constant{about}, dropped")
            return
        if s.missing[j]:
            share = s.missing[j] / s.count
            self._say(
                j, f"missing values ({share:.1%}) drawn from other rows; scored as the median"
            )
        self.kinds[j] = "whole" if s.whole[j] else "number"
        if s.whole[j]:
            gaps = np.diff(np.unique(there))
            self.steps[j] = float(gaps.min()) if len(gaps) else 1.0
            self._say(j, f"integers, with uniform noise of width {self.steps[j]:g}")

    def _scales(self, j: int) -> tuple[float, float, float, float, float]:
        """centre, scale, knee, mean and std of a column of numbers."""
        s = self.survey
        column = s.rows[:, j]
        there = column[~np.isnan(column)]
        q = np.quantile(there, [0.25, 0.5, 0.75, 0.01, 0.99])
        robust = next((v for v in ((q[2] - q[0]) / 1.349, (q[4] - q[3]) / 4.653) if v > 0), None)
        ends = np.array([s.low[j], s.high[j]])
        with np.errstate(over="ignore"):
            far = 0.0 if robust is None else float(np.abs((ends - q[1]) / robust).max())
            plain = float(np.hypot(s.std[j], self.steps[j] / math.sqrt(12)))
            farthest = float(np.abs((ends - s.mean[j]) / plain).max())
        if far <= FAR and math.isfinite(plain) and math.isfinite(farthest):
            knee = max(ROOM, 2 * farthest)
            with np.errstate(over="ignore"):
                beyond = np.abs(self.sheet.values[self.held, j] - s.mean[j]) / plain > knee
            if beyond.any():
                self._say(j, "held-out values far from those of training, compressed")
            return float(s.mean[j]), plain, knee, 0.0, 1.0
        if robust is None or not math.isfinite(far):
            raise BadPoints(
                f"column {self.sheet.names[j]!r} of {self.path} has values too large for a scale: "
                "there is no density to learn"
            )
        self._say(j, f"values far from the others, compressed beyond {KNEE:g} standard deviations")
        w = np.clip((there - q[1]) / robust, -KNEE, KNEE)
        std = float(np.hypot(w.std(), self.steps[j] / robust / math.sqrt(12)))
        return float(q[1]), float(robust), KNEE, float(w.mean()), std

    def _category_scales(self, j: int) -> list[tuple[float, float, float, float, float]]:
        """centre, scale, knee, mean and std of the columns of a category."""
        column = self.survey.rows[:, j]
        codes = np.where(np.isnan(column), self.fill[j], column)
        hot = range(len(self.names[j])) if self.kinds[j] == "onehot" else (None,)
        found = []
        for k in hot:
            x = codes if k is None else (codes == k).astype(np.float64)
            found.append((float(x.mean()), math.sqrt(float(x.var()) + 1 / 12), 0.0, 0.0, 1.0))
        return found

    def _drop_dependent(self, scales: Mapping[int, tuple[float, ...]]) -> None:
        """Drops columns that follow linearly from those before them, by Gram-Schmidt."""
        rows = self.survey.rows
        if len(rows) <= len(scales) + 1:
            return
        basis: list[NDArray[np.float64]] = []
        kept: list[int] = []
        z = {}
        for j, (centre, scale, knee, *_) in scales.items():
            column = np.where(np.isnan(rows[:, j]), self.fill[j], rows[:, j])
            z[j] = np.clip((column - centre) / scale, -knee, knee)
            y = z[j] - z[j].mean()
            size = float(y @ y)
            for _ in range(2):  # once more, against rounding
                for direction in basis:
                    y = y - (direction @ y) * direction
            if size and float(y @ y) > COLLINEAR * size:
                basis.append(y / np.linalg.norm(y))
                kept.append(j)
            else:
                self._depend(j, kept, z, scales)

    def _depend(
        self,
        j: int,
        kept: list[int],
        z: dict[int, NDArray[np.float64]],
        scales: Mapping[int, tuple[float, ...]],
    ) -> None:
        """Marks a column as one that follows from those that were kept, and how it does."""
        design = np.stack([np.ones(len(z[j])), *(z[k] for k in kept)], 1)
        found = np.linalg.lstsq(design, z[j], rcond=None)[0]
        weights = np.zeros(len(self.kinds))
        intercept = scales[j][0] + scales[j][1] * found[0]
        for value, k in zip(found[1:], kept, strict=True):
            weights[k] = value * scales[j][1] / scales[k][1]
            intercept -= weights[k] * scales[k][0]
        self.weights[j] = (float(intercept), *map(float, weights))
        self.kinds[j], self.steps[j] = "dependent", 0.0
        for columns in self.said.values():
            if self.sheet.names[j] in columns:
                columns.remove(self.sheet.names[j])
        self.said = {what: columns for what, columns in self.said.items() if columns}
        self._say(j, "a linear combination of other columns, dropped")

    def _count_copies(self) -> None:
        rows = self.survey.rows
        different = len(np.unique(rows, axis=0, equal_nan=True))
        if different < len(rows):
            of = "" if len(rows) == self.survey.count else "of those looked at "
            self.notes.append(
                f"{len(rows) - different} of {len(rows)} training rows {of}repeat others; they are "
                "kept"
            )


def _filled(
    sheet: Sheet, units: TableUnits, survey: Survey, order: Tensor, tested: int, seed: int
) -> tuple[Tensor, Tensor]:
    """All rows in the units of the model, float32, in the order of the split.

    Also which values of the first rows, those that are tested on, were missing; empty if none.
    """
    rng = np.random.default_rng([seed, 1])
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order))
    gaps = [j for j, kind in enumerate(units.kinds) if kind in ("number", "whole")]
    out = torch.empty(len(order), len(units.widths))
    missing = torch.zeros(tested, sheet.values.shape[1], dtype=torch.bool)
    for at, block in _blocks(sheet.values):
        first = place[at : at + len(block)]
        lost_here = np.isnan(block)
        if lost_here.any():
            here = first < tested
            missing[first[here]] = torch.from_numpy(lost_here)[here]
        for j in gaps:
            lost = np.isnan(block[:, j])
            if lost.any():
                known = survey.rows[:, j][~np.isnan(survey.rows[:, j])]
                known = known if len(known) else np.array([units.fill[j]])
                block[lost, j] = rng.choice(known, int(lost.sum()))
        y = units.spread(torch.from_numpy(block), seed + 1 + at)
        if not bool(y.isfinite().all()):
            row = int((~y.isfinite()).any(1).nonzero()[0])
            raise BadPoints(f"row {at + row} became NaN or infinite in the units of the model")
        out[first] = y.float()
    return out, missing if bool(missing.any()) else missing[:0]
