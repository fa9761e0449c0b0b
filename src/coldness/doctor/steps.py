"""Step sizes of the sources of a recipe, as Langevin steps h on U with noise sqrt(2h)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coldness.chains import Source
from coldness.schedules import value_at
from coldness.training.settings import Settings


def all_sources(settings: Settings) -> Iterator[tuple[str, Source]]:
    """All sources with their names, and the sampler if there is one."""
    for k, source in enumerate(settings.sources):
        yield f"source {k}", source
    if settings.sampler is not None:
        yield "sampler", settings.sampler


def known(source: Source) -> bool:
    """Whether the first step size is known before training."""
    return source.adaptation is None or source.adaptation.begins_at_own_step


def langevin_steps(settings: Settings, source: Source) -> list[float]:
    """h along a chain of the first iteration, with the current scale of its adaptation."""
    scale = value_at(source.step_scale, 0, settings.iterations)
    if source.adaptation is not None:
        scale *= float(source.adaptation.scale)
    kernel = source.kernel
    return [
        replace(kernel, step_size=kernel.step_size * scale * factor).langevin_step
        for factor in source.step_schedule.factors(max(source.steps, 1)).tolist()
    ]


def path_length(settings: Settings, source: Source, dimensions: int) -> float:
    """The distance that the noise of a chain covers if all its steps have the same direction.

        sum over steps of sqrt(2 h_k D)

    The drift per step of a Langevin chain is about the length of its noise, or less; with a much
    larger drift the chain is gradient descent. So this is also about the distance that chains cover
    by drift, without overshooting. A trajectory of HMC is as long as its leapfrog steps together.
    Chains of a bank continue until training ends or, on average, their slot is refreshed.
    """
    if not source.steps:
        return 0.0
    steps = langevin_steps(settings, source)
    length = sum((2 * h * dimensions) ** 0.5 for h in steps)
    return (
        length
        * source.kernel.gradients_per_step
        * source.visits(settings.iterations, settings.batch_size)
    )
