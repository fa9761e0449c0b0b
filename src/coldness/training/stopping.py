"""Early stopping and selection by the held-out log-likelihood that walkers measure.

Every measurement of the walkers (likelihood/walkers.py) is a check. The weights of the best check
are kept, and training ends after `patience` checks in a row without a better one. The trained model
has the kept weights, also if training runs to its last iteration.

A check whose standard error of log Z exceeds `live.renew` is skipped: a value that is too high by
a nat would win every later comparison. All checks use the same validation points, so the scatter of
these points cancels in comparisons as far as it is the same under two models.

Choosing the best of many estimates makes it too high, and walkers err on that side anyway.
Therefore log Z of the kept model is estimated afresh by AIS, like that of any trained model.

References:
    Early Stopping - But When? (Prechelt, 1998), section 2.2, the criterion UP on validation error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coldness.guard.rescue import copied


@dataclass(frozen=True)
class Stop:
    """When training ends early.

    Args:
        patience: checks in a row without a better held-out log-likelihood after which training
            ends; there is one every `live.every` iterations.
        least: nats by which a check must be better than the best so far to count as better.
    """

    patience: int = 50
    least: float = 0.0

    def __post_init__(self) -> None:
        if self.patience < 1 or not self.least >= 0:
            raise ValueError(
                f"stop needs patience >= 1 and least >= 0, got {self.patience} and {self.least}"
            )


class Stopping:
    """The best check so far and its weights.

    Args:
        how: settings; None to keep nothing and never stop.
    """

    def __init__(self, how: Stop | None) -> None:
        self.how = how
        self.best = -math.inf
        self.iteration = 0
        self.since = 0
        self.skipped = 0
        self.weights: dict[str, Any] | None = None

    @property
    def done(self) -> bool:
        """Whether the patience is used up."""
        return self.how is not None and self.since >= self.how.patience

    def check(self, value: float, iteration: int, weights: Callable[[], dict[str, Any]]) -> None:
        """Compares a log-likelihood with the best, and keeps a copy of the weights if it is better.

        Args:
            value: in nats.
            iteration: of the weights.
            weights: returns them, as a nested state of tensors.
        """
        if self.how is None:
            return
        self.since, self.skipped = self.since + 1, 0
        if value > self.best + (self.how.least if math.isfinite(self.best) else 0.0):
            self.best, self.iteration, self.since = value, iteration, 0
            self.weights = copied(weights())

    def skip(self) -> bool:
        """Counts a check that cannot be compared; True whenever the patience is used up by them."""
        if self.how is None:
            return False
        self.skipped += 1
        return self.skipped % self.how.patience == 0

    def state_dict(self) -> dict[str, Any]:
        names = ("best", "iteration", "since", "skipped", "weights")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
