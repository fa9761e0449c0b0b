"""Persistent chains: a bank of slots, from which chains are drawn and to which they return.

Each iteration draws slots without replacement, runs their chains on, and writes every chain back
to the slot that it came from. Two ways to refresh:

    refresh         each drawn chain starts anew from noise with this probability (JEM: 5%)
    refresh_batch   with this probability the whole batch does (hybrid CD: 5%)

References:
    Training Restricted Boltzmann Machines using Approximations to the Likelihood Gradient
    (Tieleman, 2008), section 3.
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2019), Algorithm 1.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 4.2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.chains.base import Start
from coldness.chains.noise import GaussianNoise
from coldness.energies.coordinates import Coordinates

FAR = 3.0
"""Chains farther from the middle of the data than this many times its largest half-range are far
outside: no model of the data has any mass there."""


class Bank(Start):
    """A bank of persistent chains.

    Args:
        capacity: number of slots.
        initial: what slots hold first, and what refreshed chains start from.
        refresh: probability that a drawn chain starts anew, in [0, 1].
        refresh_batch: probability that all drawn chains do, in [0, 1].
    """

    def __init__(
        self,
        capacity: int = 10_000,
        initial: Start = GaussianNoise(),  # noqa: B008 - frozen
        refresh: float = 0.0,
        refresh_batch: float = 0.0,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be >= 1, got {capacity}")
        if not (0 <= refresh <= 1 and 0 <= refresh_batch <= 1):
            raise ValueError("refresh and refresh_batch are probabilities, in [0, 1]")
        self.capacity = capacity
        self.initial = initial
        self.refresh = refresh
        self.refresh_batch = refresh_batch
        self.x = torch.empty(0)
        self.age = torch.empty(0, dtype=torch.int64)
        self.outside = torch.zeros(())
        self._middle, self._reach = torch.zeros(()), torch.full((), torch.inf)

    @property
    def has_state(self) -> bool:
        return True

    @property
    def from_noise(self) -> bool:
        return self.initial.from_noise

    def prepare(self, x_data: Tensor, at: Coordinates, generator: torch.Generator) -> None:
        self.x = self.initial.fresh(self.capacity, x_data, at, generator).clone()
        self.age = torch.zeros(self.capacity, dtype=torch.int64, device=x_data.device)
        low, high = x_data.amin(0), x_data.amax(0)
        self._middle, self._reach = (low + high) / 2, FAR * (high - low).max() / 2

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        return self.initial.fresh(count, x_data, at, generator)

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        if count > self.capacity:
            raise ValueError(f"{count} chains drawn from a bank of {self.capacity} slots")
        device = self.x.device
        slots = torch.randperm(self.capacity, generator=generator, device=device)[:count]
        x = self.x[slots]
        if self.refresh or self.refresh_batch:
            new = torch.rand(count, generator=generator, device=device) < self.refresh
            new |= torch.rand(1, generator=generator, device=device) < self.refresh_batch
            noise = self.initial.fresh(count, x_data, at, generator)
            x = torch.where(new.reshape(-1, *[1] * (x.dim() - 1)), noise, x)
            self.age[slots] = self.age[slots].masked_fill(new, 0)
        return x, slots

    def put(self, slots: Tensor | None, x_model: Tensor, steps: int) -> None:
        self.x[slots] = x_model
        self.age[slots] += steps
        far = (x_model - self._middle).abs() > self._reach
        self.outside = far.flatten(1).any(1).float().mean()

    def figures(self) -> dict[str, Tensor]:
        """Age in steps, and the share of the chains just returned that are far outside of data."""
        age = self.age.float()
        return {
            "bank_age_mean": age.mean(),
            "bank_age_max": age.max(),
            "bank_outside": self.outside,
        }

    def state_dict(self) -> dict[str, Tensor]:
        return {"x": self.x, "age": self.age, "middle": self._middle, "reach": self._reach}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        device = self.x.device
        self.x, self.age = state["x"].to(device, copy=True), state["age"].to(device, copy=True)
        if "reach" in state:  # not before 0.4
            self._middle, self._reach = state["middle"].to(device), state["reach"].to(device)
