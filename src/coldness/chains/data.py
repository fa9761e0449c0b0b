"""Chains that start at the data batch, as in contrastive divergence.

Chain i starts at example i of the batch. The pairing matters: it gives the difference of the two
energies a much smaller variance than independent batches would.

References:
    Training Products of Experts by Minimizing Contrastive Divergence (Hinton, 2002), section 3.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 3, on the variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.chains.base import Start
from coldness.energies.coordinates import Coordinates


@dataclass(frozen=True)
class DataStart(Start):
    """Starts chains at the first `count` examples of the batch; a larger count repeats it."""

    @property
    def from_noise(self) -> bool:
        return False

    @property
    def at_data(self) -> bool:
        return True

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        if count <= len(x_data):
            return x_data[:count]
        return x_data.repeat(-(-count // len(x_data)), *[1] * (x_data.dim() - 1))[:count]
