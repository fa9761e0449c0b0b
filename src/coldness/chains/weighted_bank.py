"""A bank whose chains carry weights: sequential Monte Carlo in training.

A chain (x, A) was left with the potential V of its target at that time, V = t U with the tempering
t = 1 - beta. Drawn again, when the network and perhaps beta have changed, it continues by

    A  <-  A + V_stored(x) - V_now(x)                  reweighting, at the x it was left at
    x  <-  moves of an adjusted kernel on V_now        which leave exp(-V_now) invariant
    V_stored <- V_now(x)

Chains begin at a known law q, with A = 0 and V_stored = -log q. Every drawn chain is then properly
weighted with respect to exp(-V_now), before its moves and after them: for any f, E[exp(A) f(x)] is
the integral of exp(-V_now) f, up to one constant for all chains, as long as the path of the network
does not depend on the chains. Slots that were not drawn for a while are no exception: their
V_stored is what they were left with.

In training the path does depend on the chains: an update raises U most at its own negatives. If a
chain's weight were updated at the very point that was a negative, every update would lower its
weight by more than the mass around it falls, and most where a mode has few chains. Negatives are
therefore the states before the moves, and weights are updated at the states after them. The more
the moves of one iteration forget where they began within a mode, the less bias remains;
docs/weighted-bank.md has measurements.

The importance weights of the contrast are softmax(A - beta U) (objectives/contrast.py). Where modes
exchange no chains, moves alone keep as many chains in a mode as began there, whatever its mass;
weights follow the mass.

When the effective fraction of the drawn weights falls below a threshold, the drawn chains are
resampled after their weights were used: systematic resampling, A set to the logarithm of their mean
weight. The sums over the drawn chains of exp(A) f keep their expectation.

Not to be confused with live walkers that measure log Z and enter no gradient, nor with the weights
exp(-beta U), which correct for the tempering of the chains and not for their history.

References:
    Efficient Training of Energy-Based Models Using Jarzynski Equality (Carbone, Hua, Coste,
    Vanden-Eijnden, 2023): weights in training, there of unadjusted moves with their transition
    ratio, which is not offered here.
    Sequential Monte Carlo samplers (Del Moral, Doucet, Jasra, 2006), section 3.3.2.3: the weight
    above, of kernels that leave the next target invariant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from coldness.chains.bank import Bank
from coldness.chains.base import Start
from coldness.energies.base import Energy
from coldness.energies.coordinates import Coordinates
from coldness.kernels import Kernel


class WeightedBank(Start):
    """A replay buffer (`Bank`) whose chains carry weights, for modes that exchange no chains.

    Needs a kernel with a Metropolis test (MALA or HMC), and an initial start whose density is known
    (GaussianNoise, LikeData or ReferenceStart). Weights begin even if that is the law of the
    untrained model: with a Gaussian reference, GaussianNoise with std reference_std / sqrt(1 -
    beta).

    Args:
        bank: holds the chains; without refreshing, and in float32.
        resample_below: effective fraction of the drawn weights, in [0, 1], below which the drawn
            chains are resampled; 0 for never, 1 for always.
    """

    def __init__(self, bank: Bank, resample_below: float = 0.5) -> None:
        if not 0 <= resample_below <= 1:
            raise ValueError(f"resample_below must be in [0, 1], got {resample_below}")
        if bank.refresh or bank.refresh_batch:
            raise ValueError(
                "a weighted bank cannot refresh chains: a restarted chain belongs to the initial "
                "law, and its weight would be unknown; set refresh and refresh_batch to 0"
            )
        if bank.storage != "float32":
            raise ValueError(
                "a weighted bank needs storage float32: rounding moves chains away from the point "
                "that their weight belongs to"
            )
        self.bank = bank
        self.resample_below = resample_below
        self.log_weights = torch.zeros(0, dtype=torch.float64)
        self.potentials = torch.zeros(0, dtype=torch.float64)
        self.ess, self.resampled = torch.ones(()), torch.zeros(())

    @property
    def capacity(self) -> int:
        return self.bank.capacity

    @property
    def has_state(self) -> bool:
        return True

    @property
    def from_noise(self) -> bool:
        return self.bank.from_noise

    @property
    def weighted(self) -> bool:
        return True

    def check(self, kernel: Kernel, conditional: bool) -> None:
        name = type(kernel).__name__
        if kernel.box is not None:
            raise ValueError(
                "a weighted bank needs chains without a clamp: cutting values changes the law, and "
                "weights would belong to another"
            )
        if not kernel.adjusted:
            raise ValueError(
                f"a weighted bank needs a kernel with a Metropolis test, such as MALA or HMC: "
                f"moves of {name} do not leave exp(-U) invariant"
            )
        if conditional:
            raise ValueError(
                "a weighted bank cannot be conditional: resampling would move chains between the "
                "slots of classes"
            )

    def bind(self, energy: Energy) -> None:
        self.bank.bind(energy)

    def prepare(self, x_data: Tensor, at: Coordinates, generator: torch.Generator) -> None:
        self.bank.prepare(x_data, at, generator)
        potentials = self.bank.potential(self.bank.states(), x_data, at)
        if potentials is None:
            raise ValueError(
                "a weighted bank needs initial chains of a known density that is nowhere zero, "
                "such as GaussianNoise or LikeData"
            )
        self.potentials = potentials.to(self.bank.age.device)
        self.log_weights = torch.zeros_like(self.potentials)

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        return self.bank.fresh(count, x_data, at, generator)

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor | None:
        return self.bank.potential(x, x_data, at)

    def draw(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        return self.bank.draw(count, x_data, at, generator)

    def put(self, slots: Tensor | None, x_model: Tensor, steps: int) -> None:
        self.bank.put(slots, x_model, steps)

    def weigh(
        self, slots: Tensor, first: Tensor, last: Tensor, generator: torch.Generator
    ) -> Tensor:
        log_weights = self.log_weights[slots] + self.potentials[slots] - first.to(self.potentials)
        self.log_weights[slots] = log_weights
        self.potentials[slots] = last.to(self.potentials)
        self._resample(slots, log_weights, generator)
        return log_weights.to(first.device)

    def _resample(self, slots: Tensor, log_weights: Tensor, generator: torch.Generator) -> None:
        """Resamples the chains of these slots if few of them carry the weight.

        One random number is drawn either way, and nothing is read from the device.
        """
        u = torch.rand((), generator=generator, device=generator.device, dtype=torch.float64)
        w = torch.softmax(log_weights, 0)
        self.ess = 1 / (w.square().sum() * len(w))
        few = self.ess < self.resample_below
        self.resampled = few.double()
        every = torch.arange(len(w), device=w.device)
        kept = slots[torch.where(few, systematic(w, u.to(w.device)), every)]
        mean = torch.logsumexp(log_weights, 0) - math.log(len(w))
        self.log_weights[slots] = torch.where(few, mean, log_weights)
        self.potentials[slots] = self.potentials[kept]
        self.bank.x[slots], self.bank.age[slots] = self.bank.x[kept], self.bank.age[kept]

    def metrics(self) -> dict[str, Tensor]:
        """Those of the bank, the effective fraction of the drawn weights, and if it was too low."""
        weights = {"bank_weight_ess": self.ess, "bank_resampled": self.resampled}
        return {**self.bank.metrics(), **weights}

    def state_dict(self) -> dict[str, Tensor]:
        weights = {"log_weights": self.log_weights, "potentials": self.potentials}
        return {**self.bank.state_dict(), **weights}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.bank.load_state_dict(state)
        device = self.bank.age.device
        self.log_weights = state["log_weights"].to(device, copy=True)
        self.potentials = state["potentials"].to(device, copy=True)

    def without_data(self, x_data: Tensor, at: Coordinates) -> Start:
        return self.bank.without_data(x_data, at)

    def visits(self, chains: int) -> float:
        return self.bank.visits(chains)

    def slots(self, state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        return self.bank.slots(state)


def systematic(w: Tensor, u: Tensor) -> Tensor:
    """Indices (M,) of systematic resampling: item j floor(M w_j) or ceil(M w_j) times.

    Its expected number is M w_j.

    Args:
        w: weights (M,) with sum 1.
        u: one uniform number in [0, 1).
    """
    at = (torch.arange(len(w), device=w.device) + u) / len(w)
    return torch.searchsorted(w.cumsum(0), at, right=True).clamp(max=len(w) - 1)
