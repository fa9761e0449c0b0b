"""Runs side by side: the main metrics of each, and which runs are the best by each of them.

A run is marked as best where no other run is clearly better. Overlapping brackets count as equal,
and so do differences within the metric's tolerance (coldness.metrics), which for energy distances
and KIDs is their floor. Runs on different data are not compared at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from coldness.metrics import COMPARED, LOWEST, Metric, metric, set_names
from coldness.trust.density_answer import bracket

Metrics = Mapping[str, float]


def main_metrics(metrics: Metrics) -> dict[str, float]:
    """The metrics of a run that the table has a row for."""
    found = dict(metrics)
    for key, score in LOWEST.items():
        values = [metrics[f"auroc_{score}_{name}"] for name in set_names(metrics, score)]
        if values:
            found[key] = math.nan if any(map(math.isnan, values)) else min(values)
    return {key: found[key] for key in COMPARED if key in found}


def best(runs: Sequence[Metrics]) -> dict[str, list[int]]:
    """For every metric that several runs have: the indices of the best runs."""
    values = [main_metrics(metrics) for metrics in runs]
    marked: dict[str, list[int]] = {}
    for entry in map(metric, COMPARED):
        ends = {
            k: _ends(entry, runs[k], found[entry.key])
            for k, found in enumerate(values)
            if math.isfinite(found.get(entry.key, math.nan)) and _reliable(entry, runs[k])
        }
        if len(ends) < 2 or not _comparable(entry, [runs[k] for k in ends]):
            continue
        least = min(high for _, high in ends.values())
        marked[entry.key] = [k for k, (low, _) in ends.items() if low <= least]
    return marked


def _on_grid(metrics: Metrics) -> bool:
    return "tv" in metrics or "log_z_error" in metrics


def _reliable(entry: Metric, metrics: Metrics) -> bool:
    """Whether the bracket is tight; a loose one overlaps with everything and is never the best."""
    return not entry.bracket or _on_grid(metrics) or bracket(metrics) in ("tight", "none")


def _comparable(entry: Metric, runs: Sequence[Metrics]) -> bool:
    return not entry.by_samples or len({metrics.get("samples") for metrics in runs}) == 1


def _ends(entry: Metric, metrics: Metrics, value: float) -> tuple[float, float]:
    """Lowest and highest loss that the metric is compatible with."""
    low, high = metrics.get(f"{entry.bracket}_low"), metrics.get(f"{entry.bracket}_high")
    if not _on_grid(metrics) and low is not None and high is not None:
        losses = entry.loss(low), entry.loss(high)
        return min(losses), max(losses)
    return entry.loss(value) - entry.slack(value, metrics), entry.loss(value)
