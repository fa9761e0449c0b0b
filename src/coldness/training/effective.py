"""Effective values of one iteration: the settings at iteration t, with the guard's relief applied.

This is the only place where relief takes effect. Without relief the settings are unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from coldness.chains import Source
from coldness.guard.remedies import Relief
from coldness.schedules import value_at
from coldness.training.settings import Settings

NO_RELIEF = Relief()


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
    betas = [value_at(s.beta_of(source), t, n) for source in s.sources]
    now = Effective(
        sources=s.sources,
        betas=betas,
        temperings=[s.contrast.tempering_at(beta, t, n) for beta in betas],
        step_scales=[value_at(source.step_scale, t, n) for source in s.sources],
        rate=value_at(s.learning_rate, t, n),
        data_noise=None if s.data_noise == 0 else s.data_noise_at(t),
        least_grad_scale=s.least_grad_scale,
    )
    return now if relief == NO_RELIEF else _relieved(now, s, relief, t)


def _relieved(now: Effective, s: Settings, relief: Relief, t: int) -> Effective:
    """The values with the relief applied."""
    n, dimensions, set_to = s.iterations, s.data.domain.dimensions, s.contrast.tempering
    tempering = None if set_to is None else value_at(set_to, t, n)
    sources = [relief.source_of(source) for source in now.sources]
    betas = [relief.beta_of(beta, dimensions, tempering) for beta in now.betas]
    noise = now.data_noise
    if relief.data_noise:
        largest_step = max(source.final_step(t, n) for source in sources)
        noise = max(noise or 0.0, relief.data_noise * (2 * largest_step) ** 0.5)
    return Effective(
        sources=sources,
        betas=betas,
        temperings=[s.contrast.tempering_at(beta, t, n) for beta in betas],
        step_scales=[
            scale * relief.step_scale(source)
            for scale, source in zip(now.step_scales, sources, strict=True)
        ],
        rate=now.rate * relief.rate,
        data_noise=noise,
        least_grad_scale=max(now.least_grad_scale, relief.least_grad_scale),
    )
