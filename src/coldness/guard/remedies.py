"""Remedies for a run that diverges: each is one rung of the guard's ladder.

A remedy strengthens the relief in force. Relief is a temporary change of the settings. It is
applied in one place (training/effective.py) and is never written into the settings, so that
restoring the original settings is one assignment. Every rollback draws new random numbers,
whichever remedy is applied.

No remedy leaves the range that the doctor accepts (limits.py):

    learning rate   at least LEAST_RATE of its original value
    beta            the effective fraction of negatives stays at GOOD_FRACTION or above by the law
                    for quadratic potentials in the data's dimensions, and at least_fraction of
                    their number or above by the potentials of the negatives where the run resumes.
                    The latter bound is measured when the remedy is applied, and is a number of the
                    relief.
    steps           at most MOST_STEPS times as many
    noise per step  at least LEAST_NOISE of its original value

A remedy that would leave it, or that would change nothing, is skipped for the next one.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendix M (restart
    from the last checkpoint with another seed, then more steps: what users of JEM do by hand),
    section 3 (larger beta) and Appendix H (updates without competitive negatives).
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix C (noise on data).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

from coldness.chains import LikeData, Source
from coldness.limits import (
    GOOD_FRACTION,
    LEAST_GRAD_SCALE,
    LEAST_NEGATIVES,
    LEAST_NOISE,
    LEAST_RATE,
    MOST_STEPS,
    largest_beta,
)

Cause = Literal["not_finite", "gap", "gradient", "saturation", "starvation"]

RUNNING_AWAY: tuple[Cause, ...] = ("not_finite", "gap", "gradient", "saturation")

SMALLEST_STEP = 0.1
"""A larger beta is skipped if neither beta nor 1 - beta changes by more than this fraction."""

ROUNDING = 1 + 1e-9
"""Factors of limits are compared with this margin, so that three times 0.1 is a thousandth."""


@dataclass(frozen=True)
class Relief:
    """Temporary changes of a run's settings.

    Args:
        rate: factor on the learning rate.
        beta: how many times 1 - beta, the tempering of the chains, is halved.
        largest_beta: beta is not raised above this, which the negatives of the run allow.
        steps: factor on the number of steps; a source without steps gets 10 * (steps - 1).
        noise: factor on the noise per step.
        data_noise: noise on data, in multiples of the largest noise per step.
        near: chains from noise start from a Gaussian with the data's means and this many times its
            scales; 0 for their original start.
        least_grad_scale: updates with a smaller GradScale are skipped.
    """

    rate: float = 1.0
    beta: int = 0
    largest_beta: float = 1.0
    steps: int = 1
    noise: float = 1.0
    data_noise: float = 0.0
    near: float = 0.0
    least_grad_scale: float = 0.0

    def beta_of(self, beta: float, dimensions: int, tempering: float | None = None) -> float:
        """1 - (1 - beta) / 2^k, as long as enough negatives keep weight.

        Args:
            beta: without relief.
            dimensions: of the data.
            tempering: of the chains if it is set; None for 1 - beta.
        """
        if not self.beta:
            return beta
        largest = min(largest_beta(dimensions, tempering), self.largest_beta)
        return max(beta, min(1 - (1 - beta) / 2**self.beta, largest))

    def source_of(self, source: Source) -> Source:
        """The source with this relief applied; start and adaptation are the same objects."""
        if self.steps == 1 and not self.near:
            return source
        steps = source.steps * self.steps if source.steps else 10 * (self.steps - 1)
        noise = source.start.from_noise and not source.start.has_state
        start = LikeData(self.near) if self.near and noise else source.start
        return replace(source, steps=steps, start=start)

    def step_scale(self, source: Source) -> float:
        """Factor on the kernel's step that scales its noise by `noise`."""
        kernel = source.kernel
        return kernel.step_for_noise(self.noise) / kernel.step_for_noise(1.0)


class Treated(Protocol):
    """What a remedy can ask of a run, in the state that it resumes from."""

    def betas(self, relief: Relief) -> list[float]:
        """Beta of every source under this relief, at the present iteration."""

    def largest_beta(self) -> float:
        """The largest beta at which the present negatives keep least_fraction (limits.py)."""


@dataclass(frozen=True)
class Remedy(ABC):
    """Base class of remedies.

    Args:
        cool_down: iterations without an alarm after which the original settings are restored.
    """

    cool_down: int = 500
    treats: ClassVar[tuple[Cause, ...]] = RUNNING_AWAY

    def __post_init__(self) -> None:
        if self.cool_down < 1:
            raise ValueError(f"cool_down must be >= 1, got {self.cool_down}")

    @property
    @abstractmethod
    def description(self) -> str:
        """The action in a few words, for the text of the rollback event."""

    @abstractmethod
    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        """The relief with this remedy added; None if it cannot act within its range."""

    def said(self, before: Relief, after: Relief, run: Treated) -> str:
        """The action with its values, for the text of the rollback event."""
        return self.description


@dataclass(frozen=True)
class NewSeed(Remedy):
    """New random numbers and nothing else: the failure may have been a matter of chance."""

    @property
    def description(self) -> str:
        return "new seed"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        return relief


@dataclass(frozen=True)
class SmallerRate(Remedy):
    """A smaller learning rate, at least LEAST_RATE of the original one.

    Args:
        factor: on the learning rate, in (0, 1).
    """

    factor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share(self.factor)

    @property
    def description(self) -> str:
        return f"learning rate x {self.factor:g}"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        rate = relief.rate * self.factor
        return replace(relief, rate=rate) if rate * ROUNDING >= LEAST_RATE else None


@dataclass(frozen=True)
class LargerBeta(Remedy):
    """A larger beta: each time 1 - beta is halved, so that 0 becomes 0.5, then 0.75, ...

    Weights exp(-beta U) of negatives whose U differ by much more than 1 / beta leave one of them.
    So beta stays where the doctor accepts the effective fraction of the negatives: where it is
    GOOD_FRACTION or above by the law for quadratic potentials, and least_fraction or above by the
    potentials of the negatives where the run resumes. For a classifier of coldness 20,000 the
    latter are thousands of nats apart, and beta stays near 1e-4.
    """

    @property
    def description(self) -> str:
        return "larger beta"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        largest = run.largest_beta()
        new = replace(relief, beta=relief.beta + 1, largest_beta=largest)
        pairs = list(zip(run.betas(relief), run.betas(new), strict=True))
        falls = any(b < a for a, b in pairs)
        rises = any(b - a > SMALLEST_STEP * min(abs(a), abs(1 - a)) for a, b in pairs)
        return new if rises and not falls else None

    def said(self, before: Relief, after: Relief, run: Treated) -> str:
        changes = zip(run.betas(before), run.betas(after), strict=True)
        values = ", ".join(dict.fromkeys(f"{a:.3g} -> {b:.3g}" for a, b in changes if b != a))
        least = f"{LEAST_NEGATIVES:g} effective negatives or {GOOD_FRACTION:.0%} of them"
        return f"larger beta ({values}, keeps at least {least})"


@dataclass(frozen=True)
class MoreSteps(Remedy):
    """Longer chains, up to MOST_STEPS times the original number of steps.

    Args:
        factor: on the number of steps, from 2 to MOST_STEPS.
    """

    factor: int = 2
    treats: ClassVar[tuple[Cause, ...]] = (*RUNNING_AWAY, "starvation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.factor <= MOST_STEPS:
            raise ValueError(f"factor must be from 2 to {MOST_STEPS}, got {self.factor}")

    @property
    def description(self) -> str:
        return f"steps x {self.factor}"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        steps = relief.steps * self.factor
        return replace(relief, steps=steps) if steps <= MOST_STEPS else None


@dataclass(frozen=True)
class SmallerSteps(Remedy):
    """Steps with less noise, for data that is narrower than a step.

    The noise stays at LEAST_NOISE of the original one or above.

    Args:
        factor: on the noise per step, in (0, 1).
    """

    factor: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share(self.factor)

    @property
    def description(self) -> str:
        return f"noise per step x {self.factor:g}"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        noise = relief.noise * self.factor
        return replace(relief, noise=noise) if noise * ROUNDING >= LEAST_NOISE else None


@dataclass(frozen=True)
class NoisyData(Remedy):
    """Noise on data, for data that is narrower than a step (Anatomy, Eq. 5A).

    Args:
        factor: in multiples of the noise per step; the paper requires at least 1 and typically
            uses 2.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.factor > 0:
            raise ValueError(f"factor must be > 0, got {self.factor}")

    @property
    def description(self) -> str:
        return f"noise on data, {self.factor:g} x the noise per step"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        return _changed(relief, replace(relief, data_noise=self.factor))


@dataclass(frozen=True)
class NearerStart(Remedy):
    """A start near the data, for chains that start too far away to reach it.

    Args:
        width: of the Gaussian that chains start from, in the data's scales. It has to cover the
            data: at a large beta chains hardly move from where they start.
    """

    width: float = 2.0
    treats: ClassVar[tuple[Cause, ...]] = ("starvation",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.width > 0:
            raise ValueError(f"width must be > 0, got {self.width}")

    @property
    def description(self) -> str:
        return f"chains start from {self.width:g} x the data's scales, starved updates skipped"

    def strengthen(self, relief: Relief, run: Treated) -> Relief | None:
        near = replace(relief, near=self.width, least_grad_scale=LEAST_GRAD_SCALE)
        return _changed(relief, near)


def _changed(relief: Relief, new: Relief) -> Relief | None:
    """The new relief; None if it is the same, because the remedy is in force already."""
    return None if new == relief else new


def _check_share(factor: float) -> None:
    if not 0 < factor < 1:
        raise ValueError(f"factor must be in (0, 1), got {factor}")


def default_ladder() -> list[Remedy]:
    """The default remedies, mildest first; each cause uses those that treat it."""
    return [
        NewSeed(),
        NearerStart(),
        SmallerRate(),
        LargerBeta(),
        MoreSteps(),
        NoisyData(),
        SmallerSteps(),
    ]
