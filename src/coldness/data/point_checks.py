"""What in a set of points keeps a density from being learned: refused, or named in a note.

    fewer than 20 distinct points            refused
    a value so far from all others that      refused: in standardised units the others are one point
    they become equal
    most points are copies of others         note
    a column that holds one value in most    note: a density is infinite there
    rows
    a value far from all others              note

Only the first SURVEYED rows of a random order are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SURVEYED = 20_000
LEAST_DISTINCT = 20

MANY = 0.5
"""Fraction of copies, or of rows with the same value, from which a note is made."""

FAR, TOO_FAR = 1e3, 1e7
"""Distance from the median in units of the middle half of a column: the farthest of 10,000 Cauchy
values is at about 3,000. From 1e7 on, single precision cannot tell the other values apart."""


class BadPoints(ValueError):
    """Points that no density can be learned from; the message is one line."""


def examined(x: NDArray[np.float64], path: str) -> tuple[str, ...]:
    """Notes on points (N, D).

    Raises:
        BadPoints: no density can be learned from them.
    """
    notes = list(_copies(x, path))
    for j, column in enumerate(x.T):
        notes += [*_far(column, j, path), *_repeated(column, j, path)]
    return tuple(notes)


def _copies(x: NDArray[np.float64], path: str) -> Iterator[str]:
    distinct = len(np.unique(x, axis=0))
    if distinct < LEAST_DISTINCT:
        raise BadPoints(
            f"{path} holds {distinct} distinct points among {len(x)}; at least {LEAST_DISTINCT} "
            "are needed"
        )
    copies = 1 - distinct / len(x)
    if copies >= MANY:
        yield f"{copies:.0%} of the points of {path} are copies of other points"


def _far(column: NDArray[np.float64], j: int, path: str) -> Iterator[str]:
    low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
    with np.errstate(over="ignore"):
        distance, width = np.abs(column - middle), high - low
    row = int(distance.argmax())
    if not width > 0 or not distance[row] > FAR * width:
        return
    what = f"column {j} of {path} holds {column[row]:.3g}, far from all other values"
    if distance[row] > TOO_FAR * width:
        raise BadPoints(
            f"{what}: next to it they are one point; remove it, or read the file as a Table, "
            "which compresses far values (recipe table)"
        )
    yield f"{what} (median {middle:.3g}, middle half {width:.3g} wide)"


def _repeated(column: NDArray[np.float64], j: int, path: str) -> Iterator[str]:
    values, counts = np.unique(column, return_counts=True)
    most = int(counts.argmax())
    if len(values) > 1 and counts[most] >= MANY * len(column):
        yield (
            f"column {j} of {path} is {values[most]:.4g} in {counts[most]} of {len(column)} rows: "
            "there is no density of a single value; a Table treats such columns (recipe table)"
        )
