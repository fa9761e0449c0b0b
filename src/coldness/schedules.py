"""Quantities that change over training: learning rate, beta, data noise, step size.

A schedule is a function of the iteration t out of n. Wherever a recipe accepts a schedule, it also
accepts a plain number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass


class Schedule(ABC):
    """A number for every iteration."""

    @abstractmethod
    def at(self, t: int, n: int) -> float:
        """Value at iteration t = 0, 1, ... of n."""


@dataclass(frozen=True)
class Geometric(Schedule):
    """max(floor, start * rate^t): the annealing of the Anatomy paper's practical appendix, B.

    Args:
        start: value at the first iteration.
        rate: factor per iteration, in (0, 1].
        floor: smallest value.
    """

    start: float = 1.0
    rate: float = 0.99995
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be in (0, 1], got {self.rate}")

    def at(self, t: int, n: int) -> float:
        return max(self.floor, self.start * self.rate**t)


@dataclass(frozen=True)
class Linear(Schedule):
    """Linear from start to end over the first part of training; then constant.

    Args:
        start: value at the first iteration.
        end: value at the end of the change.
        part: fraction of training that the change takes, in (0, 1].
    """

    start: float
    end: float
    part: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.part <= 1:
            raise ValueError(f"part must be in (0, 1], got {self.part}")

    def at(self, t: int, n: int) -> float:
        return self.start + (self.end - self.start) * min(1.0, t / max(1, self.part * (n - 1)))


@dataclass(frozen=True)
class Cosine(Schedule):
    """From start to end along half a cosine.

    Args:
        start: value at the first iteration.
        end: value at the last iteration.
    """

    start: float = 1.0
    end: float = 0.0

    def at(self, t: int, n: int) -> float:
        return self.end + (self.start - self.end) * (1 + math.cos(math.pi * t / max(1, n - 1))) / 2


@dataclass(frozen=True)
class Stairs(Schedule):
    """Piecewise constant: multiplied by a factor at given fractions of training.

    Args:
        start: value at the first iteration.
        factor: factor of each change.
        at_parts: fractions of training at which the value changes, in (0, 1).
    """

    start: float = 1.0
    factor: float = 0.3
    at_parts: tuple[float, ...] = (0.8, 0.9)

    def __post_init__(self) -> None:
        if not all(0 < part < 1 for part in self.at_parts):
            raise ValueError(f"at_parts must be in (0, 1), got {list(self.at_parts)}")

    def at(self, t: int, n: int) -> float:
        return self.start * self.factor ** sum(t >= part * n for part in self.at_parts)


@dataclass(frozen=True)
class WarmUp(Schedule):
    """Another schedule, multiplied by (t + 1) / iterations during the first iterations.

    Args:
        iterations: length of the warm-up.
        then: the schedule or number that is warmed up.
    """

    iterations: int
    then: float | Schedule = 1.0

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ValueError(f"iterations must be >= 1, got {self.iterations}")

    def at(self, t: int, n: int) -> float:
        return min(1.0, (t + 1) / self.iterations) * value_at(self.then, t, n)


def value_at(quantity: float | Schedule, t: int, n: int) -> float:
    """The value of a schedule, or of a constant, at iteration t of n."""
    return quantity.at(t, n) if isinstance(quantity, Schedule) else float(quantity)


def name_or_value(quantity: float | Schedule) -> str | float:
    """For tables: the class of a schedule, or the constant."""
    return type(quantity).__name__ if isinstance(quantity, Schedule) else quantity
