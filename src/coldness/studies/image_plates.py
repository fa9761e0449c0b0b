"""A study's plate of image runs: tiles of data, and of short-run and long-run samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coldness.report.figures import Array
from coldness.report.tiles import Tiles, side_of, square

ROWS = {"x_short": "short-run", "x_long": "long-run"}
"""Of a plate, by array."""

TILES = 4
"""A side, at most."""


def rows_of(there: Iterable[Mapping[str, Array]]) -> dict[str, str]:
    """Rows that any of these evaluations can fill, with their labels."""
    found = {key for arrays in there for key in arrays}
    return {key: label for key, label in ROWS.items() if key in found}


def data_tiles(x_data: Array, rows: Iterable[str]) -> dict[str, Tiles]:
    """Examples of data beside every row: other ones in each, as far as there are any."""
    count = side_of(x_data, TILES) ** 2
    starts = [k * count if len(x_data) >= (k + 1) * count else 0 for k in range(len(ROWS))]
    return {
        key: square("data", x_data[start:], TILES) for key, start in zip(rows, starts, strict=False)
    }


def sample_tiles(arrays: Mapping[str, Array]) -> dict[str, Tiles]:
    """Of one run, by row."""
    return {key: square(label, arrays[key], TILES) for key, label in ROWS.items() if key in arrays}
