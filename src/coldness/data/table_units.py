"""Units of a table: from rows as people have them to the numbers that a model works on, and back.

A row has C columns in its own units: numbers, and codes of categories. Every model column is

    y = (w - m) / t,     w = bend((x - c) / s)

    bend(z) = z for |z| <= k, sign(z) (k + L log(1 + (|z| - k) / L)) beyond

c and s are the mean and standard deviation of ordinary columns, which are not bent (k is infinite).
Columns with values far from all others have c and s from quantiles: one value of 1e30 then changes
nothing for the rest. bend is smooth at k (slope 1), and log p is exact in the units of x:

    log p(x) = log p(y) - sum log(s t) - sum max(0, |w| - k) / L

Categories become one column each of zeros and ones (`onehot`), or one column of their codes
(`code`). Constant columns, columns that follow linearly from others and columns without numbers are
no model columns: they do not count in log p. `original` restores them.

A missing number is replaced by the median of its column when rows are scored. A category that was
not seen before is the code after the last: it belongs to no column of ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coldness.data.table_files import Sheet, listed, numbered, sheet_of
from coldness.domain import Units

SOFTNESS = 0.5
"""L: how fast values beyond the knee are compressed, in the same units as the knee."""

LARGEST = 1e300
"""Standardised values are at most this large: those of new rows may exceed all that float64 holds,
and are unusual enough."""

KEPT = ("number", "whole", "code", "onehot")
"""Kinds of columns that the model sees; the others are constant, dependent or empty."""


@dataclass(frozen=True)
class TableUnits(Units):
    """The map of a table's rows, as above.

    Args:
        column_names: of the C columns.
        kinds: of the C columns: number, whole (integers), code or onehot (categories), constant,
            dependent (on others), empty.
        category_names: of the C columns, in the order of their codes; empty for numbers.
        fill: for each of the C columns, the value where it is missing.
        steps: for each of the C columns, the width of the noise on it in training; 0 for none.
        weights: for each of the C columns, intercept and C weights of a dependent column, or none.
        centre: c of every model column.
        scale: s of every model column.
        knee: k of every model column; 0 for columns that are not bent.
        mean: m of every model column.
        std: t of every model column.
    """

    column_names: tuple[str, ...]
    kinds: tuple[str, ...]
    category_names: tuple[tuple[str, ...], ...]
    fill: tuple[float, ...]
    steps: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    knee: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def is_table(self) -> bool:
        return True

    def own_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (len(self.kinds),)

    def names(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        return self.column_names

    def inner_names(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        found: list[str] = []
        for name, kind, known in zip(
            self.column_names, self.kinds, self.category_names, strict=True
        ):
            if kind == "onehot":
                found += [f"{name} = {category or 'missing'}" for category in known]
            elif kind in KEPT:
                found.append(name)
        return tuple(found)

    def categories(self, column: int) -> tuple[str, ...]:
        return self.category_names[column]

    def written(self, column: int, value: float) -> str:
        """A number, the name of a category, or `missing`."""
        known = self.category_names[column]
        if known and value == value:
            at = round(value)
            return (known[at] if 0 <= at < len(known) else "another category") or "missing"
        if value != value:
            return "missing"
        plain = abs(value) < 1e9 and (value.is_integer() or abs(value) >= 1e4)
        return f"{value:.0f}" if plain else f"{value:.4g}"

    def per_column(self, values: Tensor) -> Tensor:
        """The largest in size of the values of each column; 0 for those that the model has not."""
        found = torch.zeros(len(values), len(self.kinds), dtype=values.dtype)
        for j, place in enumerate(self.places):
            if place.stop > place.start:
                part = values[:, place]
                found[:, j] = part.gather(1, part.abs().argmax(1, keepdim=True))[:, 0]
        return found

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """The model columns of each of the C columns; empty slices for those that have none."""
        places, at = [], 0
        for kind, names in zip(self.kinds, self.category_names, strict=True):
            width = len(names) if kind == "onehot" else int(kind in KEPT)
            places.append(slice(at, at + width))
            at += width
        return tuple(places)

    def coded(self, x: Any) -> NDArray[np.float64]:
        """Rows as numbers (N, C), with NaN for missing values, from a frame, an array or a list.

        Columns of a frame or a file with a header are found by their names, others by their
        position. Columns that the model does not look at may be missing.
        """
        return self.codes_of(sheet_of(x))

    def codes_of(self, sheet: Sheet) -> NDArray[np.float64]:
        """Rows of a sheet as numbers (N, C), categories by the codes of these units."""
        order = self._order(sheet)
        x = np.full((len(sheet.values), len(order)), np.nan)
        for j, at in enumerate(order):
            own = x[:, j] if at is None else np.array(sheet.values[:, at], dtype=np.float64)
            x[:, j] = self._code(own, () if at is None else sheet.categories[at], j)
        bad = np.argwhere(np.isinf(x))
        if len(bad):
            row, j = bad[0]
            raise ValueError(f"column {self.column_names[j]!r} has an infinite value in row {row}")
        return x

    def _order(self, sheet: Sheet) -> Sequence[int | None]:
        """Which column of a sheet each of the C columns is; None for one that is not looked at."""
        found = {name: at for at, name in enumerate(sheet.names)}
        known, count = self.column_names, len(self.column_names)
        if not sheet.named or (known == numbered(count) and not set(known) <= found.keys()):
            if len(sheet.names) != count:
                raise ValueError(
                    f"points must have {count} columns (N, D), got {len(sheet.names)} columns"
                )
            return range(count)
        needed = [name for name, kind in zip(known, self.kinds, strict=True) if kind in KEPT]
        missing = [name for name in needed if name not in found]
        if missing:
            more = f" and {len(missing) - 1} more that the model needs" if len(missing) > 1 else ""
            raise ValueError(
                f"the table has no column {missing[0]!r}{more}; it has {listed(sheet.names)}"
            )
        return [found.get(name) for name in known]

    def _code(self, x: NDArray[np.float64], found: tuple[str, ...], j: int) -> NDArray[np.float64]:
        """Codes of one column, from codes of the names in `found` or from plain values."""
        known = self.category_names[j]
        if self.kinds[j] not in KEPT:
            return np.full_like(x, self.fill[j])
        if not known:
            if found:
                raise ValueError(f"column {self.column_names[j]!r} holds numbers, got {found[0]!r}")
            return x
        codes = {name: float(k) for k, name in enumerate(known)}
        unknown = float(len(known))
        missing = codes.get("", unknown)
        if found:
            table = np.array([codes.get(name, unknown) for name in found])
            seen = np.isfinite(x)
            return np.where(seen, table[np.where(seen, x, 0).astype(int)], missing)
        named = any(plain_text(v) in codes for v in x[:100])  # else they are codes already
        return np.array(
            [missing if v != v else codes.get(plain_text(v), unknown) if named else v for v in x]
        )

    def into_model(self, x: Tensor) -> Tensor:
        return self.bent(self.expanded(x))

    def expanded(self, x: Tensor) -> Tensor:
        """Model columns (N, D) before scaling, from rows (N, C); missing values are filled."""
        columns = []
        for j, kind in enumerate(self.kinds):
            if kind not in KEPT:
                continue
            column = x[:, j]
            column = torch.where(column.isnan(), self.fill[j], column)
            if kind == "onehot":
                codes = torch.arange(len(self.category_names[j]), device=x.device)
                columns.append((column[:, None] == codes).to(x.dtype))
            else:
                columns.append(column[:, None])
        return torch.cat(columns, 1)

    def spread(self, x: Tensor, seed: int) -> Tensor:
        widths = self.widths.to(x.device)
        noise = torch.rand(
            (len(x), len(widths)),
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(seed),
        )
        return self.bent(self.expanded(x) + widths * (noise.to(x.device) - 0.5))

    @cached_property
    def widths(self) -> Tensor:
        """Width of the uniform noise on every model column."""
        found = [self.steps[j] for j, p in enumerate(self.places) for _ in range(p.start, p.stop)]
        return torch.tensor(found, dtype=torch.float64)

    def bent(self, x: Tensor) -> Tensor:
        """Model columns (N, D) from the same columns before scaling."""
        z = (x - self._row(self.centre, x)) / self._row(self.scale, x)
        z = z.clamp(-LARGEST, LARGEST)
        knee = self._knee(x)
        beyond = (z.abs() - knee).clamp(min=0)
        w = torch.where(beyond > 0, z.sign() * (knee + _compressed(beyond)), z)
        return (w - self._row(self.mean, x)) / self._row(self.std, x)

    def original(self, x: Tensor) -> Tensor:
        w = x.double() * self._row(self.std, x) + self._row(self.mean, x)
        knee = self._knee(x)
        beyond = (w.abs() - knee).clamp(min=0)
        z = torch.where(beyond > 0, w.sign() * (knee + _expanded(beyond)), w)
        z = z * self._row(self.scale, x) + self._row(self.centre, x)
        own = torch.tensor(self.fill, dtype=torch.float64, device=x.device).repeat(len(x), 1)
        for j, place in enumerate(self.places):
            if self.kinds[j] == "onehot":
                own[:, j] = z[:, place].argmax(1).double()
            elif self.kinds[j] in KEPT:
                own[:, j] = z[:, place.start]
            elif self.kinds[j] == "empty":
                own[:, j] = math.nan
        for j, weights in enumerate(self.weights):
            if weights:
                row = torch.tensor(weights[1:], dtype=torch.float64, device=x.device)
                own[:, j] = weights[0] + own.nan_to_num(nan=0.0) @ row
        return own

    def rounded(self, x: NDArray[Any]) -> NDArray[Any]:
        """Rows in own units with integers, and codes of categories, as whole numbers."""
        x = np.array(x, dtype=np.float64)
        for j, (kind, names) in enumerate(zip(self.kinds, self.category_names, strict=True)):
            if kind == "whole":
                x[:, j] = np.round(x[:, j])
            elif kind in ("code", "onehot"):
                x[:, j] = np.clip(np.round(x[:, j]), 0, len(names) - 1)
        return x

    def log_scale(self, shape: tuple[int, ...]) -> float:
        both = torch.tensor([self.scale, self.std], dtype=torch.float64)
        return float(both.log().sum())

    def log_stretch(self, x: Tensor) -> Tensor:
        w = x.double() * self._row(self.std, x) + self._row(self.mean, x)
        return ((w.abs() - self._knee(x)).clamp(min=0) / SOFTNESS).sum(1)

    def _knee(self, like: Tensor) -> Tensor:
        knee = self._row(self.knee, like)
        return torch.where(knee > 0, knee, math.inf)

    def _row(self, values: tuple[float, ...], like: Tensor) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=like.device)


def unseen(rows: Any, units: Units) -> list[str]:
    """A sentence for every column with categories that training has not seen."""
    if not isinstance(rows, Sheet) or not isinstance(units, TableUnits):
        return []
    notes, codes = [], units.codes_of(rows)
    for j, known in enumerate(units.category_names):
        count = int((codes[:, j] >= len(known)).sum()) if known else 0
        if count:
            notes.append(
                f"column {units.column_names[j]}: a category that training has not seen, or none, "
                f"in {count} of {len(codes)} rows"
            )
    return notes


def _compressed(beyond: Tensor) -> Tensor:
    return SOFTNESS * torch.log1p(beyond / SOFTNESS)


def _expanded(beyond: Tensor) -> Tensor:
    return SOFTNESS * torch.expm1(beyond / SOFTNESS)


def plain_text(value: float) -> str:
    """A number as it is written in a file of categories: 3 and not 3.0."""
    return str(int(value)) if float(value).is_integer() else str(float(value))
