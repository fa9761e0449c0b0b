"""Ways to break a run on purpose, as parts that a recipe can name.

They stand for accidents that no setting causes: one batch that gives a gradient without numbers, a
bank whose chains were spoilt, chains that suddenly start in the wrong place. Each happens once, at
its iteration, counted from where the process began to train: a rollback does not undo what is
outside of the run, and does not make an accident happen again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from coldness.chains import Bank, GaussianNoise, Start
from coldness.energies import Coordinates
from coldness.objectives import Batch, Term


class NaNGradient(Term):
    """One gradient that is not a number; the loss itself is not touched.

    Args:
        at: iteration.
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
    """A bank of which a share is overwritten.

    Args:
        capacity: number of slots.
        initial: what slots hold first, and what refreshed chains start from.
        refresh: probability that a drawn chain starts anew.
        at: iteration.
        share: of the slots.
        value: that is written into all their coordinates.
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
    """Noise that moves away.

    Args:
        std: of the noise, around 0 and later around `mean`.
        at: iteration.
        mean: where chains start from then on.
        later_std: of the noise there.
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
