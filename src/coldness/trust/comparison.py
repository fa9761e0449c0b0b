"""Runs side by side: the main figures of each, and which of them are the best.

A figure is marked as best where no other run is better by more than can be told: brackets that
overlap are not told apart, nor are energy distances and KIDs that differ by less than their floor.
Runs on different data are not compared at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coldness.report.image_labels import quality_keys, quality_label
from coldness.trust.density_answer import bracket
from coldness.trust.ood_answer import set_names

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Figure:
    """A row of the table.

    Args:
        key: of the figure, in metrics.json or derived.
        label: for people.
        loss: what should be small, from the value.
        tolerance: differences of the loss up to this are none.
    """

    key: str
    label: str
    loss: Callable[[float], float]
    tolerance: float = 0.0


def _low(value: float) -> float:
    return value


def _high(value: float) -> float:
    return -value


def _quality() -> list[Figure]:
    """Of samples of images: an Inception Score should be high, all else low."""
    return [
        Figure(key, quality_label(key, short=True), _high if key.startswith("is_") else _low)
        for key in quality_keys()
        if not key.endswith("_floor")
    ]


FIGURES = (
    Figure("accuracy", "accuracy", _high, 0.005),
    Figure("ece", "ECE", _low, 0.005),
    Figure("accuracy_refined", "accuracy, refined", _high, 0.005),
    Figure("ece_refined", "ECE, refined", _low, 0.005),
    Figure("class_agreement", "agreement of classes", _high, 0.02),
    *_quality(),
    Figure("energy_distance_short", "energy distance, short-run", _low),
    Figure("neighbours_short", "own neighbours, short-run", lambda v: abs(v - 0.5), 0.02),
    Figure("energy_distance_long", "energy distance, long-run", _low),
    Figure("neighbours_long", "own neighbours, long-run", lambda v: abs(v - 0.5), 0.02),
    Figure("u_shift", "shift of U of long chains", abs, 0.05),
    Figure("kl", "KL(data || model), nats", _low, 0.005),
    Figure("tv", "total variation", _low, 0.005),
    Figure("log_likelihood_test", "log-likelihood, nats", _high, 0.005),
    Figure("lowest_auroc", "AUROC, hardest set", _high, 0.005),
    Figure("lowest_auroc_maxp", "AUROC of class probability, hardest set", _high, 0.005),
    Figure("lowest_auroc_grad", "AUROC of gradient norm, hardest set", _high, 0.005),
    Figure("lowest_auroc_typical", "AUROC of typicality, hardest set", _high, 0.005),
    Figure("seconds", "seconds of training", _low),
)
"""Tolerances: 0.02 of neighbours is two standard errors of 4000 samples, 0.05 of a shift three. The
others are too small to choose by."""

LOWEST = {
    "lowest_auroc": "logp",
    "lowest_auroc_maxp": "maxp",
    "lowest_auroc_grad": "grad",
    "lowest_auroc_typical": "typical",
}

VARIES = 0.02
"""Share of itself: FIDs, and Inception Scores, that differ by less are not told apart."""

BRACKETS = {"kl": "kl", "log_likelihood_test": "log_likelihood"}


def main_figures(metrics: Metrics) -> dict[str, float]:
    """Those of a run that the table has a row for."""
    found = dict(metrics)
    for key, score in LOWEST.items():
        scores = [metrics[f"auroc_{score}_{name}"] for name in set_names(metrics, score)]
        if scores:
            found[key] = math.nan if any(map(math.isnan, scores)) else min(scores)
    return {row.key: found[row.key] for row in FIGURES if row.key in found}


def best(runs: Sequence[Metrics]) -> dict[str, list[int]]:
    """For every figure that several runs have: which of them are the best, by number."""
    values = [main_figures(metrics) for metrics in runs]
    marked: dict[str, list[int]] = {}
    for row in FIGURES:
        ends = {
            k: _ends(row, runs[k], found[row.key])
            for k, found in enumerate(values)
            if math.isfinite(found.get(row.key, math.nan)) and _reliable(row.key, runs[k])
        }
        if len(ends) < 2 or not _comparable(row.key, [runs[k] for k in ends]):
            continue
        least = min(high for _, high in ends.values())
        marked[row.key] = [k for k, (low, _) in ends.items() if low <= least]
    return marked


def _on_grid(metrics: Metrics) -> bool:
    return "tv" in metrics or "log_z_error" in metrics


def _reliable(key: str, metrics: Metrics) -> bool:
    """A loose bracket overlaps with everything, which makes it the best at nothing."""
    return key not in BRACKETS or _on_grid(metrics) or bracket(metrics) in ("tight", "none")


def _comparable(key: str, runs: Sequence[Metrics]) -> bool:
    """Energy distances, neighbours, FID and Inception Score depend on the number of samples."""
    sampled = key.startswith(("energy_distance", "neighbours", "fid_", "is_"))
    return not sampled or len({metrics.get("samples") for metrics in runs}) == 1


def _ends(row: Figure, metrics: Metrics, value: float) -> tuple[float, float]:
    """Lowest and highest loss that the figure may stand for."""
    name = BRACKETS.get(row.key, "")
    low, high = metrics.get(f"{name}_low"), metrics.get(f"{name}_high")
    if not _on_grid(metrics) and low is not None and high is not None:
        losses = row.loss(low), row.loss(high)
        return min(losses), max(losses)
    slack = row.tolerance
    if row.key.startswith("energy_distance"):
        slack = metrics.get("energy_distance_floor", 0.0)
    elif row.key.startswith("kid_"):  # without bias: the floor may lie on either side of 0
        slack = abs(metrics.get("_".join([*row.key.split("_")[:2], "floor"]), 0.0))
    elif row.key.startswith(("fid_", "is_")):
        slack = VARIES * abs(value)
    return row.loss(value) - slack, row.loss(value)
