"""Remedies for a run that diverges: each is one rung of the guard's ladder.

A remedy strengthens the relief in force. Relief is a temporary change of the settings. It is
applied in one place (training/effective.py) and is never written into the settings, so that
restoring the original settings is one assignment. No remedy leaves the range that the doctor
accepts (limits.py). Every rollback draws new random numbers, whichever remedy is applied.

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
from typing import ClassVar, Literal

from coldness.chains import LikeData, Source
from coldness.limits import LEAST_GRAD_SCALE, largest_beta

Cause = Literal["not_finite", "gap", "gradient", "saturation", "starvation"]

RUNNING_AWAY: tuple[Cause, ...] = ("not_finite", "gap", "gradient", "saturation")


@dataclass(frozen=True)
class Relief:
    """Temporary changes of a run's settings.

    Args:
        rate: factor on the learning rate.
        beta: how many times 1 - beta, the tempering of the chains, is halved.
        steps: factor on the number of steps; a source without steps gets 10 * (steps - 1).
        noise: factor on the noise per step.
        data_noise: noise on data, in multiples of the largest noise per step.
        near: chains from noise start from a Gaussian with the data's means and this many times its
            scales; 0 for their original start.
        least_grad_scale: updates with a smaller GradScale are skipped.
    """

    rate: float = 1.0
    beta: int = 0
    steps: int = 1
    noise: float = 1.0
    data_noise: float = 0.0
    near: float = 0.0
    least_grad_scale: float = 0.0

    def beta_of(self, beta: float, dimensions: int) -> float:
        """1 - (1 - beta) / 2^k, as long as enough negatives keep weight in this many dimensions."""
        if not self.beta:
            return beta
        return max(beta, min(1 - (1 - beta) / 2**self.beta, largest_beta(dimensions)))

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
    def strengthen(self, relief: Relief) -> Relief:
        """The relief with this remedy added."""


@dataclass(frozen=True)
class NewSeed(Remedy):
    """New random numbers and nothing else: the failure may have been a matter of chance."""

    @property
    def description(self) -> str:
        return "new seed"

    def strengthen(self, relief: Relief) -> Relief:
        return relief


@dataclass(frozen=True)
class SmallerRate(Remedy):
    """A smaller learning rate.

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

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, rate=relief.rate * self.factor)


@dataclass(frozen=True)
class LargerBeta(Remedy):
    """A larger beta: each time 1 - beta is halved, so that 0 becomes 0.5, then 0.75, ..."""

    @property
    def description(self) -> str:
        return "larger beta"

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, beta=relief.beta + 1)


@dataclass(frozen=True)
class MoreSteps(Remedy):
    """Longer chains.

    Args:
        factor: on the number of steps, >= 2.
    """

    factor: int = 2
    treats: ClassVar[tuple[Cause, ...]] = (*RUNNING_AWAY, "starvation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factor < 2:
            raise ValueError(f"factor must be >= 2, got {self.factor}")

    @property
    def description(self) -> str:
        return f"steps x {self.factor}"

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, steps=relief.steps * self.factor)


@dataclass(frozen=True)
class SmallerSteps(Remedy):
    """Steps with less noise, for data that is narrower than a step.

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

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, noise=relief.noise * self.factor)


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

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, data_noise=self.factor)


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

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, near=self.width, least_grad_scale=LEAST_GRAD_SCALE)


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
