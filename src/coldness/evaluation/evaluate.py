"""Measuring a trained model: everything that goes into metrics.json and evaluation.npz.

All random numbers come from the evaluation's own seed, so evaluating twice gives the same metrics,
and two models are compared on the same data and the same noise. Samples are those of the model's
sampler: chains from noise with its kernel and step, on the model itself (no tempering). They are
compared with fresh data, or with held-out points where data is finite. The floor of these distances
is the distance between two samples of the data of the same size: of training points and test points
where data is finite. The same examples are compared with out-of-distribution sets by their
potential (ood.py).

Further checks of images and of classifiers are in image_checks.py, those of tables in
table_checks.py. Images that the model is
evaluated on carry the noise that training images had at the end, because the model was trained on
no others. Metrics of features, nearest training images and log-likelihoods are those of clean
images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from coldness.batching import at_most
from coldness.chains import Source
from coldness.data import Data
from coldness.diagnostics.convergence import change, shift
from coldness.evaluation.bank_checks import Banks, bank_metrics
from coldness.evaluation.chain_checks import ChainChecks, Trail
from coldness.evaluation.density import (
    compare_on_grid,
    compare_slices,
    grid_edge,
    score_on_grid,
)
from coldness.evaluation.elsewhere import (
    effective,
    fraction,
    look_elsewhere,
    misplaced,
    reverse_divergence,
)
from coldness.evaluation.image_checks import check_classes, check_images
from coldness.evaluation.latent_checks import check_latents
from coldness.evaluation.likelihood import of_held_out, of_known, plain_models
from coldness.evaluation.modes import mode_metrics
from coldness.evaluation.noisy import noisy
from coldness.evaluation.ood import compare_with_sets, own_sets, read_sets
from coldness.evaluation.samples import energy_distance, neighbour_share
from coldness.evaluation.table_checks import check_table
from coldness.kernels import worth_compiling
from coldness.likelihood.ais import NotFinite
from coldness.likelihood.bracket import LEAST_ESS
from coldness.likelihood.potential import potential
from coldness.model import Model
from coldness.seeds import generators
from coldness.training.normalise import EXAMPLES_FOR_AIS, log_z_of
from coldness.training.settings import Evaluation

FLOOR_PAIRS = 8
"""Pairs of samples that are averaged, because energy distances of single pairs vary tenfold."""

SHARE_FROM_DATA = 10
"""Chains from data make a tenth of the steps of long-run chains, as in the hybrid paper."""

Stage = Callable[[str], None]
Metrics = dict[str, float]
Arrays = dict[str, Tensor]
Found = tuple[Metrics, Arrays]


def evaluate(
    model: Model,
    data: Data,
    how: Evaluation | None = None,
    on_stage: Stage = lambda stage: None,
    others: Mapping[str, Tensor] | None = None,
    banks: Banks | None = None,
) -> Found:
    """Metrics and arrays of a trained model.

    Args:
        model: the model. If it has no log Z, this is estimated and stored in the model.
        data: what it is compared with, in its own units.
        how: settings of the evaluation.
        on_stage: called with the name of each stage, for a progress display.
        others: out-of-distribution sets of points (N, ...) by name, in addition to the settings'.
        banks: replay buffers of the run; may be missing.
    """
    how = how or Evaluation()
    with at_most(model.at_once):
        others = {**read_sets(how.ood, data), **(others or {})}
        return _evaluate(model, data, how, on_stage, others, banks or {})


def _evaluate(
    model: Model,
    data: Data,
    how: Evaluation,
    on_stage: Stage,
    others: Mapping[str, Tensor],
    banks: Banks,
) -> Found:
    of_data, of_chains = generators(how.seed, model.device)
    metrics: Metrics = {}
    arrays: Arrays = {}
    if data.known is not None:
        metrics["entropy"] = data.known.entropy
    if (bounded := data.known or data.finite) is not None:
        arrays["box"] = torch.tensor(bounded.box)

    x_data = data.reference(how.samples, of_data)
    arrays["x_data"] = x_data
    seen = noisy(model, x_data, generators(how.seed + 4, model.device)[1])
    metrics |= _likelihood(model, data, how, x_data, on_stage)
    metrics |= _elsewhere(model, data, how, x_data, on_stage)
    if data.finite is not None:
        metrics |= plain_models(data.finite)

    def add(found: Found) -> None:
        metrics.update(found[0])
        arrays.update(found[1])

    # Where a grid is possible, its integrals are exact and replace estimates.
    add(_on_grid(model, data, how, on_stage))
    if data.known is not None and data.known.mode_shares is not None:
        on_stage("mode shares")
        metrics |= mode_metrics(model.energy, data.known, arrays, generators(how.seed + 9)[0])
    if model.sampler is not None:
        add(_chains(model, model.sampler, data, how, seen, (of_data, of_chains), on_stage))
    on_stage("out-of-distribution points")
    add(_other_points(model, data, how, seen, others))
    add(check_classes(model, data, how, x_data, on_stage))
    add(check_latents(model, data, how, on_stage))
    if data.finite is not None and model.domain.is_table:
        add(check_table(model, data.finite, arrays, how.seed, on_stage))
    if model.domain.is_images:
        add(check_images(data, how, arrays, banks, on_stage))
    on_stage("floor of the energy distance")
    metrics["energy_distance_floor"] = _floor(model, data, how, of_data)
    metrics["samples"] = len(x_data)
    metrics["coldness"] = model.energy.coldness
    metrics.update(bank_metrics(model, data, banks, how.seed))
    return metrics, arrays


def _floor(model: Model, data: Data, how: Evaluation, of_data: torch.Generator) -> float:
    """Energy distance between two samples of the data, measured as for samples of the model."""
    _, of_noise = generators(how.seed + 8, model.device)
    pairs = [data.pair(how.samples, of_data) for _ in range(FLOOR_PAIRS)]
    return sum(
        energy_distance(*(noisy(model, part, of_noise) for part in pair)) for pair in pairs
    ) / len(pairs)


def _likelihood(
    model: Model, data: Data, how: Evaluation, x_data: Tensor, on_stage: Stage
) -> Metrics:
    """log Z, log-likelihood and KL as brackets; a single metric if AIS failed."""
    if how.ais is None:
        return {}
    if model.z is None or not len(model.z.x):  # a loaded model has no weighted samples
        try:
            model.z = log_z_of(model, data, how, on_stage)
        except NotFinite:
            return {"log_z_failed": 1.0}
    z = model.z
    metrics = {"log_z": z.estimate, **z.metrics()}
    if data.known is not None:
        metrics |= of_known(model.energy, data.known, x_data, z)
    elif data.finite is not None:
        metrics |= of_held_out(model.energy, data.finite, z)
    return metrics


def _elsewhere(
    model: Model, data: Data, how: Evaluation, x_data: Tensor, on_stage: Stage
) -> Metrics:
    """What weighted samples of the model say about mass that neither data nor chains reach."""
    z = model.z
    if how.ais is None or z is None or not len(z.x) or model.domain.is_images:
        return {}
    on_stage("mass away from the data")
    of_data, _ = generators(how.seed + 16)
    x = data.sample(EXAMPLES_FOR_AIS, of_data)
    metrics = look_elsewhere(model.energy, x, z, of_data)
    if data.known is not None:
        metrics |= reverse_divergence(model.energy, data.known, z)
        u = potential(model.energy, x_data)
        metrics["tv_estimate"] = misplaced(u, data.known.log_prob(x_data), z)
    return metrics


def _other_points(
    model: Model, data: Data, how: Evaluation, seen: Tensor, others: Mapping[str, Tensor]
) -> Found:
    """Out-of-distribution detection by potentials, with random numbers of its own."""
    of_sets, of_noise = generators(how.seed + 2, model.device)
    sets = {**own_sets(data, how.samples, how.widening, of_sets), **others}
    if data.known is not None:
        sets |= _own_samples(model, how.samples, seen)
    sets = {name: noisy(model, x, of_noise) for name, x in sets.items()}
    x_train = noisy(model, data.sample(how.samples, of_sets), of_noise)
    return compare_with_sets(model.energy, data, seen, x_train, sets, model.kept)


def _own_samples(model: Model, count: int, like: Tensor) -> Arrays:
    """Weighted samples of the model as a set: where it has mass that data has not, the true density
    tells them from data and the model does not."""
    z = model.z
    if z is None or not len(z.x) or model.domain.is_images:
        return {}
    share, generator = z.log_w.softmax(0), torch.Generator().manual_seed(0)
    if effective(share) < LEAST_ESS:
        return {}
    pick = torch.multinomial(share, count, replacement=True, generator=generator)
    return {"model": z.x[pick].to(like)}


def _on_grid(model: Model, data: Data, how: Evaluation, on_stage: Stage) -> Found:
    energy, known, finite = model.energy, data.known, data.finite
    if known is not None and data.shape in ((1,), (2,)):
        on_stage("density on a grid")
        beyond = _off_grid(model, grid_edge(known.box, how.widening))
        metrics, grids = compare_on_grid(energy, known, how.grid, how.widening, *beyond.values())
        return {**metrics, **beyond}, grids
    if known is not None and known.plane is not None:
        on_stage("slice of the density on a grid")
        return compare_slices(energy, known, how.grid, how.widening)
    if finite is not None and data.shape in ((1,), (2,)):
        on_stage("log-likelihood of held-out points")
        beyond = _off_grid(model, grid_edge(finite.box, how.widening))
        metrics, grids = score_on_grid(energy, finite, how.grid, how.widening, *beyond.values())
        return {**metrics, **beyond}, grids
    return {}, {}


def _off_grid(model: Model, edge: float) -> Metrics:
    """Fraction of the model's mass outside the grid, by its weighted samples."""
    z = model.z
    if z is None or not len(z.x):
        return {}
    outside = (z.x.flatten(1).abs() > edge).any(1)
    mass, error = fraction(z.log_w.softmax(0), outside)
    return {"mass_off_grid": mass, "mass_off_grid_error": error}


def _chains(
    model: Model,
    source: Source,
    data: Data,
    how: Evaluation,
    seen: Tensor,
    streams: tuple[torch.Generator, torch.Generator],
    on_stage: Stage,
) -> Found:
    of_data, of_chains = streams
    short_steps = source.steps
    # Short chains may have transitions; long chains then make as many steps again without them.
    least = short_steps if source.transition is None else 2 * short_steps
    long_steps = max(how.long_steps, least)
    data_steps = max(1, long_steps // SHARE_FROM_DATA)
    checks = ChainChecks(
        model.energy,
        source,
        seen,
        of_chains,
        model.step_scale,
        model.compile != "never" and worth_compiling(long_steps),
        model.precision,
        model.domain.is_images,
    )
    on_stage(f"short-run chains, {short_steps} steps")
    short = checks.short(how.samples, short_steps)
    long = short
    if not short.lost:
        long = checks.onwards(
            short, long_steps, lambda k: on_stage(f"long-run chains, {k} of {long_steps} steps")
        )
    on_stage(f"chains from data, {data_steps} steps")
    from_data = checks.from_data(data.sample(how.samples, of_data), data_steps)
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
        if trail.lost:  # no distance then: the metric counts the chains that were lost
            metrics[f"lost_chains_{name}"] = trail.lost
        else:
            metrics[f"energy_distance_{name}"] = trail.distance[-1]
            metrics[f"neighbours_{name}"] = neighbour_share(trail.x.cpu(), seen)
    of_potentials, potentials = _against_data(model, seen, short, long, from_data)
    return {**metrics, **of_potentials}, {**arrays, **potentials}


def _against_data(model: Model, seen: Tensor, short: Trail, long: Trail, from_data: Trail) -> Found:
    """Potentials of chains compared with those of data, and over the steps."""
    u_data = potential(model.energy, seen)
    metrics: Metrics = {}
    arrays = {**long.arrays("long"), **from_data.arrays("data"), "u_data": u_data}
    if not short.lost:
        arrays["u_short"] = potential(model.energy, short.x)
    if not long.lost:
        u_long = potential(model.energy, long.x)
        arrays["u_long"] = u_long
        metrics["u_shift"] = shift(u_long, u_data)
        if len(long.steps) > 2:  # else there is no record between the start and the end
            metrics["u_drift"] = change(long.steps, [float(u[1]) for u in long.u], u_data)
    return metrics, arrays
