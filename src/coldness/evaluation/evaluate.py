"""Judging a trained model: everything that goes into metrics.json and evaluation.npz.

All random numbers come from the evaluation's own seed, so evaluating twice gives the same figures,
and two runs are compared on the same data and the same noise. Samples are those of the first
source: chains from noise with its kernel and step, on the model itself (no tempering). They are
compared with fresh data, or with held-out points where data is finite; the floor beside these
distances is that of two samples of the data, of the same number: of training points and test points
where data is finite.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from coldness.data import HeldOut, KnownDensity
from coldness.evaluation.density import compare_on_grid, score_on_grid
from coldness.evaluation.samples import energy_distance
from coldness.schedules import value_at
from coldness.seeds import generators
from coldness.training.settings import Settings

FLOOR_PAIRS = 8
"""One pair of samples varies tenfold in its energy distance; this many average it out."""


def evaluate(
    settings: Settings, on_stage: Callable[[str], None] = lambda stage: None
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Figures and arrays of the model in settings.energy.

    Args:
        settings: of the run, with trained weights loaded.
        on_stage: called with the name of each stage, for a progress display.
    """
    how, energy, data = settings.evaluation, settings.energy, settings.data
    source = settings.sources[0]
    device = next(energy.parameters(), torch.empty(0)).device
    of_data, of_chains = generators(how.seed, device)
    figures: dict[str, float] = {}
    arrays: dict[str, Tensor] = {}

    if isinstance(data, KnownDensity):
        arrays["box"] = torch.tensor(data.box)
        figures["entropy"] = data.entropy
    if isinstance(data, KnownDensity) and data.shape == (2,):
        on_stage("density on a grid")
        on_grid, grids = compare_on_grid(energy, data, how.grid, how.widening)
        figures.update(on_grid)
        arrays.update(grids)
    if isinstance(data, HeldOut):
        arrays["box"] = torch.tensor(data.box)
    if isinstance(data, HeldOut) and data.shape in ((1,), (2,)):
        on_stage("log-likelihood of held-out points")
        scores, grids = score_on_grid(energy, data, how.grid, how.widening)
        figures.update(scores)
        arrays.update(grids)

    x_data = data.reference(how.samples, of_data)
    arrays["x_data"] = x_data
    last = settings.iterations - 1
    step_scale = value_at(source.step_scale, last, settings.iterations)
    for name, steps in (("short", source.steps), ("long", how.long_steps)):
        on_stage(f"{name}-run chains, {steps} steps")
        starts = x_data.to(device)
        chains = source.sample(
            energy, starts, how.samples, of_chains, steps=steps, step_scale=step_scale
        )
        x, finite = chains.x.cpu(), chains.x.cpu().flatten(1).isfinite().all(1)
        arrays[f"x_{name}"] = x
        if bool(finite.all()):
            figures[f"energy_distance_{name}"] = energy_distance(x[: len(x_data)], x_data)
        else:  # no distance from what is left: the figure says how many are not
            figures[f"lost_chains_{name}"] = int((~finite).sum())
        figures[f"{name}_steps"] = steps
    on_stage("floor of the energy distance")
    pairs = [data.pair(how.samples, of_data) for _ in range(FLOOR_PAIRS)]
    figures["energy_distance_floor"] = sum(energy_distance(x, y) for x, y in pairs) / len(pairs)
    figures["samples"] = len(x_data)
    figures["coldness"] = energy.coldness
    return figures, arrays
