"""Metrics of a whole training: health of its series, what the guard did, the best validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from coldness.diagnostics.health import health_metrics
from coldness.runs.events import Event, guard_metrics


def training_metrics(
    columns: Mapping[str, ArrayLike], events: Sequence[Event]
) -> dict[str, float]:
    """From columns of metrics.csv and the guard's events; those where the run had a guard.

    accuracy_best is the best accuracy on the validation part over training.
    """
    series = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    guarded = guard_metrics(events) if "attempt" in series else {}
    seen = series.get("accuracy_validation")
    best = {} if seen is None or not len(seen) else {"accuracy_best": float(np.max(seen))}
    return {**health_metrics(series), **guarded, **best}
