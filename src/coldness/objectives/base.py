"""What a term is: a loss added to the contrast."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from coldness.energies.base import Energy


@dataclass
class Batch:
    """What an iteration has computed when terms are asked: with gradients where there are any.

    x_data (N, ...), x_model (M, ...) all sources together, and their potentials u_data, u_model.
    labelled: examples (N, ...) drawn apart from x_data and their classes (N,), where a term wants
    them. at_once: examples that may be in memory at a time; null for all.
    """

    energy: Energy
    x_data: Tensor
    x_model: Tensor
    u_data: Tensor
    u_model: Tensor
    labelled: tuple[Tensor, Tensor] | None = None
    at_once: int | None = None


class Term(ABC):
    """Base class of terms; on the scale of the energy E, as the contrast is in the loop."""

    wants_labels: ClassVar[bool] = False
    """Whether it needs labelled examples."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Tensor:
        """The loss, a number."""
