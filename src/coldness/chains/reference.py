"""Chains that begin at samples of the energy's reference (energies/reference.py).

The reference can be sampled exactly and is close to the model, so that few steps are enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.chains.base import Start
from coldness.energies.base import Energy
from coldness.energies.coordinates import Coordinates
from coldness.energies.reference import FittedMixture


class ReferenceStart(Start):
    """Starts chains at independent samples of the reference of the energy."""

    def __init__(self) -> None:
        self._reference: FittedMixture | None = None

    def bind(self, energy: Energy) -> None:
        if energy.reference is None:
            raise ValueError(
                "ReferenceStart needs an energy with a fitted reference (energy.reference)"
            )
        self._reference = energy.reference

    @property
    def reference(self) -> FittedMixture:
        if self._reference is None:
            raise ValueError("ReferenceStart was not bound to an energy")
        return self._reference

    def without_data(self, x_data: Tensor, at: Coordinates) -> Start:
        start = ReferenceStart()
        start._reference = self._reference
        return start

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        y = self.reference.sample(count, generator).to(x_data)
        return at.unwhiten(y.reshape(count, *x_data.shape[1:]))

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor:
        own = self.reference.means
        return self.reference(at.whiten(x).flatten(1).to(own)).double()
