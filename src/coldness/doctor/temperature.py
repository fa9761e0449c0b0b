"""The temperature of a recipe in both notations, as far as it is known without measuring."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from coldness.doctor.steps import all_sources, known
from coldness.energies import DriftNoise
from coldness.training.settings import Settings

EXAMPLES = 10_000
"""Enough for standard deviations with a relative error of a hundredth."""


def temperature_lines(settings: Settings) -> Iterator[str]:
    """For every source, the step size h on U and the equivalent pair (drift on E, noise)."""
    coldness = settings.energy.coldness
    scale = known_scale(settings)
    for called, source in all_sources(settings):
        h = source.largest_step(0, settings.iterations)
        pair = DriftNoise.of(h, coldness)
        name = f"{called}: {type(source.start).__name__}, {type(source.kernel).__name__}"
        yield f"{name}, {source.steps} steps"
        if source.transition is not None:
            every = source.transition_every or source.steps
            yield f"  {type(source.transition).__name__} of chains before every {every} steps"
        yield f"  coldness {coldness:.6g}, step size h = {h:.6g} on U"
        yield f"  = drift {pair.drift:.6g} on E, noise {pair.noise:.6g} per step"
        last = DriftNoise.of(source.final_step(0, settings.iterations), coldness)
        if last.noise < pair.noise:
            yield f"  decreasing along a chain to h = {last.step_size:.6g}, noise {last.noise:.6g}"
        if source.adaptation is not None:
            yield f"  {source.adaptation.description}"
        tempering = 1.0 if source is settings.sampler else settings.tempering_of(source, 0)
        if tempering != 1:
            drift = tempering * pair.drift
            yield f"  tempered: chains follow {tempering:.4g} U, drift {drift:.6g} on E"
        if scale is not None and known(source):
            yield (
                f"  noise is {last.noise / scale:.3g} times the narrowest local scale of the data "
                f"({scale:.3g} in these coordinates)"
            )


def known_scale(settings: Settings) -> float | None:
    """Narrowest local scale of data with a known density, in the coordinates of the kernels.

    None if it is not known, as with a full preconditioner, which mixes the coordinates.
    """
    data = settings.data.known
    if data is None or settings.preconditioner == "full":
        return None
    if settings.preconditioner == "none":
        return data.narrowest_scale
    x = data.sample(EXAMPLES, torch.Generator().manual_seed(settings.seed))
    return float((data.local_scales / x.std(0)).min())
