"""Was training healthy? What its series say (diagnostics/health.py), and what the guard had to do.

    convergent                    yes: chains and data agree, and nothing ran away
    non-convergent, oversaturated partly: steady, but what was learned is where chains of that
                                  length go, not a density
    diverging, starved            no

A guard that gave the run up makes it a no. A run that it rolled back or raised an alarm in is
healthy in part at best: what was done may have changed the settings for a while.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from coldness.diagnostics.health import health_metrics, training_state
from coldness.report.events import Event, guard_metrics, read_events
from coldness.report.figures import Columns
from coldness.files import BadFile
from coldness.runs.log import read_metrics
from coldness.trust.answers import Answer, Grade, worst

GRADES: dict[str, Grade] = {
    "convergent": "yes",
    "non-convergent": "partly",
    "oversaturated": "partly",
    "diverging": "no",
    "starved": "no",
}

STEADY = (
    "Nothing ran away, but without long chains it cannot be said whether training has converged."
)


def training_metrics(folder: Path) -> dict[str, float]:
    """Figures of a run's training for metrics.json, from metrics.csv and events.jsonl.

    Raises:
        BadFile: a file is missing or broken.
    """
    path = folder / "metrics.csv"
    try:
        columns = {k: np.array(v, dtype=np.float64) for k, v in read_metrics(path).items()}
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} is missing, truncated or not of coldness") from error
    return metrics_of(columns, read_events(folder))


def metrics_of(columns: Columns, events: Sequence[Event]) -> dict[str, float]:
    """The same from columns and events; those of the guard are there where the run had one.

    accuracy_best is the best accuracy on the validation part over training.
    """
    guarded = guard_metrics(events) if "attempt" in columns else {}
    seen = columns.get("accuracy_validation")
    best = {} if seen is None or not len(seen) else {"accuracy_best": float(np.max(seen))}
    return {**health_metrics(columns), **guarded, **best}


def training(metrics: Mapping[str, float]) -> Answer:
    """The answer, from whatever was measured."""
    guarded, says = _guard(metrics)
    looked_at = "health_window" in metrics
    found = training_state(metrics) if looked_at else None
    if found is None:
        judged: Grade = "no" if guarded == "no" else "not measured"
        sentence = STEADY if looked_at else "Its training was not looked at."
        return Answer("training", judged, says, sentence)
    judged = worst(GRADES[found.state], guarded or "yes")
    advice = "" if judged == "yes" else f" {found.advice}"
    figure = "; ".join(filter(None, (found.figure, says)))
    return Answer("training", judged, figure, f"{found.sentence}{advice}")


def _guard(metrics: Mapping[str, float]) -> tuple[Grade | None, str]:
    """The best grade that the guard's events leave, and what they were; None without a guard."""
    if "guard_alarms" not in metrics:
        return None, ""
    alarms, back = metrics["guard_alarms"], metrics.get("guard_rollbacks", 0.0)
    warnings = metrics.get("guard_warnings", 0.0)
    says = ", ".join(
        f"{count:.0f} {word}{'s' * (count != 1)}"
        for count, word in ((alarms, "alarm"), (back, "rollback"), (warnings, "warning"))
        if count
    )
    if metrics.get("guard_stopped"):
        return "no", f"given up by the guard after {says}"
    if not says:
        return "yes", "no alarm of the guard"
    return "partly", f"{says} of the guard"
