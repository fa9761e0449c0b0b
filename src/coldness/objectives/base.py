"""What a term is: a loss added to the contrast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from coldness.energies.base import Energy


@dataclass
class Batch:
    """What an iteration has computed when terms are asked: with gradients where there are any.

    x_data (N, ...), x_model (M, ...) all sources together, and their potentials u_data, u_model.
    """

    energy: Energy
    x_data: Tensor
    x_model: Tensor
    u_data: Tensor
    u_model: Tensor


class Term(ABC):
    """Base class of terms; on the scale of the energy E, as the contrast is in the loop."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Tensor:
        """The loss, a number."""
