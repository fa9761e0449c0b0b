"""What samples near the data do not show: mass elsewhere, other mode weights, tails.

The metrics come from weighted samples of the model (evaluation/elsewhere.py) and from the two sides
of log Z (likelihood/bracket.py). Each finding limits the grades of answers that rely on samples or
on log Z. A search that was not made, or that saw less than was known before, limits them too: what
was not looked at is not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping

from coldness.likelihood.bracket import SIGNIFICANT, STANDARD_ERRORS
from coldness.metrics import ELSEWHERE
from coldness.trust.answers import TV_PARTLY, TV_YES, Grade, grade, number, worst

MOST_ELSEWHERE = 0.5
"""Fraction of the mass: with more elsewhere, the model is not a model of this data."""

MODE_WEIGHTS = 0.05
"""Fraction of the mass in the wrong modes that a yes allows, beyond three standard errors."""

FLAT = 0.01
"""Fraction of directions with flat tails that can be chance of a sharp ridge."""

Metrics = Mapping[str, float]

NOT_SEARCHED = (
    "Mass away from the data was not searched for, so this holds only inside the box that was "
    "looked at"
)
INCONCLUSIVE = (
    "The search for mass away from the data was inconclusive, so this holds only near the data"
)


def elsewhere(metrics: Metrics) -> tuple[str, Grade]:
    """A sentence on mass away from the data, and the best grade that it allows."""
    mass, error = metrics.get("mass_elsewhere", 0.0), metrics.get("mass_elsewhere_error", 0.0)
    if not mass > max(ELSEWHERE, STANDARD_ERRORS * error):
        return "", "yes"
    place = ""
    where = ("elsewhere_dimension", "elsewhere_value", "elsewhere_deviation")
    if all(key in metrics for key in where):
        place = (
            f", around {number(metrics['elsewhere_value'])} in coordinate "
            f"{metrics['elsewhere_dimension']:.0f} "
            f"({number(abs(metrics['elsewhere_deviation']), 2)} standard deviations from the "
            "data's mean)"
        )
    text = f"About {mass:.0%} of the model's mass lies away from the data{place}."
    return text, "no" if mass > MOST_ELSEWHERE else "partly"


def tails(metrics: Metrics) -> str:
    """A sentence on tails that cannot be normalised; empty if there are none."""
    if not metrics.get("tail_flat", 0.0) > FLAT:
        return ""
    return (
        f"Along {metrics['tail_flat']:.0%} of directions its potential grows too slowly far away "
        "for the density to be normalised."
    )


def misplaced(metrics: Metrics) -> tuple[str, Grade]:
    """A sentence on the fraction of the mass that is misplaced, where the density is known."""
    value = metrics.get("tv", metrics.get("tv_estimate", 0.0))
    limit = grade(value, TV_YES, TV_PARTLY)
    if limit == "yes":
        return "", limit
    return f"{value:.0%} of the model's mass is not where the data has it.", limit


def mode_weights(metrics: Metrics) -> str | None:
    """What is wrong with the model's mode weights; empty if nothing, None if not measured."""
    if metrics.get("log_z_crossed", 0.0) > 0:
        return (
            "the model's mode weights differ from the data's (its two estimates of log Z are "
            f"crossed by {number(metrics['log_z_crossed'], 2)} nats)"
        )
    if "mode_weight_error" not in metrics:
        return None
    found, noise = metrics["mode_weight_error"], metrics.get("mode_weight_noise", 0.0)
    if found > MODE_WEIGHTS + SIGNIFICANT * noise:
        return f"{found:.0%} of the model's mass is in other modes than the data's"
    return ""


def doubts(metrics: Metrics, needs_search: bool = True) -> tuple[list[str], Grade]:
    """Sentences against a density, and the best grade that they allow."""
    found: list[str] = []
    limit: Grade = "yes"
    if flat := tails(metrics):
        found.append(flat)
        limit = "no"
    text, allows = elsewhere(metrics)
    if text:
        found.append(text)
        limit = worst(limit, "partly" if allows == "no" else allows)
    weights = mode_weights(metrics)
    if weights:
        found.append(f"{weights[0].upper()}{weights[1:]}.")
        limit = worst(limit, "partly")
    if needs_search and not metrics.get("searched"):
        found.append(f"{INCONCLUSIVE if 'searched' in metrics else NOT_SEARCHED}.")
        limit = worst(limit, "partly")
    return found, limit
