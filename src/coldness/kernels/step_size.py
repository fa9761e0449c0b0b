"""Step sizes: schedules inside a chain, and adaptation to a target acceptance.

Schedule: step k of n uses h * factor(k). The geometric schedule goes from `first` to `last`: large
steps first move a chain to the right region, small steps then refine it.

Dual averaging, with a_t the acceptance at step t and A the target:

    H_t     = (1 - 1/(t + t0)) H_{t-1} + (A - a_t) / (t + t0)
    log h_t = mu - sqrt(t) / gamma * H_t,          mu = log(10 h_0)
    avg log h_t = t^-kappa log h_t + (1 - t^-kappa) avg log h_{t-1}

The chain uses log h_t while adapting; afterwards it should be run with the average.

References:
    The No-U-Turn Sampler (Hoffman, Gelman, 2014), Eq. 6 and Algorithm 5.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class StepSchedule(ABC):
    """How the step size changes along one chain; frozen, because `run` caches the factors."""

    @property
    def is_constant(self) -> bool:
        """Whether every step has the same size."""
        return False

    @abstractmethod
    def factors(self, steps: int) -> Tensor:
        """Factors by which the step size is multiplied, (steps,) in float64."""


@dataclass(frozen=True)
class ConstantSteps(StepSchedule):
    """A constant step size."""

    @property
    def is_constant(self) -> bool:
        return True

    def factors(self, steps: int) -> Tensor:
        return torch.ones(steps, dtype=torch.float64)


@dataclass(frozen=True)
class GeometricSteps(StepSchedule):
    """From `first` to `last` times the step size of the kernel, with a constant ratio.

    Args:
        first: factor at the first step, > 0.
        last: factor at the last step, > 0.
    """

    first: float
    last: float = 1.0

    def __post_init__(self) -> None:
        if not (self.first > 0 and self.last > 0):
            raise ValueError(f"first and last must be > 0, got {self.first} and {self.last}")

    def factors(self, steps: int) -> Tensor:
        ends = math.log(self.first), math.log(self.last)
        return torch.linspace(*ends, steps, dtype=torch.float64).exp()


@dataclass(frozen=True)
class DualAveraging:
    """Adapts the step size until moves are accepted at the target rate.

    Args:
        target: acceptance rate to reach: 0.57 is optimal for MALA, 0.65 to 0.8 for HMC.
        per_chain: adapt one step size per chain instead of one for all.
        gamma: regularisation scale; the smaller, the more strongly log h follows the error.
        t0: number of steps that damp the first iterations.
        kappa: rate at which the average forgets, in (0.5, 1].
    """

    target: float = 0.57
    per_chain: bool = False
    gamma: float = 0.05
    t0: float = 10.0
    kappa: float = 0.75

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError(f"target must be between 0 and 1, got {self.target}")

    def init(self, h: Tensor, chains: int) -> tuple[Tensor, ...]:
        """(t, H, log h, average of log h, mu); h is () or (B,)."""
        log_h = h.log().expand(chains) if self.per_chain else h.log().mean()
        log_h = log_h.clone()
        zero = torch.zeros_like(log_h)
        return zero.new_zeros(()), zero, log_h, zero, log_h + math.log(10.0)

    def update(self, state: tuple[Tensor, ...], acceptance: Tensor) -> tuple[Tensor, ...]:
        """The next state, after moves that were accepted with probabilities (B,)."""
        t, error, _, average, mu = state
        t = t + 1
        a = acceptance if self.per_chain else acceptance.mean()
        rate = 1 / (t + self.t0)
        error = (1 - rate) * error + rate * (self.target - a)
        log_h = mu - t.sqrt() / self.gamma * error
        weight = t**-self.kappa
        return t, error, log_h, weight * log_h + (1 - weight) * average, mu
