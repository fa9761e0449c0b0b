"""coldness doctor RECIPE: say what the temperature of a recipe is, before training it.

Shows, for every source, the step h on U and the pair (drift on E, noise) that it amounts to,
compares the noise with the narrowest local scale of the data where that is known, and measures how
steep the untrained energy is. Fields can be overridden as in `coldness train`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jsonargparse import ArgumentParser

from coldness.chains import Source
from coldness.cli.console import console, output
from coldness.cli.words import allow_imports_option, read_recipe
from coldness.data import KnownDensity
from coldness.energies import DriftNoise
from coldness.training import Settings, Training
from coldness.training.recipe import settings_parser


def parser() -> ArgumentParser:
    usage = "coldness doctor RECIPE [--FIELD VALUE ...]"
    parser = settings_parser(prog="coldness doctor", description=__doc__, usage=usage)
    allow_imports_option(parser)
    return parser


def main(words: list[str]) -> int:
    settings = read_recipe(words, parser())[0].settings
    for line in [*temperature_lines(settings), *steepness_lines(settings)]:
        output.print(line)
    warnings = list(warning_lines(settings))
    for line in warnings:
        output.print(f"[bold]warning[/] {line}")
    if not warnings:
        output.print("nothing speaks against training this")
    return 0


def print_temperature(settings: Settings) -> None:
    """The first lines of a run."""
    for line in temperature_lines(settings):
        console.print(line)
    for line in warning_lines(settings):
        console.print(f"[bold]warning[/] {line}")


def temperature_lines(settings: Settings) -> Iterator[str]:
    """The temperature in both ways of writing it."""
    coldness = settings.energy.coldness
    for called, source in _all_sources(settings):
        h, pair = _step(settings, source)
        name = f"{called}: {type(source.start).__name__}, {type(source.kernel).__name__}"
        yield f"{name}, {source.steps} steps"
        yield f"  coldness {coldness:.6g}, step h = {h:.6g} on U"
        yield f"  = drift {pair.drift:.6g} on E, noise {pair.noise:.6g} a step"
        last = DriftNoise.of(source.final_step(0, settings.iterations), coldness)
        if last.noise < pair.noise:
            yield f"  falling along a chain to h = {last.step_size:.6g}, noise {last.noise:.6g}"
        if source.adaptation is not None:
            yield f"  {source.adaptation.description}"
        tempering = 1.0 if source is settings.sampler else settings.tempering_of(source, 0)
        if tempering != 1:
            drift = tempering * pair.drift
            yield f"  tempered: chains follow {tempering:.4g} U, drift {drift:.6g} on E"
        scale = _narrowest(settings)
        if scale is not None and _known(source):
            yield (
                f"  noise is {last.noise / scale:.3g} of the data's narrowest local scale "
                f"({scale:.3g} in these coordinates)"
            )


def warning_lines(settings: Settings) -> Iterator[str]:
    """Combinations that are known to go wrong."""
    scale = _narrowest(settings)
    noise_of_data = settings.data_noise_at(0)
    for called, source in _all_sources(settings):
        # Larger steps on the way only carry chains to where the last ones leave them.
        noise = (2 * source.final_step(0, settings.iterations)) ** 0.5
        if scale is not None and _known(source) and noise > max(scale, noise_of_data):
            yield (
                f"{called}: the noise of a step ({noise:.3g}) exceeds the data's narrowest scale "
                f"({scale:.3g}): the energy can run away; use a smaller step, a preconditioner or "
                f"data_noise >= {noise:.3g} (Anatomy, practical appendix C)"
            )
        if source is settings.sampler:
            continue
        tempering = settings.tempering_of(source, 0)
        if tempering < 0:
            yield f"{called}: tempering {tempering:.3g} < 0: chains climb the potential"


def steepness_lines(settings: Settings) -> Iterator[str]:
    """How the drift of the untrained energy compares with the noise, measured on chains."""
    training = Training(settings)
    generator = training.chain_generator
    x = settings.data.sample(256, training.data_generator).to(training.fabric.device)
    for k, source in enumerate(settings.sources):
        chains = source.sample(training.energy, x, 256, generator)
        h, pair = _step(settings, source)
        r = float(chains.gradient_norm)
        line = f"source {k} before training: r = |dE| = {r / training.energy.coldness:.3g}"
        # With a preconditioner the gradient is in other coordinates.
        if settings.preconditioner == "none" and _known(source):
            noise = pair.noise * x[0].numel() ** 0.5
            line += f", drift {h * r:.3g} a step against noise {noise:.3g}"
        yield line


def _all_sources(settings: Settings) -> Iterator[tuple[str, Source]]:
    """Sources by what they are called, and the sampler where there is one."""
    for k, source in enumerate(settings.sources):
        yield f"source {k}", source
    if settings.sampler is not None:
        yield "sampler", settings.sampler


def _step(settings: Settings, source: Source) -> tuple[float, DriftNoise]:
    """Largest h of a source at the start of training, and the pair that it amounts to."""
    h = source.largest_step(0, settings.iterations)
    return h, DriftNoise.of(h, settings.energy.coldness)


def _known(source: Source) -> bool:
    """Whether the first step is known before training."""
    return source.adaptation is None or source.adaptation.begins_at_own_step


def _narrowest(settings: Settings) -> float | None:
    """In the coordinates that kernels move in; known for known densities."""
    data = settings.data
    if not isinstance(data, KnownDensity):
        return None
    if settings.preconditioner == "none":
        return data.narrowest_scale
    x = data.sample(10_000, torch.Generator().manual_seed(settings.seed))
    return float((data.local_scales / x.std(0)).min())
