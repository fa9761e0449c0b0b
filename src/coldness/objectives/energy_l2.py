"""Energy regularisation: keeps the energies of data and negatives from drifting off together.

    strength * mean(E(x+)^2 + E(x-)^2)

References:
    Implicit Generation and Modeling with Energy-Based Models (Du, Mordatch, 2019), section 3.3.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al.), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from coldness.objectives.base import Batch, Term


@dataclass(frozen=True)
class EnergyL2(Term):
    """Penalty on the squared energies of data and negatives.

    Args:
        strength: weight of the penalty in the loss, > 0.
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.strength > 0:
            raise ValueError(f"strength must be > 0, got {self.strength}")

    def __call__(self, batch: Batch) -> Tensor:
        squares = batch.u_data.square().mean() + batch.u_model.square().mean()
        return self.strength * squares / batch.energy.coldness**2
