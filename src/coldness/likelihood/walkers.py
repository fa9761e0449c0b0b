"""Evaluation walkers: log Z of a model while it is trained (sequential Monte Carlo).

Walkers are chains that never enter the gradient. Each carries a log weight A in float64 and the
potential U that it was left with. They start at s N(0, I) in the model's coordinates y and are
brought to the first weights by annealed importance sampling, A = log w. When the weights of the
model have changed, from U to U', all walkers take

    A <- A + U(y) - U'(y)                                                           (reweighting)
    y <- K(y),   K leaves exp(-U') invariant                                        (move)

so that exp A stays an importance weight of y for exp(-U'), and

    log Z' = log Z_ref + log mean exp A,     log Z_ref = D log(s sqrt(2 pi)) + log |det L|

where x = m + L y. For fixed kernels and a path of weights that does not depend on these walkers,
E mean exp A = Z' / Z_ref exactly, however badly the walkers mix (Jarzynski's equality), so log Z is
low on average (Jensen's inequality), and log-likelihoods are high. Using walkers in the gradient,
or choosing weights by their log Z, breaks the equality.

Groups. Walkers are in independent groups. A group whose effective fraction of walkers falls below
RESAMPLE is resampled (systematic resampling): walkers are copied in proportion to exp A, and A of
all becomes the log of the group's mean of exp A, which leaves E mean exp A unchanged. Groups never
exchange walkers, so the spread of their means gives the standard error of log Z:

    error = std_g(Z_g) / (sqrt(G) mean_g(Z_g)),     Z_g = mean of exp A over group g

Errors add up along the path of the weights, so the groups drift apart during a long training. When
few of them carry all the weight, neither log Z nor its error can be trusted (`Estimate.collapsed`).
Such walkers, and those whose error exceeds `renew`, are started anew at the present weights, at
most once in REST moves. Fresh walkers are exact in mean again.

The step size is adapted from the acceptance of past moves. A kernel that depends on past states of
the walkers makes the equality approximate, with an error that vanishes with their number.
Successive moves have different step sizes (STEP_FACTORS of AIS): with one length for all,
trajectories of half a period return to the distance that they came from, and log Z was wrong by up
to four times its stated error.

Not to be confused with weighted chains that train the model: a network learns the errors of its
own chains, and log Z from these is biased.

References:
    Efficient training of energy-based models using Jarzynski equality (Carbone, Hua, Coste,
    Vanden-Eijnden, 2023), Proposition 1 and Algorithm 1.
    Annealed Importance Sampling (Neal, 2001), Eqs. 3 to 11.
    Sequential Monte Carlo samplers (Del Moral, Doucet, Jasra, 2006), section 3.3.2.3 (kernels with
    the right invariant law) and Eq. 14 (normalising constants).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from coldness.batching import at_once
from coldness.energies import Coordinates, Energy
from coldness.kernels import HMC, Kernel
from coldness.kernels.base import State
from coldness.kernels.run import frozen, tempered_field
from coldness.likelihood.ais import (
    AIS,
    MOST_CHAINS,
    MOST_LEVELS,
    STEP_FACTORS,
    NotFinite,
    from_the_gaussian,
    path_of,
)

RESAMPLE = 0.5
"""A group is resampled when its effective fraction of walkers falls below this."""

GAIN = 0.2
"""By how much log h changes per unit of acceptance above its target, per move."""

REST = 25
"""Moves between two starts of the walkers, which take as long as some fifty moves."""

COLLAPSED = 0.1
"""Effective fraction of all walkers below which log Z is not reported. One group of sixteen that
carries all the weight has 1/16; at 0.1 the standard error of log Z is about 0.7 nats, and its own
error is as large."""


@dataclass(frozen=True)
class Walkers:
    """Settings of evaluation walkers.

    Args:
        chains: number of walkers, a multiple of groups.
        every: iterations between two measurements, at which walkers are reweighted and moved; with
            40, they take a tenth of an iteration of the smallest networks.
        steps: transitions per move.
        kernel: transitions, of a kernel with a Metropolis test (HMC or MALA); its step size is
            adapted.
        target: acceptance rate to which the step size is adapted.
        groups: number of independent groups, whose spread is the standard error.
        start_std: s of the Gaussian where walkers start, in the model's coordinates.
        levels: number of levels of the annealing that brings them to the weights they start with.
        renew: standard error of log Z, in nats, above which walkers start anew.
        points: largest number of validation points whose log-likelihood is measured.
    """

    chains: int = 1024
    every: int = 40
    steps: int = 1
    kernel: Kernel = field(default_factory=lambda: HMC(0.2, leapfrog_steps=3))
    target: float = 0.75
    groups: int = 16
    start_std: float = 1.2
    levels: int = 50
    renew: float = 0.1
    points: int = 1000

    def __post_init__(self) -> None:
        for name in ("every", "steps", "points"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of walkers must be >= 1, got {getattr(self, name)}")
        for name, most in (("levels", MOST_LEVELS), ("chains", MOST_CHAINS)):
            if getattr(self, name) > most:
                raise ValueError(
                    f"{name} of walkers must be <= {most:,}, got {getattr(self, name):,}"
                )
        if self.groups < 2 or self.chains % self.groups or self.chains < 2 * self.groups:
            raise ValueError(
                "chains of walkers must be a multiple of groups >= 2, with two walkers or more in "
                f"each group, got {self.chains} and {self.groups}"
            )
        if not self.renew > 0:
            raise ValueError(f"renew of walkers must be > 0, got {self.renew}")
        self.annealing  # noqa: B018 - its checks: kernel, target, levels, start_std

    @property
    def annealing(self) -> AIS:
        """How walkers are brought to the first weights."""
        return AIS(
            self.chains, self.levels, self.kernel, self.target, self.start_std, wide_std=None
        )


@dataclass(frozen=True)
class Estimate:
    """log Z by walkers: its value, its standard error, and the effective fraction of walkers."""

    log_z: float
    error: float
    ess: float

    @property
    def collapsed(self) -> bool:
        """Whether so few walkers carry the weight that neither value nor error is reliable."""
        return self.ess < COLLAPSED


class Population:
    """The walkers of one run: all their mutable state.

    Args:
        how: settings.
        generator: of their random numbers, used for nothing else, on their device.
    """

    def __init__(self, how: Walkers, generator: torch.Generator) -> None:
        self.how, self.generator = how, generator
        self.y = torch.empty(0)
        self.potential = torch.empty(0)
        self.log_weight = torch.empty(0, dtype=torch.float64)
        self.log_reference = math.nan
        self.log_step = math.log(how.kernel.step_size)
        self.moves = 0

    @property
    def begun(self) -> bool:
        return len(self.y) > 0

    def begin(self, energy: Energy, shape: tuple[int, ...]) -> Estimate:
        """Starts the walkers at the Gaussian and brings them to the model.

        Raises:
            NotFinite: the energy is NaN or infinite where it is evaluated.
        """
        how = self.how
        path = path_of(energy, energy.coordinates, how.start_std)
        y = path.draw(how.chains, shape, self.generator)
        self.y, log_w, step = from_the_gaussian(path, how.annealing, y, self.generator)
        self.log_reference = path.log_z0(math.prod(shape))
        self.log_weight, self.log_step, self.moves = log_w, math.log(step), 0
        with frozen(list(energy.modules())), torch.no_grad():
            self.potential = self._at_model(energy)[1]
        return self.estimate()

    def advance(self, energy: Energy) -> Estimate:
        """Reweights the walkers to a model that has changed, and moves them under it.

        They start anew instead if they were worn out at the last move.

        Raises:
            NotFinite: log Z became NaN or infinite; the walkers are left as they were.
        """
        how, kernel = self.how, self.how.kernel
        last = self.estimate()
        if self.moves >= REST and (last.collapsed or last.error > how.renew):
            return self.begin(energy, tuple(self.y.shape[1:]))
        with frozen(list(energy.modules())), torch.no_grad():
            state = self._at_model(energy)
            before = self.log_weight
            self.log_weight = before + (self.potential.double() - state[1].double()).cpu()
            found = self.estimate()
            if not math.isfinite(found.log_z):
                self.log_weight = before
                raise NotFinite("the potentials of walkers became NaN or infinite")
            index = self._resample().to(self.y.device)
            state = tuple(part[index] for part in state)
            factor = STEP_FACTORS[self.moves % len(STEP_FACTORS)]
            h = state[0].new_tensor(factor * math.exp(self.log_step))
            noise = kernel.draw(how.steps, state[0], self.generator)
            state, acceptance = self._moved(energy, state, noise, h)
        self.y, self.potential = state[0], state[1]
        self.moves += 1
        self.log_step += GAIN * (acceptance - how.target)
        return found

    def estimate(self) -> Estimate:
        """log Z of the model that the weights were last brought up to."""
        a = self.log_weight.reshape(self.how.groups, -1)
        total = torch.logsumexp(a.flatten(), 0)
        of_groups = (torch.logsumexp(a, 1) - total).exp() * len(a)  # Z_g over their mean
        error = float(of_groups.std()) / math.sqrt(len(a))
        ess = float(1 / ((a - total).exp().square().sum() * a.numel()))
        return Estimate(self.log_reference + float(total) - math.log(a.numel()), error, ess)

    def state_dict(self) -> dict[str, Any]:
        return {
            "y": self.y,
            "potential": self.potential,
            "log_weight": self.log_weight,
            "log_reference": self.log_reference,
            "log_step": self.log_step,
            "moves": self.moves,
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device = self.generator.device
        self.y, self.potential = state["y"].to(device), state["potential"].to(device)
        self.log_weight = state["log_weight"]
        self.log_reference, self.log_step = state["log_reference"], state["log_step"]
        self.moves = state["moves"]
        self.generator.set_state(state["generator"])

    def _at_model(self, energy: Energy) -> State:
        """The kernel's state at the walkers: y, U and its gradient."""
        at = tempered_field(energy.white, self.y.new_ones(()))
        found = [self.how.kernel.init(at, y) for y in self.y.split(at_once(self.y.shape[1:]))]
        return tuple(torch.cat(each) for each in zip(*found, strict=True))

    def _moved(
        self, energy: Energy, state: State, noise: tuple[Tensor, ...], h: Tensor
    ) -> tuple[State, float]:
        """The state after the transitions of one move, and their mean acceptance."""
        kernel, at, plain = self.how.kernel, energy.white, Coordinates()
        size, moved, accepted = at_once(self.y.shape[1:]), [], []
        of_model = tempered_field(at, h.new_ones(()))
        for k in range(0, len(self.y), size):
            part = tuple(each[k : k + size] for each in state)
            for step in range(self.how.steps):
                of_step = tuple(each[step, k : k + size] for each in noise)
                part, info = kernel.step(of_model, part, of_step, h, plain)
                accepted.append(info.acceptance)
            moved.append(part)
        together = tuple(torch.cat(each) for each in zip(*moved, strict=True))
        return together, float(torch.cat(accepted).mean())

    def _resample(self) -> Tensor:
        """Indices (K,) of the walkers that continue; changes A of groups that are resampled."""
        a = self.log_weight.reshape(self.how.groups, -1)
        groups, size = a.shape
        share = a.softmax(1)
        index = torch.arange(size).expand(groups, size)
        offset = torch.rand(
            (groups, 1), generator=self.generator, device=self.generator.device
        ).cpu()
        poor = 1 / (share.square().sum(1) * size) < RESAMPLE
        if bool(poor.any()):
            wanted = (offset.double() + torch.arange(size)) / size
            chosen = torch.searchsorted(share.cumsum(1), wanted).clamp_max(size - 1)
            index = torch.where(poor[:, None], chosen, index)
            mean = torch.logsumexp(a, 1, keepdim=True) - math.log(size)
            self.log_weight = torch.where(poor[:, None], mean, a).flatten()
        return (index + size * torch.arange(groups)[:, None]).flatten()
