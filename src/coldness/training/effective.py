"""Effective values of one iteration: the settings at iteration t, with the guard's relief applied.

This is the only place where relief takes effect. Without relief the settings are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from coldness.chains import Source
from coldness.guard.remedies import Relief
from coldness.schedules import value_at
from coldness.training.settings import Settings


@dataclass(frozen=True)
class Effective:
    """Values of one iteration.

    Args:
        sources: streams of negatives.
        betas: beta of each source's contrast.
        temperings: factor on U that the chains of each source follow.
        step_scales: factor on each kernel's step.
        rate: factor on the optimiser's learning rate.
        data_noise: standard deviation of noise on data; None for no noise.
        least_grad_scale: updates with a smaller GradScale are skipped.
    """

    sources: list[Source]
    betas: list[float]
    temperings: list[float]
    step_scales: list[float]
    rate: float
    data_noise: float | None
    least_grad_scale: float


def effective(s: Settings, relief: Relief, t: int) -> Effective:
    """The settings at iteration t under this relief."""
    n = s.iterations
    sources = [relief.source_of(source) for source in s.sources]
    betas = betas_of(s, relief, t)
    return Effective(
        sources=sources,
        betas=betas,
        temperings=[s.contrast.tempering_at(beta, t, n) for beta in betas],
        step_scales=[
            value_at(source.step_scale, t, n) * relief.step_scale(source) for source in sources
        ],
        rate=value_at(s.learning_rate, t, n) * relief.rate,
        data_noise=_data_noise(s, relief, sources, t),
        least_grad_scale=max(s.least_grad_scale, relief.least_grad_scale),
    )


def betas_of(s: Settings, relief: Relief, t: int) -> list[float]:
    """Beta of every source at iteration t under this relief."""
    n, dimensions, set_to = s.iterations, s.data.domain.dimensions, s.contrast.tempering
    tempering = None if set_to is None else value_at(set_to, t, n)
    return [
        relief.beta_of(value_at(s.beta_of(source), t, n), dimensions, tempering)
        for source in s.sources
    ]


def _data_noise(s: Settings, relief: Relief, sources: list[Source], t: int) -> float | None:
    if s.data_noise == 0 and not relief.data_noise:
        return None
    own = s.data_noise_at(t)
    if not relief.data_noise:
        return own
    steps = [source.final_step(t, s.iterations) for source in sources]
    return max(own, relief.data_noise * (2 * max(steps)) ** 0.5)
