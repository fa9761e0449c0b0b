"""Metrics of a training for metrics.json, from the run's metrics.csv and events.jsonl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coldness.diagnostics.health import health_metrics
from coldness.files import BadFile
from coldness.runs.events import Event, guard_metrics, read_events
from coldness.runs.log import read_metrics


def training_metrics(folder: Path) -> dict[str, float]:
    """Metrics of the run in a folder.

    Raises:
        BadFile: a file is missing or broken.
    """
    path = folder / "metrics.csv"
    try:
        columns = {k: np.array(v, dtype=np.float64) for k, v in read_metrics(path).items()}
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} is missing, truncated or was not written by coldness") from error
    return metrics_of(columns, read_events(folder / "events.jsonl"))


def metrics_of(
    columns: Mapping[str, NDArray[np.float64]], events: Sequence[Event]
) -> dict[str, float]:
    """The same from columns and events; metrics of the guard are included if the run had one.

    accuracy_best is the best accuracy on the validation part during training.
    """
    guarded = guard_metrics(events) if "attempt" in columns else {}
    seen = columns.get("accuracy_validation")
    best = {} if seen is None or not len(seen) else {"accuracy_best": float(np.max(seen))}
    return {**health_metrics(columns), **guarded, **best, **_live(columns)}


def _live(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """The last measurement of walkers; NaN in these columns stands for none."""
    found = {name: x[np.isfinite(x)] for name, x in columns.items() if name.startswith("live_")}
    return {name: float(x[-1]) for name, x in found.items() if len(x)}
