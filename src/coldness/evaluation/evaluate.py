"""Judging a trained model: everything that goes into metrics.json and evaluation.npz.

All random numbers come from the evaluation's own seed, so evaluating twice gives the same metrics,
and two runs are compared on the same data and the same noise. Samples are those of the run's
sampler, or of its first source where it has none: chains from noise with its kernel and step, on
the model itself (no tempering). They are compared with fresh data, or with held-out points where
data is finite; the floor beside these distances is that of two samples of the data, of the same
number: of training points and test points where data is finite. The same examples are told from
sets of other points by their potential (ood.py).

What is asked of images and of classifiers beside is in image_checks.py. Images carry the noise that
training's had in the end wherever the model looks at them, for it has seen no others; metrics of
features, nearest training images and log-likelihoods are those of clean images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from coldness.batching import at_most
from coldness.data import HeldOut, KnownDensity
from coldness.diagnostics.convergence import change, shift
from coldness.evaluation.chain_checks import ChainChecks, Trail
from coldness.evaluation.density import compare_on_grid, compare_slices, score_on_grid
from coldness.evaluation.image_checks import check_classes, check_images
from coldness.evaluation.likelihood import of_held_out, of_known, plain_models
from coldness.likelihood.potential import potential
from coldness.evaluation.noisy import noisy
from coldness.evaluation.ood import compare_with_sets, own_sets, read_sets
from coldness.evaluation.samples import energy_distance, neighbour_share
from coldness.kernels import worth_compiling
from coldness.likelihood.ais import AIS, NotFinite, log_z
from coldness.schedules import value_at
from coldness.seeds import generators

if TYPE_CHECKING:
    from coldness.training.settings import Settings

FLOOR_PAIRS = 8
"""One pair of samples varies tenfold in its energy distance; this many average it out."""

SHARE_FROM_DATA = 10
"""Chains from data make a tenth of the steps of long-run chains, as in the hybrid paper."""

EXAMPLES_FOR_AIS = 4000
"""Of the data: for the scales of its Gaussian, and as starts of reverse chains."""

Stage = Callable[[str], None]
Metrics = dict[str, float]
Arrays = dict[str, Tensor]


def evaluate(
    settings: Settings,
    on_stage: Stage = lambda stage: None,
    others: Mapping[str, Tensor] | None = None,
    banks: Sequence[Mapping[str, Any]] = (),
) -> tuple[Metrics, Arrays]:
    """Metrics and arrays of the model in settings.energy.

    Args:
        settings: of the run, with trained weights loaded.
        on_stage: called with the name of each stage, for a progress display.
        others: sets of points (N, ...) that data is told from, by name, beside evaluation.ood.
        banks: `state_dict` of every source, for samples from a bank of images; may be missing.
    """
    with at_most(settings.at_once):
        return _evaluate(settings, on_stage, others or {}, banks)


def _evaluate(
    settings: Settings,
    on_stage: Stage,
    others: Mapping[str, Tensor],
    banks: Sequence[Mapping[str, Any]],
) -> tuple[Metrics, Arrays]:
    how, data = settings.evaluation, settings.data
    device = next(settings.energy.parameters(), torch.empty(0)).device
    of_data, of_chains = generators(how.seed, device)
    others = {**read_sets(how.ood, data), **others}
    metrics: Metrics = {}
    arrays: Arrays = {}
    if isinstance(data, KnownDensity):
        metrics["entropy"] = data.entropy
    if isinstance(data, KnownDensity | HeldOut):
        arrays["box"] = torch.tensor(data.box)

    x_data = data.reference(how.samples, of_data)
    arrays["x_data"] = x_data
    seen = noisy(settings, x_data, generators(how.seed + 4, device)[1])
    if how.ais is not None:
        metrics |= _likelihood(settings, x_data, how.ais, on_stage)
    if isinstance(data, HeldOut):
        metrics |= plain_models(data)
    # Where a grid can be laid, its integrals are exact and take the place of estimates.
    on_grid, grids = _on_grid(settings, on_stage)
    metrics, arrays = {**metrics, **on_grid}, {**arrays, **grids}
    of_chain_checks, trails = _chains(settings, seen, of_data, of_chains, on_stage)
    metrics, arrays = {**metrics, **of_chain_checks}, {**arrays, **trails}
    on_stage("other points")
    of_sets, of_others = _other_points(settings, seen, others)
    metrics, arrays = {**metrics, **of_sets}, {**arrays, **of_others}
    of_classes, by_class = check_classes(settings, x_data, on_stage)
    metrics, arrays = {**metrics, **of_classes}, {**arrays, **by_class}
    if len(data.shape) == 3:
        of_pictures, arrays = check_images(settings, arrays, banks, on_stage)
        metrics |= of_pictures
    on_stage("floor of the energy distance")
    metrics["energy_distance_floor"] = _floor(settings, of_data)
    metrics["samples"] = len(x_data)
    metrics["coldness"] = settings.energy.coldness
    return metrics, arrays


def _floor(settings: Settings, of_data: torch.Generator) -> float:
    """Energy distance of two samples of the data, as samples of the model are compared with it."""
    how, data = settings.evaluation, settings.data
    device = next(settings.energy.parameters(), torch.empty(0)).device
    _, of_noise = generators(how.seed + 8, device)
    pairs = [data.pair(how.samples, of_data) for _ in range(FLOOR_PAIRS)]
    return sum(
        energy_distance(*(noisy(settings, part, of_noise) for part in pair)) for pair in pairs
    ) / len(pairs)


def _likelihood(settings: Settings, x_data: Tensor, how: AIS, on_stage: Stage) -> Metrics:
    """log Z, log-likelihood and KL as brackets; one figure that says so where AIS failed."""
    energy, data = settings.energy, settings.data
    device = next(energy.parameters(), torch.empty(0)).device
    of_data, of_chains = generators(settings.evaluation.seed + 1, device)
    x = data.sample(EXAMPLES_FOR_AIS, of_data).to(device)
    compiled = False if settings.compile == "never" else None
    try:
        z = log_z(energy, x, of_chains, how, on_stage, compiled)
    except NotFinite:
        return {"log_z_failed": 1.0}
    metrics = {"log_z": z.estimate, **z.metrics()}
    if isinstance(data, KnownDensity):
        metrics |= of_known(energy, data, x_data, z)
    elif isinstance(data, HeldOut):
        metrics |= of_held_out(energy, data, z)
    return metrics


def _other_points(
    settings: Settings, seen: Tensor, others: Mapping[str, Tensor]
) -> tuple[Metrics, Arrays]:
    """How well potentials tell data from other points; of random numbers of their own."""
    how, data, energy = settings.evaluation, settings.data, settings.energy
    device = next(energy.parameters(), torch.empty(0)).device
    of_sets, of_noise = generators(how.seed + 2, device)
    sets = {**own_sets(data, how.samples, how.widening, of_sets), **others}
    sets = {name: noisy(settings, x, of_noise) for name, x in sets.items()}
    x_train = noisy(settings, data.sample(how.samples, of_sets), of_noise)
    return compare_with_sets(energy, data, seen, x_train, sets)


def _on_grid(settings: Settings, on_stage: Stage) -> tuple[Metrics, Arrays]:
    how, energy, data = settings.evaluation, settings.energy, settings.data
    if isinstance(data, KnownDensity) and data.shape == (2,):
        on_stage("density on a grid")
        return compare_on_grid(energy, data, how.grid, how.widening)
    if isinstance(data, KnownDensity) and data.plane is not None:
        on_stage("slice of the density on a grid")
        return compare_slices(energy, data, how.grid, how.widening)
    if isinstance(data, HeldOut) and data.shape in ((1,), (2,)):
        on_stage("log-likelihood of held-out points")
        return score_on_grid(energy, data, how.grid, how.widening)
    return {}, {}


def _chains(
    settings: Settings,
    seen: Tensor,
    of_data: torch.Generator,
    of_chains: torch.Generator,
    on_stage: Stage,
) -> tuple[Metrics, Arrays]:
    how, source = settings.evaluation, settings.sampling
    short_steps = source.steps
    long_steps = max(how.long_steps, short_steps)
    data_steps = max(1, long_steps // SHARE_FROM_DATA)
    checks = ChainChecks(
        settings.energy,
        source,
        seen,
        of_chains,
        value_at(source.step_scale, settings.iterations - 1, settings.iterations),
        settings.compile != "never" and worth_compiling(long_steps),
        settings.precision,
    )
    on_stage(f"short-run chains, {short_steps} steps")
    short = checks.short(how.samples, short_steps)
    long = short
    if not short.lost:
        long = checks.onwards(
            short, long_steps, lambda k: on_stage(f"long-run chains, {k} of {long_steps} steps")
        )
    on_stage(f"chains from data, {data_steps} steps")
    from_data = checks.from_data(settings.data.sample(how.samples, of_data), data_steps)
    trails = {"short": short, "long": long, "data": from_data}
    metrics: Metrics = {
        "short_steps": short_steps,
        "long_steps": long_steps,
        "data_steps": data_steps,
    }
    if not long.lost and source.kernel.has_twin:
        on_stage("acceptance of moves")
        metrics["acceptance"] = checks.acceptance(long)
    if not short.lost and how.adjusted:
        on_stage(f"chains with the Metropolis test, {data_steps} steps")
        trails["mala"], of_mala = checks.adjusted(short, data_steps)
        metrics |= {} if trails["mala"].lost else of_mala
    if not long.lost:
        on_stage("mixing of long chains")
        metrics |= checks.mixing(long, long_steps)
    arrays: Arrays = {}
    for name, trail in trails.items():
        arrays["x_from_data" if name == "data" else f"x_{name}"] = trail.x.cpu()
        if trail.lost:  # no distance from what is left: the figure says how many are not
            metrics[f"lost_chains_{name}"] = trail.lost
        else:
            metrics[f"energy_distance_{name}"] = trail.distance[-1]
            metrics[f"neighbours_{name}"] = neighbour_share(trail.x.cpu(), seen)
    of_potentials, potentials = _against_data(settings, seen, long, from_data)
    return {**metrics, **of_potentials}, {**arrays, **potentials}


def _against_data(
    settings: Settings, seen: Tensor, long: Trail, from_data: Trail
) -> tuple[Metrics, Arrays]:
    """Potentials of long-run chains beside those of data, and over the steps."""
    u_data = potential(settings.energy, seen)
    metrics: Metrics = {}
    arrays = {**long.arrays("long"), **from_data.arrays("data"), "u_data": u_data}
    if not long.lost:
        u_long = potential(settings.energy, long.x)
        arrays["u_long"] = u_long
        metrics["u_shift"] = shift(u_long, u_data)
        if len(long.steps) > 2:  # else there is no note between the start and the end
            metrics["u_drift"] = change(long.steps, [float(u[1]) for u in long.u], u_data)
    return metrics, arrays
