"""Noise on the data that is proportional to the noise of a source's steps.

    x+ = x + L sd xi,     sd = factor * sqrt(2 h_t)                             (Eq. 5A)

with h_t the Langevin step at the end of the source's chains at iteration t, so that the noise is
annealed together with the step. Samples of Langevin steps have a local standard deviation of at
least eps = sqrt(2h) in the coordinates that kernels move in. Where the data is narrower, the model
can always tell data from samples, and d diverges. The paper requires sd >= eps and typically takes
2 eps.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix C, Eq. 5A.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coldness.chains.source import Source
from coldness.schedules import Schedule, value_at


@dataclass(frozen=True)
class StepNoise:
    """Standard deviation of data noise as a multiple of the noise of a source's step.

    Args:
        factor: the multiple, > 0; the paper requires at least 1.
        source: index of the source, from 0.
    """

    factor: float = 1.5
    source: int = 0

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"factor of data_noise must be > 0, got {self.factor}")

    def check(self, sources: Sequence[Source]) -> None:
        """Raises ValueError if the step of the source is not known in advance."""
        if not 0 <= self.source < len(sources):
            raise ValueError(
                f"data_noise.source must be an index of a source, from 0, got {self.source} "
                f"with {len(sources)} sources"
            )
        if sources[self.source].adaptation is not None:
            raise ValueError(
                f"data_noise cannot follow the step of source {self.source}, which is adapted and "
                "therefore not known in advance: set data_noise to a number, or remove the "
                "adaptation"
            )

    def at(self, sources: Sequence[Source], t: int, n: int) -> float:
        """Returns sd at iteration t of n."""
        return self.factor * (2 * sources[self.source].final_step(t, n)) ** 0.5


DataNoise = float | Schedule | StepNoise


def noise_at(noise: DataNoise, sources: Sequence[Source], t: int, n: int) -> float:
    """Standard deviation of the noise on data at iteration t of n, in the model's coordinates."""
    if isinstance(noise, StepNoise):
        return noise.at(sources, t, n)
    return value_at(noise, t, n)


def check_noise(noise: DataNoise, sources: Sequence[Source]) -> None:
    """Raises ValueError if the noise is negative or depends on a step not known in advance."""
    if isinstance(noise, StepNoise):
        noise.check(sources)
    elif isinstance(noise, (int, float)) and not noise >= 0:
        raise ValueError(f"data_noise must be >= 0, got {noise}")
