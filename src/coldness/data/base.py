"""What data is: a sampler of batches; its density where known; a test part, labels where finite."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

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

    def original(self, x: Tensor) -> Tensor:
        """Examples or samples (B, ...) in the data's own units."""
        return x

    def into_model(self, x: Tensor) -> Tensor:
        """Points (B, ...) in the data's own units, in the coordinates of examples: the inverse."""
        return x

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

    log_scale: float
    """log p in the data's own units = log p in the model's coordinates - log_scale."""

    box: float
    """Half the side of the cube around 0 that holds all points, with a margin."""

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

    @abstractmethod
    def sample_labelled(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Training examples (count, ...), made as those of `sample`, and their labels (count,)."""


def _without_repetition(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return x[torch.randperm(len(x), generator=generator)[:count]]
