"""What data is: a sampler of batches; and, where its density is known, the density."""

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


class KnownDensity(Data):
    """Data whose law is known: exact sampler, exact log-density, support box and entropy."""

    energy: Energy
    """With known log Z, in float64."""

    box: float
    """Half the side of the cube around 0 that holds all but a negligible part of the mass."""

    local_scales: Tensor
    """Smallest local standard deviation in each dimension, of the shape of one example."""

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
