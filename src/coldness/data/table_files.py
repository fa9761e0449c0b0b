"""Tables as people have them: files, frames and arrays, read into one array of numbers.

    .npy            an array (N, C)
    .npz            X (or x, or the only array), and y as the target
    .csv .tsv .txt  text with commas, semicolons, tabs or blanks, with or without a header
    .parquet        needs pyarrow: pip install "coldness[parquet]"

With semicolons between cells, numbers may have a decimal comma: 1,5. Columns of text become codes
of categories, dates become days, and empty cells, `NA`, `NaN`, `null`, `None` and `?` become NaN.
Nothing in a file is executed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count, dropwhile, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from coldness.data.array_files import check_arrays
from coldness.data.point_checks import BadPoints
from coldness.data.points import opened

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
"""Cells without a value, in lower case."""

BOOLEANS: tuple[str, ...] = ("False", "True")
"""Categories of a column of truth values, however a file writes them."""

ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Sheet:
    """A table as numbers.

    Args:
        values: (N, C), with NaN for missing values and codes 0 ... K-1 for categories.
        names: of the columns.
        categories: of each column, names by code, sorted; empty for numbers.
        named: whether the names come from the table itself.
        labels: the target (N,) as text, if there is one.
    """

    values: NDArray[Any]
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    named: bool = True
    labels: NDArray[Any] | None = None


def read_sheet(path: str, target: str | None = None) -> Sheet:
    """Reads a table from a file.

    Args:
        path: of the file.
        target: name of the column that is not part of the table but its target; a number counts
            columns from 0.
    Raises:
        BadPoints: the file cannot be used; the message is one line.
    """
    readers = {
        ".npy": _npy, ".npz": _npz, ".csv": _text, ".tsv": _text, ".txt": _text,
        ".parquet": _parquet,
    }  # fmt: skip
    sheet = opened(Path(path), readers)
    return sheet if target is None else _without(sheet, target, path)


def sheet_of(given: Any, labels: Any = None) -> Sheet:
    """A table from a frame, an array or nested lists.

    Args:
        given: a pandas frame, or anything that NumPy makes an array (N, C) of, also of text.
        labels: target (N,); None for none.
    """
    if isinstance(given, Sheet):
        return given
    if hasattr(given, "columns") and hasattr(given, "iloc"):
        names = tuple(map(str, given.columns))
        columns = [_of_series(given.iloc[:, j]) for j in range(len(names))]
        named = not all(isinstance(name, (int, np.integer)) for name in given.columns)
        sheet = replace(_sheet(columns, names), named=named)
    else:
        sheet = _of_array(given)
    return sheet if labels is None else replace(sheet, labels=_labels(labels, len(sheet.values)))


def numbered(count: int) -> tuple[str, ...]:
    """The names of columns that have none: 0, 1, 2 ..."""
    return tuple(map(str, range(count)))


def listed(names: Sequence[str]) -> str:
    """The first few of many names, for messages."""
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _labels(labels: Any, count: int) -> NDArray[Any]:
    found = np.asarray(labels).reshape(-1)
    if len(found) != count:
        raise BadPoints(f"{count} rows but {len(found)} labels")
    return found


def _of_array(given: Any) -> Sheet:
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy()
    if np.ma.is_masked(given):
        given = np.ma.filled(np.ma.asarray(given).astype(np.float64), np.nan)
    x = given if isinstance(given, np.memmap) else np.asarray(given)
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or not x.shape[1]:
        raise BadPoints(f"a table must have rows and columns (N, D), got the shape {x.shape}")
    if x.dtype.kind == "c":
        raise BadPoints(f"a table must hold real numbers or text, got {x.dtype}")
    names = numbered(x.shape[1])
    if x.dtype.kind in "iuf":
        return Sheet(x, names, ((),) * x.shape[1], named=False)
    return replace(_sheet([_coded(x[:, j]) for j in range(x.shape[1])], names), named=False)


Column = tuple[NDArray[Any], tuple[str, ...]]
"""Numbers or codes (N,), and names of categories."""


def _sheet(columns: Sequence[Column], names: tuple[str, ...]) -> Sheet:
    if not columns:
        raise BadPoints("a table needs at least one column")
    kind = np.result_type(*(values.dtype for values, _ in columns))
    kind = kind if kind.kind == "f" else np.dtype(np.float64)
    values = np.empty((len(columns[0][0]), len(columns)), kind)
    for j, (column, _) in enumerate(columns):
        values[:, j] = column
    return Sheet(values, names, tuple(categories for _, categories in columns))


def _of_series(series: Any) -> Column:
    """One column of a frame; missing values of any kind become NaN."""
    kind = getattr(series.dtype, "kind", "O")
    if kind in "iufb" and hasattr(series, "to_numpy"):
        if series.isna().any():
            booleans = BOOLEANS if kind == "b" else ()
            return series.to_numpy(dtype=np.float64, na_value=np.nan), booleans
        plain = series.to_numpy()
        return _coded(plain.astype(np.float64) if plain.dtype.kind == "O" else plain)
    if kind == "M":
        return _coded(series.to_numpy(dtype="datetime64[s]"))
    return _coded(series.astype(object).where(series.notna(), None).to_numpy())


def _coded(values: NDArray[Any]) -> Column:
    """One column as numbers; text as codes of its sorted names."""
    kind = values.dtype.kind
    if kind in "iuf":
        return values, ()
    if kind == "b":
        return values.astype(np.float64), BOOLEANS
    if kind in "mM":
        return _days(values), ()
    if kind == "O":
        first = next((v for v in values if not _is_missing(v)), None)
        if isinstance(first, (dict, list, tuple, set, np.ndarray)):
            raise TypeError(f"a cell of a table must be a number or text, got {type(first)}")
        if all(isinstance(v, (bool, np.bool_)) or _is_missing(v) for v in values):
            return _categories([None if _is_missing(v) else str(v) for v in values])
    try:
        return np.array([np.nan if _is_missing(v) else float(v) for v in values]), ()
    except (TypeError, ValueError):
        return _categories([None if _is_missing(v) else str(v) for v in values])


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or value != value


def _days(values: NDArray[Any]) -> NDArray[np.float64]:
    unit = "datetime64[s]" if values.dtype.kind == "M" else "timedelta64[s]"
    seconds = values.astype(unit)
    days = seconds.astype(np.int64) / 86400.0
    return np.where(np.isnat(seconds), np.nan, days)


def _categories(cells: Sequence[str | None]) -> Column:
    names = sorted({cell for cell in cells if cell is not None})
    if names and {name.lower() for name in names} <= {"false", "true"}:
        codes = [np.nan if cell is None else float(cell.lower() == "true") for cell in cells]
        return np.array(codes), BOOLEANS
    code = {name: float(k) for k, name in enumerate(names)}
    return np.array([np.nan if c is None else code[c] for c in cells]), tuple(names)


# Files.


def _npy(path: Path) -> Sheet:
    """An array, which stays in the file: rows are read when they are needed."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
    check_arrays(path)
    return _of_array(np.load(path, mmap_mode="r", allow_pickle=False))


def _npz(path: Path) -> Sheet:
    check_arrays(path)
    with path.open("rb") as opened_file:
        file = np.load(opened_file, allow_pickle=False)
        if not isinstance(file, NpzFile):
            raise BadPoints(f"{path} must be an .npz file, got a single array")
        others = [name for name in file.files if name != "y"]
        name = next((n for n in ("X", "x") if n in others), others[0] if len(others) == 1 else None)
        if name is None:
            raise BadPoints(f"{path} must hold one array or one called X, got {file.files}")
        sheet = _of_array(file[name])
        labels = _labels(file["y"], len(sheet.values)) if "y" in file.files else None
    return replace(sheet, labels=labels)


def _parquet(path: Path) -> Sheet:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError as error:
        raise BadPoints('Parquet files need pyarrow: pip install "coldness[parquet]"') from error
    file = parquet.ParquetFile(path)
    names = tuple(file.schema_arrow.names)
    columns: list[Column] = []
    for name in names:  # one column at a time in memory beside the result
        column = file.read(columns=[name]).column(0)
        if str(column.type) == "bool":
            columns.append((column.cast("float64").to_numpy(), BOOLEANS))
        else:
            columns.append(_coded(column.to_numpy()))
    return _sheet(columns, names)


def _text(path: Path) -> Sheet:
    """Text, in blocks of rows. A column that turns out to be text is read again from the start."""
    with path.open(newline="", encoding="utf-8-sig") as file, _cells_up_to(path.stat().st_size):
        between, header = _dialect(path, file)
        columns_of_text: set[int] = set()
        while True:
            file.seek(0)
            rows = _rows(file, between)
            names = next(rows) if header else None
            found = _columns(rows, columns_of_text, path, names, comma=between == ";")
            if found is not None:
                break
    return replace(_sheet(found, _names(names) if names else numbered(len(found))), named=header)


@contextmanager
def _cells_up_to(size: int) -> Iterator[None]:
    """Lets csv read cells of this many letters; it refuses those above 131,072 otherwise."""
    before = csv.field_size_limit(max(csv.field_size_limit(), size))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of columns as pandas makes them unique: a, a.1, a.2 and Unnamed: 3."""
    names: list[str] = []
    for j, cell in enumerate(cells):
        name = cell.strip() or f"Unnamed: {j}"
        new = (f"{name}.{k}" if k else name for k in count())
        names.append(next(n for n in new if n not in names))
    return tuple(names)


def _dialect(path: Path, file: TextIO) -> tuple[str | None, bool]:
    """What is between cells (None for blanks), and whether the first row names the columns."""
    top = list(_uncommented(islice(file, 200)))
    plain = [line for line in top if not _is_comment(line)]
    lines = (plain if len(plain) > 1 else top)[:2]
    if not lines:
        raise BadPoints(f"{path} is empty")
    even = [mark for mark in ";,\t" if len({line.count(mark) for line in lines}) == 1]
    between = next((mark for mark in (*even, *",;\t") if mark in lines[0]), None)
    if between is None and any(_number(cell) is None for cell in lines[-1].split()):
        between = ","  # one column of text, which may hold blanks
    first, comma = next(_cells(lines[:1], between)), between == ";"
    header = not all(_is_missing(c) or _number(_pointed(c, comma)) is not None for c in first)
    counted = len(first) > 1 and first == [str(j) for j in range(len(first))]
    if counted:  # columns that are called 0, 1, 2 ...
        return between, True
    if header and len(lines) < 2:
        raise BadPoints(f"{path} holds a header but no rows")
    if header and len(lines) == 2:
        second = next(_cells(lines[1:], between))
        text = [
            _number(_pointed(c, comma)) is None and not _is_missing(c) for c in (*first, *second)
        ]
        header = not (all(text) and len(set(first)) < len(first))
    return between, header


def _rows(lines: Iterable[str], between: str | None) -> Iterator[list[str]]:
    """Cells of every line that is not empty and no comment.

    With a mark between cells only lines above all others are comments: below, # may begin a cell.
    """
    kept = _uncommented(lines)
    if between is None:
        kept = (line for line in kept if not _is_comment(line))
    return _cells(kept, between)


def _cells(lines: Iterable[str], between: str | None) -> Iterator[list[str]]:
    if between is None:
        yield from map(str.split, lines)
    else:
        yield from csv.reader(lines, delimiter=between, skipinitialspace=True)


def _uncommented(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are not empty, from the first on that is no comment."""
    return dropwhile(_is_comment, (line for line in lines if line.strip()))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def is_number(cell: str) -> bool:
    """Whether text is a number."""
    return _number(cell) is not None


def _pointed(cell: str, comma: bool) -> str:
    """A cell with a point in place of its decimal comma, if it may have one."""
    return cell.replace(",", ".") if comma and cell.count(",") == 1 and "." not in cell else cell


def _columns(
    rows: Iterator[list[str]],
    text: set[int],
    path: Path,
    names: list[str] | None,
    comma: bool,
) -> list[Column] | None:
    """All columns; None where a column turned out to be text, which is then in `text`."""
    blocks: list[list[Any]] = []
    width, seen = None if names is None else len(names), 0
    while block := list(islice(rows, ROWS_AT_ONCE)):
        width = len(block[0]) if width is None else width
        for k, row in enumerate(block):
            if len(row) != width:
                raise BadPoints(
                    f"{path} cannot be read: row {seen + k} has {len(row)} cells, not {width}"
                )
        seen += len(block)
        blocks = blocks or [[] for _ in range(width)]
        for j, cells in enumerate(zip(*block, strict=True)):
            if j in text:
                blocks[j].append([None if _is_missing(c) else c.strip() for c in cells])
                continue
            numbers = _numbers(cells, comma)
            if numbers is None:
                text.add(j)
                if seen > len(block):
                    return None
                blocks[j].append([None if _is_missing(c) else c.strip() for c in cells])
            else:
                blocks[j].append(numbers)
    if not blocks:
        raise BadPoints(f"{path} holds no rows")
    columns: list[Column] = []
    for j, parts in enumerate(blocks):
        if j in text:
            columns.append(_dates_or_categories([cell for part in parts for cell in part]))
        else:
            columns.append((np.concatenate(parts), ()))
        parts.clear()
    return columns


def _numbers(cells: Sequence[str], comma: bool) -> NDArray[np.float64] | None:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    try:
        return np.array([np.nan if _is_missing(c) else float(_pointed(c, comma)) for c in cells])
    except ValueError:
        return None


def _dates_or_categories(cells: list[str | None]) -> Column:
    """Dates as ISO 8601 writes them become days; all other text becomes categories."""
    if all(cell is None or (cell[:4].isdigit() and "-" in cell) for cell in cells):
        try:
            return _days(np.array(cells, dtype="datetime64[s]")), ()
        except ValueError:
            pass
    return _categories(cells)


def _without(sheet: Sheet, target: str, path: str) -> Sheet:
    """The sheet without the column of this name, which becomes the target."""
    if target in sheet.names:
        at = sheet.names.index(target)
    elif target == "y" and sheet.labels is not None:
        return sheet
    elif target.lstrip("-").isdigit() and -len(sheet.names) <= int(target) < len(sheet.names):
        at = int(target) % len(sheet.names)
    else:
        raise BadPoints(f"{path} has no column {target!r}; it has {listed(sheet.names)}")
    column, names = sheet.values[:, at], sheet.categories[at]
    labels = np.array([names[int(v)] if v == v else "" for v in column]) if names else column
    rest = [j for j in range(len(sheet.names)) if j != at]
    if not rest:
        raise BadPoints(f"{path} has no column beside the target {target!r}")
    return Sheet(
        sheet.values[:, rest],
        tuple(sheet.names[j] for j in rest),
        tuple(sheet.categories[j] for j in rest),
        sheet.named,
        labels,
    )
