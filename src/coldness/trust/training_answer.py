"""Was training healthy? Answered from its time series (diagnostics/health.py) and guard events.

    convergent                    yes: chains and data agree, and nothing diverged
    non-convergent, oversaturated partly: stable, but the model was fitted to chains of that
                                  length and is not a density
    diverging, starved            no

A run that the guard stopped is a no. A run that it rolled back or raised an alarm in is partly
healthy at best: its remedies may have changed the settings for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from coldness.diagnostics.health import training_state
from coldness.trust.answers import Answer, Grade, worst

GRADES: dict[str, Grade] = {
    "convergent": "yes",
    "non-convergent": "partly",
    "oversaturated": "partly",
    "diverging": "no",
    "starved": "no",
}

STABLE = "Training was stable. Whether it has converged was not measured: that needs long chains."


def training(metrics: Mapping[str, float]) -> Answer:
    """The answer, from whatever was measured."""
    guarded, says = _guard(metrics)
    looked_at = "health_window" in metrics
    found = training_state(metrics) if looked_at else None
    if found is None:
        graded: Grade = "no" if guarded == "no" else "not measured"
        text = STABLE if looked_at else "Its training was not measured."
        return Answer("training", graded, says, text)
    graded = worst(GRADES[found.state], guarded or "yes")
    advice = "" if graded == "yes" else f" {found.advice}"
    measured = "; ".join(filter(None, (found.figure, says)))
    return Answer("training", graded, measured, f"{found.sentence}{advice}")


def _guard(metrics: Mapping[str, float]) -> tuple[Grade | None, str]:
    """The best grade that the guard's events allow, and what they were; None without a guard."""
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
        return "no", f"guard: stopped the run after {says}"
    if not says:
        return "yes", "guard: no alarms"
    return "partly", f"guard: {says}"
