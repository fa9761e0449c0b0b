"""Was training healthy? Answered from its time series (diagnostics/health.py) and guard events.

    convergent                    yes: chains and data agree, and nothing diverged
    non-convergent, oversaturated partly: stable, but the model was fitted to chains of that
                                  length and is not a density
    diverging, starved            no

A run whose network was never updated is a no, and so is one with a median |d| above MOST_GAP nats,
or above MOST_LOGITS times the coldness where that is more: energies then differ by that much
between data and negatives. A run that the guard stopped is a no. A run that it rolled back or
raised an alarm in is partly healthy at best: its remedies may have changed the settings for a
while.
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

MOST_GAP = 1e5
"""Nats. Persistent chains on scales that differ by a factor of 150, the largest gaps of a healthy
run, stay below 60 D / 2, which is 92,000 for images of 3 x 32 x 32."""

MOST_LOGITS = 30.0
"""Differences of logits in healthy runs of classifiers, which the coldness of 20,000 multiplies."""

NOTHING_LEARNED = "Nothing was learned: no update changed the network."
HUGE_GAP = "Data and negatives are far too different for the model to have learned the data."

STABLE = "Training was stable. Whether it has converged was not measured: that needs long chains."


def training(metrics: Mapping[str, float]) -> Answer:
    """The answer, from whatever was measured."""
    guarded, says = _guard(metrics)
    looked_at = "health_window" in metrics
    found = training_state(metrics) if looked_at else None
    failed = _failed(metrics)
    if failed and (found is None or GRADES[found.state] != "no"):
        figures = "; ".join(filter(None, (_figure(metrics), says)))
        return Answer("training", "no", figures, failed)
    if found is None:
        graded: Grade = "no" if guarded == "no" else "not measured"
        text = STABLE if looked_at else "Its training was not measured."
        return Answer("training", graded, says, text)
    graded = worst(GRADES[found.state], guarded or "yes")
    advice = "" if graded == "yes" else f" {found.advice}"
    measured = "; ".join(filter(None, (found.figure, says)))
    return Answer("training", graded, measured, f"{found.sentence}{advice}")


def _failed(metrics: Mapping[str, float]) -> str:
    """Why the run learned nothing, whatever its state is; empty if it did."""
    if metrics.get("updates_made", 1.0) == 0:
        return f"{NOTHING_LEARNED} Set a learning rate above 0 (optimiser.lr, learning_rate)."
    if metrics.get("d_size", 0.0) > max(MOST_GAP, MOST_LOGITS * metrics.get("coldness", 0.0)):
        return f"{HUGE_GAP} Lower the step size of the kernel or the learning rate."
    return ""


def _figure(metrics: Mapping[str, float]) -> str:
    """The number behind `_failed`."""
    if metrics.get("updates_made", 1.0) == 0:
        return "no updates"
    return f"|d| is {metrics['d_size']:.2g} nats"


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
