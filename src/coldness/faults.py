"""Fault injection: components for recipes that make a training run fail on purpose.

They simulate failures that no setting causes: a batch whose gradient is NaN, a replay buffer with
corrupted chains, and chains that suddenly start in the wrong place. Each fault happens once, at a
given iteration, counted from where the process began to train. A rollback does not reset this
count, because a real failure outside of the run would not be repeated either.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from coldness.chains import Bank, GaussianNoise, Start
from coldness.energies import Coordinates
from coldness.objectives import Batch, Term


class NaNGradient(Term):
    """Makes the gradient NaN at one iteration; the value of the loss does not change.

    Args:
        at: iteration at which the fault happens.
    """

    def __init__(self, at: int = 2000) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, batch: Batch) -> Tensor:
        self.calls += 1
        nothing = 0 * batch.u_data.sum()
        if self.calls == self.at + 1:
            nothing.register_hook(lambda gradient: gradient * float("nan"))
        return nothing


class PoisonedBank(Bank):
    """A replay buffer (`Bank`) of which a fraction of the slots is overwritten once.

    Args:
        capacity: number of slots.
        initial: start of the chains at first, and whenever they are refreshed.
        refresh: probability that a drawn chain is restarted.
        at: iteration at which the fault happens.
        share: fraction of the slots that is overwritten.
        value: value that is written to all coordinates of these slots.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        initial: Start = GaussianNoise(),  # noqa: B008 - frozen
        refresh: float = 0.0,
        at: int = 2000,
        share: float = 0.5,
        value: float = 1000.0,
    ) -> None:
        super().__init__(capacity, initial, refresh)
        self.at = at
        self.share = share
        self.value = value
        self.calls = 0

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        self.calls += 1
        if self.calls == self.at + 1:
            self.x[: round(self.share * self.capacity)] = self.value
        return super().draw(count, x_data, at, generator)


class LostStart(Start):
    """Gaussian noise around 0 that moves to another place at one iteration.

    Args:
        std: standard deviation of the noise before the fault.
        at: iteration at which the fault happens.
        mean: mean of the noise from then on, one number per dimension.
        later_std: standard deviation of the noise from then on.
    """

    def __init__(
        self,
        std: float = 1.0,
        at: int = 2000,
        mean: Sequence[float] = (3.0, -3.0),
        later_std: float = 0.1,
    ) -> None:
        self.std, self.mean, self.later_std = std, tuple(mean), later_std
        self.before, self.after = GaussianNoise(0.0, std), GaussianNoise(self.mean, later_std)
        self.at = at
        self.calls = 0

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        return self.before.fresh(count, x_data, at, generator)

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, None]:
        self.calls += 1
        start = self.after if self.calls > self.at else self.before
        return start.fresh(count, x_data, at, generator), None
