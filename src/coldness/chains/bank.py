"""Persistent chains in a replay buffer, called `bank` here.

Each iteration draws slots without replacement, continues their chains, and writes every chain back
to the slot that it came from. There are two ways to refresh chains:

    refresh         each drawn chain is restarted from noise with this probability (JEM: 5%)
    refresh_batch   all drawn chains are restarted with this probability (hybrid CD: 5%)

Chains of given classes come from slots of their class: slot k belongs to class k mod K. Chains that
are conditional on latents keep the latent that they began with until they are restarted.

A bank of images is large. With storage as uint8, values are clipped to the range of the data and
rounded to steps of 1/255 of that range whenever a chain returns. The rounding error has a standard
deviation of 0.23% of the half-range, which must be small compared with the noise of the steps. A
bank may also be kept on the host, in pinned memory; only the drawn slots are then on the device.

References:
    Training Restricted Boltzmann Machines using Approximations to the Likelihood Gradient
    (Tieleman, 2008), section 3.
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2019), Algorithm 1.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Literal

import torch
from torch import Tensor

from coldness.chains.base import Start
from coldness.chains.noise import GaussianNoise
from coldness.energies.base import Energy
from coldness.energies.coordinates import Coordinates

FAR = 3.0
"""A value is far outside the data if its distance from the middle of the data is more than this
many times the largest half-range. No good model of the data has any mass there."""

FEW = 0.01
"""Largest fraction of a chain's coordinates that may be far outside: among 3,072 pixels of Gaussian
noise some always are. In fewer than a hundred dimensions, no coordinate may be."""


class Bank(Start):
    """A replay buffer of persistent chains, called bank here.

    Args:
        capacity: number of slots, one chain each.
        initial: start of the chains at first, and whenever they are refreshed.
        refresh: probability that a drawn chain is restarted, in [0, 1].
        refresh_batch: probability that all drawn chains are restarted together, in [0, 1].
        storage: `float32`, or `uint8` on the range of the data, which takes a quarter of the
            memory.
        place: `device`, or `host` if the device has too little memory.
    """

    def __init__(
        self,
        capacity: int = 10_000,
        initial: Start = GaussianNoise(),  # noqa: B008 - frozen
        refresh: float = 0.0,
        refresh_batch: float = 0.0,
        storage: Literal["float32", "uint8"] = "float32",
        place: Literal["device", "host"] = "device",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be >= 1, got {capacity}")
        if not (0 <= refresh <= 1 and 0 <= refresh_batch <= 1):
            raise ValueError("refresh and refresh_batch must be probabilities in [0, 1]")
        self._capacity = capacity
        self.initial = initial
        self.refresh = refresh
        self.refresh_batch = refresh_batch
        self.storage = storage
        self.place = place
        self.x = torch.empty(0)
        self.age = torch.empty(0, dtype=torch.int64)
        self.latents = torch.empty(0)
        self.outside = torch.zeros(())
        self._middle, self._reach = torch.zeros(()), torch.full((), torch.inf)
        self._range = torch.tensor([-1.0, 1.0])

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def has_state(self) -> bool:
        return True

    @property
    def from_noise(self) -> bool:
        return self.initial.from_noise

    def bind(self, energy: Energy) -> None:
        self.initial.bind(energy)

    def prepare(self, x_data: Tensor, at: Coordinates, generator: torch.Generator) -> None:
        if self.storage == "uint8" and at.kind == "full":
            raise ValueError(
                "storage must be float32 with full coordinates: rounding to uint8 is too coarse "
                "for their narrowest directions"
            )
        low, high = x_data.amin(0), x_data.amax(0)
        self._middle, self._reach = (low + high) / 2, FAR * (high - low).max() / 2
        self._range = torch.stack([low.min(), high.max()])
        x = self.initial.fresh(self.capacity, x_data, at, generator)
        self.x = self._placed(self._stored(x).clone())
        self.age = torch.zeros(self.capacity, dtype=torch.int64, device=self.x.device)

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        return self.initial.fresh(count, x_data, at, generator)

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor | None:
        return self.initial.potential(x, x_data, at)

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        if count > self.capacity:
            raise ValueError(
                f"cannot draw {count} chains from a bank of {self.capacity} slots: "
                "capacity must be at least the number of chains"
            )
        device = x_data.device
        slots = torch.randperm(self.capacity, generator=generator, device=device)[:count]
        return self._drawn(slots.to(self.x.device), x_data, at, generator)

    def draw_by_class(
        self,
        labels: Tensor,
        classes: int,
        x_data: Tensor,
        at: Coordinates,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        labels = labels.to(x_data.device)
        slots_a_class = self.capacity // classes
        if len(labels) > slots_a_class:  # otherwise there are enough slots for any classes
            most = int(torch.bincount(labels).max())
            if most > slots_a_class:
                raise ValueError(
                    f"cannot draw {most} chains of one class from {slots_a_class} slots per class: "
                    "increase the capacity of the bank"
                )
        # The n-th chain of class y takes the n-th slot of its class, in a random order of slots.
        order = torch.randperm(self.capacity, generator=generator, device=labels.device)
        by_class = order[torch.argsort(order % classes, stable=True)]
        before = torch.bincount(order % classes, minlength=classes).cumsum(0).roll(1)
        before[0] = 0
        rank = torch.nn.functional.one_hot(labels, classes).cumsum(0).gather(1, labels[:, None])
        slots = by_class[before[labels] + rank.squeeze(1) - 1]
        return self._drawn(slots.to(self.x.device), x_data, at, generator)

    def condition_on(self, latent: int) -> None:
        self.latents = torch.zeros(self.capacity, latent, device=self.x.device)

    def draw_by_latent(
        self, z: Tensor, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        x, slots = self.draw(len(z), x_data, at, generator)
        new = (self.age[slots] == 0)[:, None].to(z.device)
        z = torch.where(new, z, self.latents[slots].to(z))
        self.latents[slots] = z.to(self.latents)
        return x, slots, z

    def _drawn(
        self, slots: Tensor, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Returns the chains of these slots, some of them refreshed, on the device of the data."""
        count, device = len(slots), x_data.device
        x = self._read(self.x[slots].to(device, non_blocking=True)).to(x_data.dtype)
        if self.refresh or self.refresh_batch:
            new = torch.rand(count, generator=generator, device=device) < self.refresh
            new |= torch.rand(1, generator=generator, device=device) < self.refresh_batch
            noise = self.initial.fresh(count, x_data, at, generator)
            x = torch.where(new.reshape(-1, *[1] * (x.dim() - 1)), noise, x)
            self.age[slots] = self.age[slots].masked_fill(new.to(self.age.device), 0)
        return x, slots

    def put(self, slots: Tensor | None, x_model: Tensor, steps: int) -> None:
        self.x[slots] = self._stored(x_model).to(self.x.device)
        self.age[slots] += steps
        far = (x_model - self._middle).abs() > self._reach
        self.outside = (far.flatten(1).float().mean(1) > FEW).float().mean()

    def metrics(self) -> dict[str, Tensor]:
        """Age in steps, and the fraction of the last returned chains far outside the data."""
        age = self.age.float()
        return {
            "bank_age_mean": age.mean(),
            "bank_age_max": age.max(),
            "bank_outside": self.outside,
        }

    def state_dict(self) -> dict[str, Tensor]:
        latents = {"latents": self.latents} if len(self.latents) else {}
        return {
            "x": self.x,
            "age": self.age,
            "middle": self._middle,
            "reach": self._reach,
            "range": self._range,
            **latents,
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        device = self._reach.device
        self.x = self._placed(state["x"].to(self.x.device, copy=True))
        self.age = state["age"].to(self.x.device, copy=True)
        if "latents" in state:
            self.latents = state["latents"].to(self.x.device, copy=True)
        if "reach" in state:  # absent before version 0.4
            self._middle, self._reach = state["middle"].to(device), state["reach"].to(device)
        if "range" in state:  # absent before version 0.5
            self._range = state["range"].to(device)

    def without_data(self, x_data: Tensor, at: Coordinates) -> Start:
        return self.initial.without_data(x_data, at)

    def visits(self, chains: int) -> float:
        drawn = chains / self.capacity
        refreshed = self.refresh + self.refresh_batch
        return max(1.0, min(drawn, 1 / refreshed)) if refreshed else max(1.0, drawn)

    def slots(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        bank = copy(self)
        bank.load_state_dict(dict(state))
        return bank.states(), state["age"]

    def states(self) -> Tensor:
        """All slots as chains (capacity, ...), in float32."""
        return self._read(self.x.to(self._range.device))

    def _stored(self, x: Tensor) -> Tensor:
        if self.storage == "float32":
            return x
        low, high = self._range
        return ((x - low) / (high - low)).clamp(0, 1).mul(255).round().to(torch.uint8)

    def _read(self, x: Tensor) -> Tensor:
        if self.storage == "float32":
            return x
        low, high = self._range
        return low + (high - low) * (x.float() / 255)

    def _placed(self, x: Tensor) -> Tensor:
        if self.place == "device":
            return x
        return x.cpu().pin_memory() if torch.cuda.is_available() else x.cpu()
