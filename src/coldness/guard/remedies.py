"""What is done against a run that goes wrong: remedies, one a rung of the guard's ladder.

A remedy turns the relief that is in force into a stronger one. Relief is what is
changed of the settings for a while, in one place (training/effective.py); none of it is in the
settings, so that taking it away is one assignment. No remedy leaves the range that the doctor
accepts (limits.py).
Every rollback draws new random numbers, whatever else is done.

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
    """What is changed of a run's settings while it is in force.

    Args:
        rate: factor of the learning rate.
        beta: how many times the chains' share 1 - beta is halved.
        steps: factor of the number of steps; a source without any gets 10 times one less.
        noise: factor of the noise of a step.
        data_noise: noise on data, in multiples of the largest noise of a step.
        near: chains from noise start from a Gaussian with the data's means and so many times its
            scales; 0 for where they do.
        least_grad_scale: updates with a smaller GradScale are left out.
    """

    rate: float = 1.0
    beta: int = 0
    steps: int = 1
    noise: float = 1.0
    data_noise: float = 0.0
    near: float = 0.0
    least_grad_scale: float = 0.0

    def beta_of(self, beta: float, dimensions: int) -> float:
        """1 - (1 - beta) / 2^k, as long as enough negatives would count in so many dimensions."""
        if not self.beta:
            return beta
        return max(beta, min(1 - (1 - beta) / 2**self.beta, largest_beta(dimensions)))

    def source_of(self, source: Source) -> Source:
        """The source with this relief; start and adaptation are the same objects."""
        if self.steps == 1 and not self.near:
            return source
        steps = source.steps * self.steps if source.steps else 10 * (self.steps - 1)
        noise = source.start.from_noise and not source.start.has_state
        start = LikeData(self.near) if self.near and noise else source.start
        return replace(source, steps=steps, start=start)

    def step_scale(self, source: Source) -> float:
        """Factor of the kernel's step that scales its noise as asked."""
        kernel = source.kernel
        return kernel.step_for_noise(self.noise) / kernel.step_for_noise(1.0)


@dataclass(frozen=True)
class Remedy(ABC):
    """Base class of remedies.

    Args:
        cool_down: iterations without alarm after which the relief is taken away again.
    """

    cool_down: int = 500
    treats: ClassVar[tuple[Cause, ...]] = RUNNING_AWAY

    def __post_init__(self) -> None:
        if self.cool_down < 1:
            raise ValueError(f"cool_down must be >= 1, got {self.cool_down}")

    @property
    @abstractmethod
    def description(self) -> str:
        """What is done, after "rolled back:"."""

    @abstractmethod
    def strengthen(self, relief: Relief) -> Relief:
        """The relief with this remedy added."""


@dataclass(frozen=True)
class NewSeed(Remedy):
    """Other random numbers and nothing else: the accident may not happen again."""

    @property
    def description(self) -> str:
        return "new seed"

    def strengthen(self, relief: Relief) -> Relief:
        return relief


@dataclass(frozen=True)
class SmallerRate(Remedy):
    """A smaller learning rate.

    Args:
        factor: in (0, 1).
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
    """Half of what is left to the chains goes to the weights: 0, 0.5, 0.75, ..."""

    @property
    def description(self) -> str:
        return "larger beta"

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, beta=relief.beta + 1)


@dataclass(frozen=True)
class MoreSteps(Remedy):
    """Longer chains.

    Args:
        factor: >= 2.
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
        factor: of the noise of a step, in (0, 1).
    """

    factor: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share(self.factor)

    @property
    def description(self) -> str:
        return f"noise of a step x {self.factor:g}"

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, noise=relief.noise * self.factor)


@dataclass(frozen=True)
class NoisyData(Remedy):
    """Noise on data, for data that is narrower than a step (Anatomy, Eq. 5A).

    Args:
        factor: of the noise of a step; the paper asks for at least 1 and typically takes 2.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.factor > 0:
            raise ValueError(f"factor must be > 0, got {self.factor}")

    @property
    def description(self) -> str:
        return f"noise on data, {self.factor:g} x that of a step"

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, data_noise=self.factor)


@dataclass(frozen=True)
class NearerStart(Remedy):
    """Chains that start too far away to arrive start where the data is.

    Args:
        width: of their Gaussian, in the data's scales. Chains that weights leave little to do stay
            where they start, so that it has to cover the data.
    """

    width: float = 2.0
    treats: ClassVar[tuple[Cause, ...]] = ("starvation",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.width > 0:
            raise ValueError(f"width must be > 0, got {self.width}")

    @property
    def description(self) -> str:
        return f"chains start from {self.width:g} x the data's scales, starved updates left out"

    def strengthen(self, relief: Relief) -> Relief:
        return replace(relief, near=self.width, least_grad_scale=LEAST_GRAD_SCALE)


def _check_share(factor: float) -> None:
    if not 0 < factor < 1:
        raise ValueError(f"factor must be in (0, 1), got {factor}")


def default_ladder() -> list[Remedy]:
    """Mildest first; each cause climbs the rungs that treat it."""
    return [
        NewSeed(),
        NearerStart(),
        SmallerRate(),
        LargerBeta(),
        MoreSteps(),
        NoisyData(),
        SmallerSteps(),
    ]
