"""Base classes of starts, where chains begin, and of adaptations of the step size.

Noise and data starts are frozen dataclasses. Only the bank has a state, which `prepare` creates and
checkpoints contain. The state of an adaptation is one number, the logarithm of the factor that the
step is multiplied by.
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

    Shapes: x_data (N, ...); starts (count, ...), with the dtype and on the device of x_data.
    """

    @property
    def from_noise(self) -> bool:
        """Whether `fresh` chains begin without data, so that the model generates their samples."""
        return True

    @property
    def at_data(self) -> bool:
        """Whether chains begin at the examples of the data batch."""
        return False

    @property
    def has_state(self) -> bool:
        """Whether chains are returned to this start and continued later."""
        return False

    @property
    def weighted(self) -> bool:
        """Whether chains carry weights, which `weigh` updates after every run.

        Negatives are then the states that chains began at, with these weights.
        """
        return False

    def check(self, kernel: Kernel, conditional: bool) -> None:  # noqa: B027 - most fit all
        """Raises ValueError if chains of this start cannot be run with this kernel, or by class."""

    def bind(self, energy: Energy) -> None:  # noqa: B027 - most do not depend on it
        """Called once before training, and after loading; a start that draws from the energy's
        reference takes it here."""

    def prepare(  # noqa: B027 - most starts have no state
        self, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> None:
        """Called once before training; a start with a state creates it here."""

    @abstractmethod
    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        """Returns starting points of new chains."""

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None]:
        """Returns starting points for one iteration, and the slots to return chains to, or None."""
        return self.fresh(count, x_data, at, generator), None

    def draw_by_class(
        self,
        labels: Tensor,
        classes: int,
        x_data: Tensor,
        at: Coordinates,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor | None]:
        """Like `draw`, for chains of given classes (count,); most starts ignore the classes."""
        return self.draw(len(labels), x_data, at, generator)

    def condition_on(self, latent: int) -> None:  # noqa: B027 - most keep no chains
        """Called once after `prepare`, if chains are conditional on latents of this dimension."""

    def draw_by_latent(
        self, z: Tensor, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Like `draw`, for latents (count, d); also returns the latent of every chain.

        A bank continues chains with the latents of their slots, and gives new chains new ones.
        """
        return *self.draw(len(z), x_data, at, generator), z

    def put(  # noqa: B027
        self, slots: Tensor | None, x_model: Tensor, steps: int
    ) -> None:
        """Takes chains back after that many steps."""

    def weigh(
        self, slots: Tensor, first: Tensor, last: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Updates the weights of chains that were put back; returns their logarithms, (B,).

        Called after `put` if the start is `weighted`.

        Args:
            slots: that the chains were returned to.
            first: potential of the chains' target where they began, (B,).
            last: the same where they ended, (B,).
            generator: random number generator.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps no weights")

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor | None:
        """Returns -log p(x) of the law of `fresh`, (B,) in float64, up to a constant.

        None if the density is not known, or is zero somewhere.
        """
        return None

    def without_data(self, x_data: Tensor, at: Coordinates) -> Start:
        """Returns the start for sampling the trained model, which no longer needs data.

        Args:
            x_data: examples (N, ...), for starts that depend on the data.
            at: coordinates of the model.
        """
        return self

    def visits(self, chains: int) -> float:
        """Mean number of times a chain is continued if `chains` chains are drawn in total."""
        return 1.0

    @property
    def capacity(self) -> int | None:
        """Number of slots that chains return to; None if chains are not kept."""
        return None

    def slots(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
        """Returns the chains (N, ...) of a saved `state_dict` in float32, and their ages in steps.

        The ages have shape (N,). Returns None if chains are not kept.
        """
        return None

    def metrics(self) -> dict[str, Tensor]:
        """Metrics to log."""
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:  # noqa: B027
        """Restores a state that `state_dict` returned."""


@dataclass
class Adaptation(ABC):
    """Base class of adaptations, which change the step size during training.

    The scale multiplies the kernel's step size. `before` and `after` may change it before and after
    the chains of an iteration run. Sampling after training uses the last scale.
    """

    log_scale: Tensor = field(
        default_factory=lambda: torch.zeros(()), init=False, repr=False, kw_only=True
    )

    begins_at_own_step: ClassVar[bool] = True
    """Whether the first chains run with the kernel's own step, so that it is known in advance."""

    @property
    def scale(self) -> Tensor:
        """The factor, a scalar, that the kernel's step is multiplied by in chains on U."""
        return self.log_scale.exp()

    @property
    @abstractmethod
    def description(self) -> str:
        """A phrase that says how the step is adapted."""

    def check(self, kernel: Kernel, schedule: StepSchedule) -> None:  # noqa: B027 - most need none
        """Raises ValueError if the step of this kernel and schedule cannot be adapted."""

    def step_size(self, h: float, kernel: Kernel, tempering: float) -> Tensor:
        """Returns the step of chains on tempering * U; h is the step without adaptation."""
        return h * self.scale

    def before(self, energy: Energy, x_data: Tensor) -> None:  # noqa: B027
        """Called before the chains of an iteration run."""

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
        """Called after the chains of an iteration ran `steps` steps of size `step_size`."""
