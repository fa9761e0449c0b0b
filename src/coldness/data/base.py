"""What data is: a sampler of batches, and what more it can do.

    data.domain      shape, classes and own units of examples
    data.known       the same data as a KnownDensity, where its law is known; None elsewhere
    data.finite      as a HeldOut, where examples are finite and a part is kept for testing
    data.labelled    as a Labelled, where every example has a class

Callers ask the data what it can do, never which class it is of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from coldness.domain import Domain
from coldness.energies.base import Energy


class Data(ABC):
    """A stream of examples."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one example."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Examples (count, ...) in float32."""

    @property
    def domain(self) -> Domain:
        """What examples are; data with units or classes of its own says so here."""
        return Domain(self.shape)

    @property
    def known(self) -> KnownDensity | None:
        """This data, where its law is known."""
        return None

    @property
    def finite(self) -> HeldOut | None:
        """This data, where it is finite and a part of it is kept for testing."""
        return None

    @property
    def labelled(self) -> Labelled | None:
        """This data, where every example has a class."""
        return None

    def original(self, x: Tensor) -> Tensor:
        """Examples or samples (B, ...) in the data's own units."""
        return self.domain.units.original(x)

    def into_model(self, x: Tensor) -> Tensor:
        """Points (B, ...) in the data's own units, as the model sees them: the inverse."""
        return self.domain.units.into_model(x)

    def from_bytes(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Images (B, C, H, W) with values 0 ... 255 as the model sees data."""
        return images / 127.5 - 1

    def reference(self, count: int, generator: torch.Generator) -> Tensor:
        """Examples that samples of a model are compared with: at most `count`."""
        return self.sample(count, generator)

    def pair(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Two independent samples of equal size: their energy distance is the floor."""
        return self.sample(count, generator), self.reference(count, generator)


class KnownDensity(Data):
    """Data whose law is known: exact sampler, exact log-density, support box and entropy."""

    energy: Energy
    """With known log Z, in float64."""

    box: float
    """Half the side of the cube around 0 that holds all but a negligible part of the mass."""

    local_scales: Tensor
    """Smallest local standard deviation in each dimension, of the shape of one example."""

    plane: Energy | None = None
    """Density of the first two dimensions given that all others are 0, where that is known; of a
    normalised energy."""

    @property
    def known(self) -> KnownDensity:
        return self

    @property
    def narrowest_scale(self) -> float:
        """Smallest local standard deviation of all."""
        return float(self.local_scales.min())

    @property
    @abstractmethod
    def entropy(self) -> float:
        """Of the law, in nats."""

    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x), (B,) in float64."""
        with torch.no_grad():
            return -self.energy(x.double()) - self._log_z

    @cached_property
    def _log_z(self) -> float:
        assert self.energy.log_z is not None
        return self.energy.log_z


class HeldOut(Data):
    """Finite data of unknown law, of which a part is kept for testing.

    Samples of a model are compared with test points, and the floor is the distance of training
    points to test points: what a sampler of the true law would reach on this test part.
    """

    train: Tensor
    """(N, ...) in float32, in the coordinates of the model."""

    test: Tensor
    """(M, ...), never trained on."""

    box: float
    """Half the side of the cube around 0 that holds all points, with a margin."""

    has_training_part: bool = True
    """Whether `train` is what a model was trained on."""

    @property
    def finite(self) -> HeldOut:
        return self

    @property
    def scored(self) -> Tensor:
        """Points (M, ...) whose log-likelihood is measured: never trained on."""
        return self.test

    @property
    def log_scale(self) -> float:
        """log p in the data's own units = log p in the model's coordinates - log_scale."""
        return self.domain.log_scale

    def reference(self, count: int, generator: torch.Generator) -> Tensor:
        """Test points without repetition, no more than either part holds."""
        return _without_repetition(self.test, self._at_most(count), generator)

    def pair(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Training points and test points, without repetition, of equal number."""
        train = _without_repetition(self.train, self._at_most(count), generator)
        return train, self.reference(count, generator)

    def _at_most(self, count: int) -> int:
        return min(count, len(self.train), len(self.test))


class Labelled(HeldOut):
    """Finite data of which every example has a class."""

    train_labels: Tensor
    """(N,) int64, in 0 ... K-1."""

    test_labels: Tensor
    """(M,)."""

    validation: Tensor
    """(V, ...), neither trained nor tested on: for choosing when to stop; may be empty."""

    validation_labels: Tensor
    """(V,)."""

    classes: tuple[str, ...]
    """Names of the K classes."""

    @property
    def labelled(self) -> Labelled:
        return self

    @property
    def domain(self) -> Domain:
        return Domain(self.shape, classes=self.classes)

    @abstractmethod
    def sample_labelled(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Training examples (count, ...), made as those of `sample`, and their labels (count,)."""


def _without_repetition(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return x[torch.randperm(len(x), generator=generator)[:count]]
