"""Your own points: an array or a file of numbers, one point per row, of unknown density.

    y = (x - m) / s,     log p(x) = log p(y) - sum log s

m and s, stored as `mean` and `std`, are the mean and standard deviation of each dimension of the
training part. The model works on y; log-likelihoods are given in the units of x. A random fraction
of the points, chosen by a seed, is never used for training. A validation part, for the
log-likelihood during training, can be split off the rest; `auto` splits one off where it is large
enough to say something.
"""

from __future__ import annotations

import csv
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from torch import Tensor

from coldness.data.array_files import check_arrays
from coldness.data.base import HeldOut
from coldness.data.point_checks import SURVEYED, BadPoints, examined
from coldness.domain import Domain, Standardised

LEAST_POINTS = 20
LEAST_PART = 4
"""Smallest number of points in a file, and in each of the training part and the test part."""

VALIDATION = 0.05
FEWEST_VALIDATED, MOST_VALIDATED = 20, 1000
"""Fraction of the training part that `validation="auto"` keeps, the smallest number of points that
it keeps (below, it keeps none, and the mean over them would say little), and the largest."""

Validation = float | Literal["auto"]

Read = TypeVar("Read")

MARGIN = 1.15
"""Half the side of the box as a multiple of the largest absolute coordinate."""

ROUNDING = 1e-12
"""A column counts as constant if its standard deviation is below this fraction of its mean."""

COLLINEAR = 1e-9
"""Smallest variance along a direction, as a fraction of the largest. Below it, inverting the
covariance leaves no correct digits."""


class Points(HeldOut):
    """Points read from a file, or given as an array (`Points.of`).

    Args:
        path: file of points: .npy, .npz (with one array, or one called x), .csv or .txt, with or
            without a header.
        held_out: fraction of the points kept for testing, between 0 and 1.
        split_seed: seed of the random split.
        standardise: whether to scale each dimension to mean 0 and standard deviation 1 of the
            training part.
        validation: fraction of the training part kept for the log-likelihood during training and
            for choosing when to stop, which is never used for training or testing; 0 for none.
            `auto`: a twentieth, at most 1,000 points, and none if that is fewer than 20.
    Shapes: (N, D) in the file, or (N,) for D = 1.
    """

    def __init__(
        self,
        path: str | None = None,
        held_out: float = 0.2,
        split_seed: int = 0,
        standardise: bool = True,
        validation: Validation = 0.0,
    ) -> None:
        if path is None:
            raise BadPoints("name a file of points: --data.path my.npy (in Python: data=array)")
        self._make(read_points(path), path, held_out, split_seed, standardise, validation)

    @classmethod
    def of(
        cls,
        x: NDArray[Any],
        held_out: float = 0.2,
        split_seed: int = 0,
        standardise: bool = True,
        validation: Validation = 0.0,
    ) -> Points:
        """Makes points from an array (N, D), or (N,) for D = 1; other arguments as in the class."""
        points = cls.__new__(cls)
        points._make(_checked(x, "data"), "data", held_out, split_seed, standardise, validation)
        return points

    def _make(
        self,
        points: NDArray[np.float64],
        path: str,
        held_out: float,
        split_seed: int,
        standardise: bool,
        validation: Validation,
    ) -> None:
        if not 0 < held_out < 1:
            raise BadPoints(f"held_out must be between 0 and 1, got {held_out}")
        x = torch.from_numpy(points)
        order, tested, kept = split(len(x), held_out, split_seed, validation)
        test, train = x[order[:tested]], x[order[tested + kept :]]
        between = x[order[tested : tested + kept]]
        mean, std = train.mean(0), train.std(0)
        self._notes = examined(points[order[:SURVEYED].numpy()], path)
        _check_spread(train, mean, std, path)
        if not standardise:
            mean, std = torch.zeros_like(mean), torch.ones_like(std)
        self.mean, self.std = mean, std
        self.train = ((train - mean) / std).float()
        self.test = ((test - mean) / std).float()
        self.validation = ((between - mean) / std).float()
        self._units = Standardised(tuple(mean.tolist()), tuple(std.tolist()))
        self.box = MARGIN * max(float(part.abs().max()) for part in (self.train, self.test))

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.train.shape[1:])

    @property
    def domain(self) -> Domain:
        return Domain(self.shape, self._units)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from the training part with replacement."""
        return self.train[torch.randint(len(self.train), (count,), generator=generator)]


def split(
    count: int, held_out: float, seed: int, validation: Validation, auto: float = VALIDATION
) -> tuple[Tensor, int, int]:
    """A random order of points, and the sizes of the test and validation parts, which come first.

    A test part of 0 is possible if held_out is 0.
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tested = round(held_out * count)
    if held_out and min(tested, count - tested) < LEAST_PART:
        raise BadPoints(
            f"held_out {held_out:g} splits {count} points into {count - tested} for training "
            f"and {tested} for testing; each part needs at least {LEAST_PART}"
        )
    return order, tested, _validation(validation, count - tested, auto)


def _validation(share: Validation, count: int, auto: float) -> int:
    """Number of points of the validation part, of `count` that are not tested on."""
    if share == "auto":
        kept = min(round(auto * count), MOST_VALIDATED)
        return kept if kept >= FEWEST_VALIDATED else 0
    if not 0 <= share < 1:
        raise BadPoints(f"validation must be at least 0 and below 1, got {share}")
    kept = round(share * count)
    if share and min(kept, count - kept) < LEAST_PART:
        raise BadPoints(
            f"validation {share:g} splits {count} points into {count - kept} for training and "
            f"{kept} for validation; each part needs at least {LEAST_PART}"
        )
    return kept


def read_points(path: str) -> NDArray[np.float64]:
    """Reads points (N, D) from a file, in float64.

    Raises:
        BadPoints: if the file cannot be used; the message is one line.
    """
    return _checked(_read(Path(path)), path)


def _read(path: Path) -> NDArray[Any]:
    """Reads the array in the file, of any shape and dtype; no code in the file is executed."""
    return opened(path, {".npy": _numpy, ".npz": _numpy, ".csv": _text, ".txt": _text})


def opened(path: Path, readers: Mapping[str, Callable[[Path], Read]]) -> Read:
    """What the reader for the file's ending returns.

    Raises:
        BadPoints: the file cannot be read; the message is one line.
    """
    if path.suffix not in readers:
        *most, last = readers
        raise BadPoints(f"{path} must end in {', '.join(most)} or {last}")
    if not path.is_file():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise BadPoints(f"there is no file {path}{where}")
    try:
        return readers[path.suffix](path)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, csv.Error) as error:
        if isinstance(error, BadPoints):
            raise
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, UnicodeDecodeError):
            line = "its text is not UTF-8; save it as CSV with UTF-8"
        if "pickle" in line:
            line = "it holds Python objects, which are not loaded, for safety"
        raise BadPoints(f"{path} cannot be read: {line}") from error


def _numpy(path: Path) -> NDArray[Any]:
    check_arrays(path)
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, NpzFile):
            return loaded
        names = loaded.files
        if "x" not in names and len(names) != 1:
            raise BadPoints(f"{path} must hold one array or one called x, got {names}")
        return loaded["x" if "x" in names else names[0]]


def _text(path: Path) -> NDArray[Any]:
    """Reads numbers separated by commas, semicolons or white space, after an optional header."""
    text = path.read_text(encoding="utf-8-sig")
    lines = [line for line in text.splitlines() if line.split("#")[0].strip()]
    if not lines:
        raise BadPoints(f"{path} is empty")
    between = next((mark for mark in ",;" if mark in lines[0]), None)
    numbers = lines if _is_number_line(lines[0], between) else lines[1:]
    if not numbers:
        raise BadPoints(f"{path} holds a header but no points")
    return np.loadtxt(numbers, delimiter=between, ndmin=2)


def _is_number_line(line: str, between: str | None) -> bool:
    try:
        [float(cell) for cell in line.split("#")[0].split(between)]
    except ValueError:
        return False
    return True


def _checked(x: NDArray[Any], path: str) -> NDArray[np.float64]:
    """Returns points (N, D) in float64 after checking that they are finite and not too few."""
    if not (np.issubdtype(x.dtype, np.integer) or np.issubdtype(x.dtype, np.floating)):
        raise BadPoints(f"{path} must hold real numbers, got {x.dtype}")
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or not x.shape[1]:
        raise BadPoints(f"{path} must hold points (N, D), got the shape {x.shape}")
    if len(x) < LEAST_POINTS:
        raise BadPoints(f"{path} holds {len(x)} points; at least {LEAST_POINTS} are needed")
    x = x.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(x).all(1))
    if len(bad):
        raise BadPoints(
            f"{path} has {len(bad)} rows with NaN or infinite values, the first is row {bad[0]}"
        )
    return x


def _check_spread(train: Tensor, mean: Tensor, std: Tensor, path: str) -> None:
    """Raises BadPoints for points on a plane of lower dimension, which have no density."""
    flat = (std <= ROUNDING * mean.abs()) | ~std.isfinite()
    if bool(flat.any()):
        column = int(flat.nonzero()[0])
        what = "constant" if bool(std[column].isfinite()) else "too large for its variance"
        raise BadPoints(f"column {column} of {path} is {what}: there is no density to learn")
    dimension = train.shape[1]
    if len(train) > dimension:
        y = (train - mean) / std
        rank = int(torch.linalg.matrix_rank(y.T @ y / len(y), rtol=COLLINEAR, hermitian=True))
        if rank < dimension:
            raise BadPoints(
                f"the {dimension} columns of {path} lie on a plane of {rank} dimensions: "
                "remove columns that are linear combinations of others"
            )
