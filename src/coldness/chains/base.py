"""What a start is: where the chains of a source begin.

Noise and data starts are frozen dataclasses. The bank alone has a state, which `prepare` makes and
checkpoints hold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from coldness.energies.coordinates import Coordinates


class Start(ABC):
    """Base class of starts.

    Shapes: x_data (N, ...); starts (count, ...), of the dtype and on the device of x_data.
    """

    @property
    def from_noise(self) -> bool:
        """Whether `fresh` chains begin without data, so that what they reach was generated."""
        return True

    def prepare(  # noqa: B027 - most starts have no state
        self, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> None:
        """Called once before training; a start with a state makes it here."""

    @abstractmethod
    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        """Where chains begin that have no history."""

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """Starts for one iteration, and the slots they must be returned to, if any."""
        return self.fresh(count, x_data, at, generator), None

    def put(  # noqa: B027
        self, slots: Tensor | None, x_model: Tensor, steps: int
    ) -> None:
        """Takes chains back, after that many steps."""

    def figures(self) -> dict[str, Tensor]:
        """What is worth logging."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Puts back what `state_dict` gave."""
