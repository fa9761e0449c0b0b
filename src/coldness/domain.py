"""The domain of the data: the shape of an example, its classes and attributes, and its own units.

    x_own = original(x),     x = into_model(x_own)
    log p(x_own) = log p(x) - log_scale - log_stretch(x)

Networks and chains work on x, which has a scale near one; people work in the data's own units. The
domain is saved with the model. It holds everything that a model needs to know about its data to be
built, to generate samples and to compute scores when the data is not at hand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


class Units(ABC):
    """A fixed, invertible map between the data's own units and the units of the model."""

    @property
    def is_table(self) -> bool:
        """Whether examples are rows of a table, whose columns have a meaning of their own."""
        return False

    @abstractmethod
    def into_model(self, x: Tensor) -> Tensor:
        """Converts points (B, ...) from the data's own units to the units of the model."""

    @abstractmethod
    def original(self, x: Tensor) -> Tensor:
        """Converts points (B, ...) from the units of the model to the data's own units."""

    @abstractmethod
    def log_scale(self, shape: tuple[int, ...]) -> float:
        """Returns log |det d original / dx| for examples of this shape, where it is constant."""

    def log_stretch(self, x: Tensor) -> Tensor:
        """Returns log |det d original / dx| - log_scale at points x of the model, (B,).

        It is 0 for maps that are linear.
        """
        return torch.zeros(len(x), dtype=torch.float64, device=x.device)

    def spread(self, x: Tensor, seed: int) -> Tensor:
        """`into_model` with the noise that training data carries on integers; here without any."""
        return self.into_model(x)

    def own_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of one example in its own units."""
        return shape

    def names(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        """Returns the names of columns in their own units."""
        return tuple(map(str, range(math.prod(self.own_shape(shape)))))

    def inner_names(self, shape: tuple[int, ...]) -> tuple[str, ...]:
        """Returns the names of the columns that the model works on."""
        return self.names(shape)

    def categories(self, column: int) -> tuple[str, ...]:
        """Returns the names of the categories of one own column; empty where it holds numbers."""
        return ()

    def written(self, column: int, value: float) -> str:
        """Returns a value of one own column as people write it."""
        return f"{value:.4g}"

    def per_column(self, values: Tensor) -> Tensor:
        """Returns, from values for every column of the model (B, D), one for each own column."""
        return values

    def rounded(self, x: Any) -> Any:
        """Returns points in their own units with integers as whole numbers."""
        return x

    def coded(self, x: Any) -> Any:
        """Returns examples as numbers; units of tables take frames and text too."""
        return x


@dataclass(frozen=True)
class Plain(Units):
    """The identity: the model works in the data's own units."""

    def into_model(self, x: Tensor) -> Tensor:
        return x

    def original(self, x: Tensor) -> Tensor:
        return x

    def log_scale(self, shape: tuple[int, ...]) -> float:
        return 0.0


@dataclass(frozen=True)
class Standardised(Units):
    """Standardised columns with mean 0 and standard deviation 1: x = (x_own - mean) / std.

    Args:
        mean: one number per column.
        std: one number > 0 per column.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def into_model(self, x: Tensor) -> Tensor:
        return (x - self._row(self.mean, x)) / self._row(self.std, x)

    def original(self, x: Tensor) -> Tensor:
        return x.double() * self._row(self.std, x) + self._row(self.mean, x)

    def log_scale(self, shape: tuple[int, ...]) -> float:
        return float(torch.tensor(self.std, dtype=torch.float64).log().sum())

    def _row(self, values: tuple[float, ...], like: Tensor) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=like.device)


@dataclass(frozen=True)
class Pixels(Units):
    """Pixel values as numbers in [-1, 1]: x = k / half_range - 1.

    Args:
        half_range: half of the largest pixel value.
    """

    half_range: float

    def into_model(self, x: Tensor) -> Tensor:
        return x / self.half_range - 1

    def original(self, x: Tensor) -> Tensor:
        """Returns pixel values without rounding; samples may lie outside the range of pixels."""
        return (x + 1) * self.half_range

    def log_scale(self, shape: tuple[int, ...]) -> float:
        return math.prod(shape) * math.log(self.half_range)


@dataclass(frozen=True)
class Domain:
    """The shape, units, classes and attributes of examples.

    Args:
        shape: shape of one example: (D,) for vectors, (C, H, W) for images.
        units: the data's own units.
        classes: names of the classes; empty if the data has no classes.
        attributes: names of the attributes; empty if the data has no attributes.
    """

    shape: tuple[int, ...]
    units: Units = field(default_factory=Plain)
    classes: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()

    @property
    def is_images(self) -> bool:
        """Whether examples are images (C, H, W). This is the only place where that is decided."""
        return len(self.shape) == 3

    @property
    def is_table(self) -> bool:
        """Whether examples are rows of a table."""
        return self.units.is_table

    @property
    def dimensions(self) -> int:
        """Number of values per example."""
        return math.prod(self.shape)

    @property
    def log_scale(self) -> float:
        """log p in the data's own units = log p in the units of the model - log_scale."""
        return self.units.log_scale(self.shape)

    def log_scale_of(self, x: Tensor) -> float:
        """The mean of log |det d original / dx| over points x (B, ...) of the model."""
        return self.log_scale + float(self.units.log_stretch(x).mean())

    def check(self, x: Tensor) -> Tensor:
        """Returns points (B, ...) of the shape that examples have in their own units.

        Raises ValueError for points of another shape. Images may be given flattened, one per row,
        with channels last, or without channels if they have one.
        """
        shape = self.units.own_shape(self.shape)
        if x.dim() == 1 and shape == (1,):
            x = x[:, None]
        if self.is_images and tuple(x.shape[1:]) == (*self.shape[1:], self.shape[0]):
            x = x.permute(0, 3, 1, 2)
        elif self.is_images and self.shape[0] == 1 and tuple(x.shape[1:]) == self.shape[1:]:
            x = x[:, None]
        if x.dim() == 2 and len(self.shape) != 1 and x.shape[1] == self.dimensions:
            return x.reshape(-1, *self.shape)
        if tuple(x.shape[1:]) == shape:
            return x
        if len(shape) == 1:
            got = f"{x.shape[1]} columns" if x.dim() == 2 else f"the shape {tuple(x.shape)}"
            raise ValueError(f"points must have {shape[0]} columns (N, D), got {got}")
        sides = ", ".join(map(str, self.shape))
        raise ValueError(f"examples must have the shape (N, {sides}), got {tuple(x.shape)}")
