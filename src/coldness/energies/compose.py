"""Compositions of energies.

    Sum        U = sum_k w_k U_k                      product of experts
    Mixture    U = -log sum_k w_k exp(-U_k) / Z_k     sum of densities; Z_k = 1 if not known
    Tempered   U = t U_0                              p_0 to the power t

References:
    Compositional Visual Generation with Energy Based Models (Du, Li, Mordatch, 2020), Eqs. 4 to 9.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coldness.energies.analytic import checked_weights
from coldness.energies.base import Energy


class Sum(Energy):
    """Weighted sum of potentials.

    Args:
        parts: the energies.
        weights: one number per part; None for weights of 1.
    """

    def __init__(self, parts: Sequence[Energy], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.weights = [1.0] * len(parts) if weights is None else [float(w) for w in weights]
        if len(self.weights) != len(parts):
            raise ValueError(
                f"got {len(self.weights)} weights for {len(parts)} parts: give one per part"
            )

    def energy(self, x: Tensor) -> Tensor:
        potentials = [w * part(x) for w, part in zip(self.weights, self.parts, strict=True)]
        return torch.stack(potentials).sum(0)

    @property
    def confined(self) -> bool:
        return all(bool(part.confined) for part in self.parts) and min(self.weights, default=0) > 0


class Mixture(Energy):
    """Mixture of the parts' densities.

    Args:
        parts: the energies. If log Z is known for all of them, it is used; otherwise the mixture
            weights are relative to the unnormalised parts.
        weights: one number > 0 per part, with sum 1; None for equal weights.
    """

    log_weights: Tensor

    def __init__(self, parts: Sequence[Energy], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        log_z = [part.log_z for part in parts]
        self._normalised = all(z is not None for z in log_z)
        log_weights = checked_weights(weights, len(parts)).log()
        if self._normalised:
            log_weights = log_weights - torch.tensor(log_z, dtype=torch.float64)
        self.register_buffer("log_weights", log_weights)

    def energy(self, x: Tensor) -> Tensor:
        potentials = torch.stack([part(x) for part in self.parts], 1)
        return -torch.logsumexp(self.log_weights - potentials, 1)

    @property
    def log_z(self) -> float | None:
        return 0.0 if self._normalised else None

    @property
    def confined(self) -> bool:
        return all(bool(part.confined) for part in self.parts)


class Tempered(Energy):
    """The density of an energy raised to a power: colder for t > 1, warmer for t < 1.

    Args:
        part: the energy.
        tempering: t, the power, > 0.
    """

    def __init__(self, part: Energy, tempering: float) -> None:
        super().__init__(coldness=tempering * part.coldness)
        self.part = part
        self.coordinates = part.coordinates

    def energy(self, x: Tensor) -> Tensor:
        return self.part.energy(x)

    @property
    def confined(self) -> bool:
        return self.part.confined
