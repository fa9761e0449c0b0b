"""The domain of the data: the shape of an example, its classes and attributes, and its own units.

    x_own = original(x),     x = into_model(x_own),     log p(x_own) = log p(x) - log_scale

Networks and chains work on x, which has a scale near one; people work in the data's own units. The
domain is saved with the model. It holds everything that a model needs to know about its data to be
built, to generate samples and to compute scores when the data is not at hand.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor


class Units(ABC):
    """A fixed, invertible map between the data's own units and the units of the model."""

    @abstractmethod
    def into_model(self, x: Tensor) -> Tensor:
        """Converts points (B, ...) from the data's own units to the units of the model."""

    @abstractmethod
    def original(self, x: Tensor) -> Tensor:
        """Converts points (B, ...) from the units of the model to the data's own units."""

    @abstractmethod
    def log_scale(self, shape: tuple[int, ...]) -> float:
        """Returns log |det d original / dx| for examples of this shape."""


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
    def dimensions(self) -> int:
        """Number of values per example."""
        return math.prod(self.shape)

    @property
    def log_scale(self) -> float:
        """log p in the data's own units = log p in the units of the model - log_scale."""
        return self.units.log_scale(self.shape)

    def check(self, x: Tensor) -> Tensor:
        """Returns points (B, ...) of this shape; raises ValueError for points of another shape.

        Images may be given flattened, one per row, with channels last, or without channels if
        they have one.
        """
        if x.dim() == 1 and self.shape == (1,):
            x = x[:, None]
        if self.is_images and tuple(x.shape[1:]) == (*self.shape[1:], self.shape[0]):
            x = x.permute(0, 3, 1, 2)
        elif self.is_images and self.shape[0] == 1 and tuple(x.shape[1:]) == self.shape[1:]:
            x = x[:, None]
        if x.dim() == 2 and len(self.shape) != 1 and x.shape[1] == self.dimensions:
            return x.reshape(-1, *self.shape)
        if tuple(x.shape[1:]) == self.shape:
            return x
        if len(self.shape) == 1:
            got = f"{x.shape[1]} columns" if x.dim() == 2 else f"the shape {tuple(x.shape)}"
            raise ValueError(f"points must have {self.shape[0]} columns (N, D), got {got}")
        shape = ", ".join(map(str, self.shape))
        raise ValueError(f"examples must have the shape (N, {shape}), got {tuple(x.shape)}")
