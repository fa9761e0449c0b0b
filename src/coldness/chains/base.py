"""What a start is, where the chains of a source begin; and what an adaptation of their step is.

Noise and data starts are frozen dataclasses. The bank alone has a state, which `prepare` makes and
checkpoints hold. An adaptation has one number, the logarithm of what the step is multiplied by.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from coldness.energies.base import Energy
from coldness.energies.coordinates import Coordinates
from coldness.kernels import Chains, Kernel, StepSchedule


class Start(ABC):
    """Base class of starts.

    Shapes: x_data (N, ...); starts (count, ...), of the dtype and on the device of x_data.
    """

    @property
    def from_noise(self) -> bool:
        """Whether `fresh` chains begin without data, so that what they reach was generated."""
        return True

    @property
    def at_data(self) -> bool:
        """Whether chains begin at the examples of the batch themselves."""
        return False

    @property
    def has_state(self) -> bool:
        """Whether chains return to it."""
        return False

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

    def draw_by_class(
        self,
        labels: Tensor,
        classes: int,
        x_data: Tensor,
        at: Coordinates,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor | None]:
        """Starts for chains of given classes (count,); most starts are the same for all."""
        return self.draw(len(labels), x_data, at, generator)

    def put(  # noqa: B027
        self, slots: Tensor | None, x_model: Tensor, steps: int
    ) -> None:
        """Takes chains back, after that many steps."""

    def without_data(self, x_data: Tensor, at: Coordinates) -> Start:
        """The start that samples of a trained model begin at, which needs no data any more.

        Args:
            x_data: examples (N, ...), for a start that looks at data.
            at: the coordinates of the model.
        """
        return self

    def visits(self, chains: int) -> float:
        """How often a chain is carried on, on average, where so many are drawn in all."""
        return 1.0

    @property
    def capacity(self) -> int | None:
        """Number of slots that chains return to; None where they do not."""
        return None

    def slots(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
        """Chains (N, ...) in float32 and their ages in steps (N,), in what `state_dict` gave.

        None where chains do not return to a start.
        """
        return None

    def metrics(self) -> dict[str, Tensor]:
        """What is worth logging."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Puts back what `state_dict` gave."""


@dataclass
class Adaptation(ABC):
    """Base class of adaptations: a step size that follows the model during training.

    The scale multiplies the kernel's step size. `before` and `after` may change it around the
    chains of an iteration; sampling after training uses the last one.
    """

    log_scale: Tensor = field(
        default_factory=lambda: torch.zeros(()), init=False, repr=False, kw_only=True
    )

    begins_at_own_step: ClassVar[bool] = True
    """Whether the first chains run with the kernel's own step, which is then known beforehand."""

    @property
    def scale(self) -> Tensor:
        """What the kernel's step is multiplied by in chains on U; a number."""
        return self.log_scale.exp()

    @property
    @abstractmethod
    def description(self) -> str:
        """What happens to the step, in a phrase."""

    def check(self, kernel: Kernel, schedule: StepSchedule) -> None:  # noqa: B027 - most need none
        """Raises ValueError where a source's kernel or schedule cannot be adapted so."""

    def step_size(self, h: float, kernel: Kernel, tempering: float) -> Tensor:
        """The step of chains on tempering * U, where it would be h without adaptation."""
        return h * self.scale

    def before(self, energy: Energy, x_data: Tensor) -> None:  # noqa: B027
        """Called before an iteration's chains run."""

    def after(  # noqa: B027
        self,
        energy: Energy,
        kernel: Kernel,
        chains: Chains,
        *,
        steps: int,
        step_size: Tensor | float,
        tempering: float,
        generator: torch.Generator,
    ) -> None:
        """Called after an iteration's chains ran that many steps of that size."""
