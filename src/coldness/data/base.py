"""Base classes of data: samplers of batches, with optional capabilities.

    data.domain      shape, classes and own units of examples
    data.known       the same data as a KnownDensity if its density is known, else None
    data.finite      the same data as a HeldOut if it is finite with a test part, else None
    data.labelled    the same data as a Labelled if every example has a class, else None
    data.attributed  the same data as an Attributed if examples have attributes, else None

Callers use these properties to find out what the data supports; they never test its Python type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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
        """Shape of one example."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws examples (count, ...) in float32."""

    @property
    def domain(self) -> Domain:
        """Shape, units and classes of examples; override for data with units or classes."""
        return Domain(self.shape)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the data before it was used, one sentence each."""
        return ()

    @property
    def known(self) -> KnownDensity | None:
        """This data if its density is known, else None."""
        return None

    @property
    def finite(self) -> HeldOut | None:
        """This data if it is finite and has a test part, else None."""
        return None

    @property
    def labelled(self) -> Labelled | None:
        """This data if every example has a class, else None."""
        return None

    @property
    def attributed(self) -> Attributed | None:
        """This data if examples have attributes, else None."""
        return None

    def original(self, x: Tensor) -> Tensor:
        """Converts examples or samples (B, ...) to the data's own units."""
        return self.domain.units.original(x)

    def into_model(self, x: Tensor) -> Tensor:
        """Converts points (B, ...) from the data's own units to the units of the model."""
        return self.domain.units.into_model(x)

    def from_bytes(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Converts images (B, C, H, W) with values 0 ... 255 to the units of the model."""
        return images / 127.5 - 1

    def reference(self, count: int, generator: torch.Generator) -> Tensor:
        """Returns at most `count` examples, which samples of a model are compared with."""
        return self.sample(count, generator)

    def held_out_points(self, count: int, generator: torch.Generator) -> Tensor:
        """Returns at most `count` examples, maybe none, that are never trained or tested on."""
        return self.sample(count, generator)

    def pair(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Returns two independent samples of equal size.

        Their energy distance is the floor: the distance that a perfect model would reach.
        """
        return self.sample(count, generator), self.reference(count, generator)


class KnownDensity(Data):
    """Data with a known density: exact sampler, exact log-density, support box and entropy."""

    energy: Energy
    """Energy of the density, with known log Z, in float64."""

    box: float
    """Half the side of the cube around 0 that contains all but a negligible part of the mass."""

    local_scales: Tensor
    """Smallest local standard deviation per dimension, with the shape of one example."""

    plane: Energy | None = None
    """Normalised energy of the first two dimensions, given that all others are 0; None if not
    known."""

    mode_shares: Tensor | None = None
    """Fractions (K,) of the mass in K separated modes, in float64; None if there are no such
    modes."""

    def mode_of(self, x: Tensor) -> Tensor:
        """Returns the mode (B,), 0 ... K-1, whose region each x lies in.

        Raises:
            ValueError: there are no such modes.
        """
        raise ValueError(f"{type(self).__name__} has no separated modes")

    @property
    def known(self) -> KnownDensity:
        return self

    @property
    def narrowest_scale(self) -> float:
        """Smallest local standard deviation in any dimension."""
        return float(self.local_scales.min())

    @property
    @abstractmethod
    def entropy(self) -> float:
        """Entropy of the density, in nats."""

    def log_prob(self, x: Tensor) -> Tensor:
        """Returns log p(x), (B,) in float64."""
        with torch.no_grad():
            return -self.energy(x.double()) - self._log_z

    @cached_property
    def _log_z(self) -> float:
        assert self.energy.log_z is not None
        return self.energy.log_z


class HeldOut(Data):
    """Finite data of unknown density, of which a part is kept for testing.

    Samples of a model are compared with test points. The floor is the distance of training points
    to test points: the distance that a perfect model would reach on this test part.
    """

    train: Tensor
    """Training points (N, ...) in float32, in the units of the model."""

    test: Tensor
    """Test points (M, ...), never trained on."""

    validation: Tensor = torch.empty(0)
    """Examples (V, ...) for choosing when to stop, never used to train or test; may be empty."""

    box: float
    """Half the side of the cube around 0 that contains all points, with a margin."""

    places: Tensor = torch.empty(0, dtype=torch.int64)
    """Where in the file, counted from 0, the points of `scored` are, (M,); empty if not known."""

    missing: Tensor = torch.empty(0, dtype=torch.bool)
    """Which values of `scored` were missing, (M, C) in own columns; empty if none were."""

    has_training_part: bool = True
    """Whether a model was trained on `train`."""

    @property
    def finite(self) -> HeldOut:
        return self

    @property
    def scored(self) -> Tensor:
        """Points (M, ...) whose log-likelihood is measured: never trained on."""
        return self.test

    @property
    def log_scale(self) -> float:
        """log p in the data's own units = log p in the units of the model - log_scale."""
        return self.domain.log_scale

    def reference(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws test points without replacement, at most the size of the smaller part."""
        return _without_repetition(self.test, self._at_most(count), generator)

    def held_out_points(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from the validation part without replacement, at most its size."""
        return _without_repetition(self.validation, count, generator)

    def pair(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws equally many training points and test points without replacement."""
        train = _without_repetition(self.train, self._at_most(count), generator)
        return train, self.reference(count, generator)

    def _at_most(self, count: int) -> int:
        return min(count, len(self.train), len(self.test))


class Labelled(HeldOut):
    """Finite data in which every example has a class."""

    train_labels: Tensor
    """Labels (N,) of the training part, int64 in 0 ... K-1."""

    test_labels: Tensor
    """Labels (M,) of the test part."""

    validation_labels: Tensor
    """Labels (V,) of the validation part."""

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
        """Draws training examples (count, ...) as `sample` does, with their labels (count,)."""


class Attributed(HeldOut):
    """Finite data in which it is known of every example which attributes it has.

    Examples may have several attributes or none. Those of one group are values of one property,
    of which every example has exactly one.
    """

    train_attributes: Tensor
    """Attributes (N, A) of the training part, bool."""

    test_attributes: Tensor
    """Attributes (M, A) of the test part."""

    validation_attributes: Tensor
    """Attributes (V, A) of the validation part."""

    attribute_names: tuple[str, ...]
    """Names of the A attributes; empty if the data has none."""

    attribute_groups: Mapping[str, tuple[str, ...]]
    """Properties, with the names of the attributes that are their values; may be empty."""

    @property
    def attributed(self) -> Attributed | None:
        return self if self.attribute_names else None

    @property
    def domain(self) -> Domain:
        return Domain(self.shape, attributes=self.attribute_names)


def _without_repetition(x: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return x[torch.randperm(len(x), generator=generator)[:count]]
