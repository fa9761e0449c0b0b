"""The kernel protocol: hyper-parameters and pure functions of an explicit state.

A kernel is a frozen dataclass. `draw` draws the random numbers of several steps from a generator;
`init` makes the state from x; `step` makes one transition. The energy is passed per call as a
`Field`, a function x -> (U(x), dU(x)), because the network changes at every update. Everything in
`step` is tensor arithmetic, so that `kernels.run` can compile it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from coldness.energies.coordinates import Coordinates

Field = Callable[[Tensor], tuple[Tensor, Tensor]]
State = tuple[Tensor, ...]


class Info(NamedTuple):
    """Diagnostics of a step, which the next step does not need.

    potential: U at the state before the step, (B,). gradient: dU there, (B, ...).
    acceptance: probability with which each move was accepted, (B,); ones if the kernel never
    rejects.
    """

    potential: Tensor
    gradient: Tensor
    acceptance: Tensor


@dataclass(frozen=True)
class Kernel(ABC):
    """Base class of kernels.

    Args:
        step_size: > 0, on the potential U.
    """

    step_size: float

    adjusted: ClassVar[bool] = True
    """Whether moves can be rejected, so that the step size can be adapted to an acceptance rate."""

    def __post_init__(self) -> None:
        if not self.step_size > 0:
            raise ValueError(f"step_size must be > 0, got {self.step_size}")

    @property
    def gradients_per_step(self) -> int:
        return 1

    @property
    def langevin_step(self) -> float:
        """The step h of Langevin dynamics on U that corresponds to this step size."""
        return self.step_size

    @property
    def affine(self) -> bool:
        """Whether a move in y, with x = m + L y, is the same move as in x.

        True if nothing is clamped or clipped in x. In full coordinates chains then run in y, which
        saves a product with L at every step. A subclass with its own `step` must state it anew.
        """
        return False

    @property
    def box(self) -> tuple[float, float] | None:
        """The range that every coordinate is cut to after a step; None for no such range."""
        return None

    @property
    def has_twin(self) -> bool:
        """Whether there is a Metropolis-adjusted kernel that proposes the same moves."""
        return True

    def adjusted_twin(self) -> Kernel:
        """The Metropolis-adjusted kernel that proposes the same moves."""
        return self

    @classmethod
    def step_for_noise(cls, noise: float) -> float:
        """The step size whose noise per step has standard deviation s: h = s^2 / 2."""
        return noise**2 / 2

    @abstractmethod
    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Random numbers of several steps; the first dimension of each tensor is the step."""

    @abstractmethod
    def init(self, field: Field, x: Tensor) -> State:
        """The state at x, whose first entry is x."""

    def potential_in(self, state: State) -> Tensor | None:
        """U at the state's x, (B,), if the state carries it; None if it does not."""
        return None

    @abstractmethod
    def step(
        self, field: Field, state: State, noise: tuple[Tensor, ...], h: Tensor, at: Coordinates
    ) -> tuple[State, Info]:
        """One transition with step size h (shaped to broadcast with x) in the coordinates `at`."""


def draw_normal(steps: int, x: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers (steps, *x.shape)."""
    return torch.randn((steps, *x.shape), generator=generator, device=x.device, dtype=x.dtype)


def draw_log_uniform(steps: int, x: Tensor, generator: torch.Generator) -> Tensor:
    """Logarithms of uniform numbers (steps, B), for Metropolis tests."""
    shape = (steps, x.shape[0])
    return torch.rand(shape, generator=generator, device=x.device, dtype=x.dtype).log_()


def total(v: Tensor) -> Tensor:
    """Sum over all dimensions but the first, (B,)."""
    return v.flatten(1).sum(1)


def metropolis(
    state: State, proposal: State, log_ratio: Tensor, log_uniform: Tensor
) -> tuple[State, Tensor]:
    """Accept each proposal with probability min(1, exp(log_ratio)); also return that probability.

    A NaN ratio is accepted, so that it shows in the chain instead of looking like a rejection.
    """
    accepted = (log_uniform < log_ratio) | log_ratio.isnan()
    moved = tuple(
        torch.where(accepted.reshape(-1, *[1] * (new.dim() - 1)), new, old)
        for old, new in zip(state, proposal, strict=True)
    )
    return moved, log_ratio.clamp(max=0).exp()
