"""Data given in Python: an array or tensor of points or images, or a `Data` object."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coldness.data.base import Data, HeldOut
from coldness.data.image_readers import pictures_of
from coldness.data.images import ImageData
from coldness.data.points import MARGIN, Points, read_points
from coldness.data.table import Table
from coldness.data.table_files import read_sheet
from coldness.data.table_units import TableUnits
from coldness.domain import Domain

LEAST_TEST_POINTS = 20

SPREAD = 0
"""Seed of the noise on integers of test points."""


def as_data(
    given: Any, options: Mapping[str, Any] | None = None, named: type | None = None
) -> Data:
    """Returns data for training.

    Args:
        given: `Data`; or points (N, D) or (N,); or images (N, H, W), (N, H, W, C) or
            (N, C, H, W), as bytes; in any type that NumPy accepts.
        options: arguments of `Points` for points, such as held_out and split_seed, or of
            `ImageData` for images; None for the defaults.
        named: class of the recipe's own data. Rows are made into a `Table`, which also takes
            frames and text, if that is named, else into `Points`.
    """
    if isinstance(given, Data):
        return given
    if named is not None and issubclass(named, Table):
        return Table.of(given, **_accepted(Table.of, options))
    x = tensor_of(given).numpy()
    if x.ndim in (1, 2):
        return Points.of(x, **_accepted(Points.of, options))
    if x.dtype != np.uint8:
        raise ValueError(f"images must be bytes 0 ... 255 (uint8), got {x.dtype}")
    return ImageData(pictures_of(x), **_accepted(ImageData, options))


def fingerprint(data: Data) -> str:
    """Tells data that was given in Python from other data: its class, shape and a hash."""
    name, finite = type(data).__name__, data.finite
    if finite is None:
        return name
    digest = hashlib.sha256(repr(data.domain.units).encode())
    for part in (finite.train, finite.test):
        digest.update(part.contiguous().numpy().reshape(-1).view(np.uint8).data)
    return f"{name} {tuple(finite.train.shape)} sha256 {digest.hexdigest()[:16]}"


def _accepted(make: Callable[..., Data], options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those of the options that apply."""
    known = inspect.signature(make).parameters
    return {name: value for name, value in (options or {}).items() if name in known}


def test_data(given: Any, domain: Domain) -> Data:
    """Returns data for testing a model, in the units of its domain.

    Args:
        given: `Data`, or points (N, ...) in the data's own units that were not used for training.
        domain: domain of the model.
    """
    if not isinstance(given, Data):
        own = _own(given, domain)
        x = domain.units.spread(own, SPREAD)
        if not bool(x.isfinite().all()):
            raise ValueError("test points must be finite numbers, got NaN or infinite values")
        return TestPoints(x, domain, own.isnan())
    if given.shape != domain.shape:
        raise ValueError(
            f"examples of the data have the shape {given.shape}, but the model needs {domain.shape}"
        )
    if given.domain.units == domain.units:
        return given
    if given.finite is None:
        raise ValueError("the data must have the units that the model was trained on")
    own = torch.cat([given.original(given.finite.train), given.original(given.finite.test)])
    return TestPoints(domain.units.into_model(own), domain)


def in_model(given: Any, domain: Domain, spread: int | None = None) -> Tensor:
    """Returns points (N, ...) in the units of a model, from points in the data's own units.

    Args:
        given: the points.
        domain: of the model.
        spread: seed of the noise that training data carries on integers; None for none.
    """
    x = _own(given, domain)
    return domain.units.into_model(x) if spread is None else domain.units.spread(x, spread)


def _own(given: Any, domain: Domain) -> Tensor:
    """Points (N, ...) in the data's own units, checked, in float64."""
    return domain.check(tensor_of(domain.units.coded(given)).double())


def read_rows(path: str, domain: Domain) -> Any:
    """Reads points from a file, in a form that a model of points takes.

    Raises:
        BadPoints: the file cannot be used; the message is one line.
    """
    return read_sheet(path) if isinstance(domain.units, TableUnits) else read_points(path)


def domain_of(given: Any) -> Domain:
    """Returns the domain of data, or of an array in its own units."""
    if isinstance(given, Data):
        return given.domain
    x = tensor_of(given)
    return Domain((1,) if x.dim() == 1 else tuple(x.shape[1:]))


def tensor_of(given: Any) -> Tensor:
    """Numbers of any kind that NumPy or torch holds, as a tensor on the processor."""
    if isinstance(given, Tensor):
        x = given.detach().cpu()
        return x.double() if x.dtype in (torch.bfloat16, torch.bool) else x
    if np.ma.is_masked(given):
        raise ValueError("data has masked values: fill them in or leave these rows out")
    array = np.asarray(given)
    if array.dtype.kind in "Ob" or not array.dtype.isnative:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"data must be numbers, got {array.dtype}") from error
    if array.dtype.kind not in "iuf":
        raise ValueError(f"data must be real numbers, got {array.dtype}")
    return torch.from_numpy(np.ascontiguousarray(array))


class TestPoints(HeldOut):
    """Points for testing a model that were not used for training.

    The log-likelihood is measured on all points. Distances to samples need two independent parts,
    so the points are split at random into two halves. Samples are compared with the second half.
    The floor is the distance between the two halves. Baseline models are fitted to the first half.

    Args:
        x: points (N, ...) in the units of the model.
        domain: domain of the model.
        missing: which values were missing, in own columns; None if none were.
    """

    has_training_part = False

    def __init__(self, x: Tensor, domain: Domain, missing: Tensor | None = None) -> None:
        if len(x) < LEAST_TEST_POINTS:
            raise ValueError(
                f"{len(x)} test points are too few; at least {LEAST_TEST_POINTS} are needed"
            )
        if domain.is_images is False and bool((flat := x.std(0) == 0).any()):
            raise ValueError(f"column {int(flat.nonzero()[0])} of the test points is constant")
        x = x.float()
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        half = len(x) // 2
        self._domain, self._x, self.places = domain, x, torch.arange(len(x))
        if missing is not None and bool(missing.any()):
            self.missing = missing
        self.train, self.test = x[order[:half]], x[order[half:]]
        self.box = MARGIN * float(x.abs().max())

    @property
    def shape(self) -> tuple[int, ...]:
        return self._domain.shape

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def scored(self) -> Tensor:
        return self._x

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from all points with replacement."""
        return self._x[torch.randint(len(self._x), (count,), generator=generator)]
