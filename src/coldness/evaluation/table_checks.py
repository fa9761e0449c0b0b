"""What is measured of tables beside all else: plain models, columns and pairs, unusual rows.

    log_likelihood_mixture, _kde_cv    held-out log-likelihood of plain models (plain_models.py)
    column_distance                    largest Kolmogorov-Smirnov distance of a column
    pairs_tested, pairs_differ         a two-sample test for every pair of columns (two_samples.py)

Columns and pairs compare held-out rows with short-run samples of the model, both in the units of
the table with integers and categories as whole numbers. The leading directions are principal
components of the training part, in the units of the model. Unusual rows are the held-out rows with
the lowest scores, which are those of `coldness score`: log p, or -U where log Z is loose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from coldness.data import HeldOut
from coldness.evaluation.likelihood import SCORED
from coldness.evaluation.plain_models import fitted_models
from coldness.evaluation.reasons import explained
from coldness.evaluation.two_samples import chosen_pairs, compare_pairs, rows_for
from coldness.likelihood.potential import potential
from coldness.model import Model

UNUSUAL = 10
"""Rows with the lowest scores that are kept with their reasons."""

DIRECTIONS = 3
"""Leading directions that are drawn."""

DIFFERS = 0.05
"""Corrected p-value at or below which a pair of columns differs."""

Found = tuple[dict[str, float], dict[str, Tensor]]


def check_table(
    model: Model,
    data: HeldOut,
    arrays: Mapping[str, Tensor],
    seed: int,
    on_stage: Callable[[str], None],
) -> Found:
    """Metrics and arrays of a table.

    Args:
        model: of the table.
        data: with test rows.
        arrays: of the evaluation so far: x_data, and x_short where there are samples.
        seed: of the random numbers.
        on_stage: called with the name of each stage.
    """
    on_stage("plain models of the table")
    metrics, found = dict(fitted_models(data)), leading_directions(data)
    samples = arrays.get("x_short")
    if samples is not None and bool(samples.isfinite().all()):
        on_stage("columns and pairs of columns")
        of_columns = compare_columns(model, arrays["x_data"], samples, seed)
        metrics |= of_columns[0]
        found |= of_columns[1]
    on_stage("unusual rows")
    return metrics, {**found, **unusual_rows(model, data)}


def leading_directions(data: HeldOut) -> dict[str, Tensor]:
    """Principal components of the training part; none where there are no more than two columns."""
    x = data.train[:SCORED].double()
    if x.shape[1] <= 2:
        return {}
    _, sizes, axes = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    variance = sizes.square()
    return {
        "table_centre": x.mean(0),
        "table_axes": axes[:DIRECTIONS],
        "table_axes_share": (variance / variance.sum())[:DIRECTIONS],
    }


def compare_columns(model: Model, x: Tensor, samples: Tensor, seed: int) -> Found:
    """Distances of columns, and tests of pairs, between held-out rows and samples."""
    units = model.domain.units
    kept = units.per_column(torch.ones(1, x.shape[1]))[0].nonzero()[:, 0].numpy()
    rows, drawn = (
        np.asarray(units.rounded(units.original(part).numpy()))[:, kept] for part in (x, samples)
    )
    distances = [ks_2samp(a, b).statistic for a, b in zip(rows.T, drawn.T, strict=True)]
    metrics = {"column_distance": float(max(distances))}
    arrays = {
        "table_columns": torch.from_numpy(kept),
        "table_distances": torch.tensor(distances, dtype=torch.float64),
    }
    pairs = chosen_pairs(len(kept), seed)
    n = min(rows_for(len(pairs)), len(rows), len(drawn))
    if not len(pairs):
        return metrics, arrays
    rng = np.random.default_rng(seed)
    some = [part[rng.permutation(len(part))[:n]] for part in (rows, drawn)]
    distance, p = compare_pairs(some[0], some[1], pairs, seed)
    metrics["pairs_tested"] = float(len(pairs))
    metrics["pairs_differ"] = float((p <= DIFFERS).sum())
    metrics["pairs_rows"] = float(n)
    return metrics, {
        **arrays,
        "table_pairs": torch.from_numpy(kept[pairs]),
        "table_pair_distances": torch.from_numpy(distance),
        "table_pair_p": torch.from_numpy(p),
    }


def unusual_rows(model: Model, data: HeldOut) -> dict[str, Tensor]:
    """The held-out rows with the lowest scores: values, scores, and the slopes of U."""
    units, scored = model.domain.units, data.scored[:SCORED]
    own = torch.as_tensor(units.rounded(units.original(scored).numpy()))
    if len(data.missing):
        own[data.missing[: len(own)]] = torch.nan
    points = units.into_model(own)
    z = model.log_z
    usable = z is not None and z.tight
    u = potential(model.energy, points) + units.log_stretch(points)
    scores = -u - (z.estimate if z is not None and usable else 0.0)
    worst = scores.argsort(stable=True)[:UNUSUAL]
    places = data.places if len(data.places) else torch.full((len(own),), -1)
    return {
        "unusual_x": own[worst],
        "unusual_score": scores[worst],
        "unusual_place": places[worst],
        "unusual_slopes": torch.from_numpy(explained([model], points[worst])),
        "unusual_is_log_p": torch.tensor(float(usable)),
        "unusual_of": torch.tensor(float(len(own))),
        "table_middle": own.nanquantile(0.5, 0),
        "table_low": own.nanquantile(0.05, 0),
        "table_high": own.nanquantile(0.95, 0),
    }
