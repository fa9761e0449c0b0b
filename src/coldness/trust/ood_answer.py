"""Does the model detect out-of-distribution (OOD) points?

The metric is the AUROC of -U against every set of other points (evaluation/ood.py): the fraction of
pairs of a data point and another point that the model ranks in the right order. How high it can be
depends on the set: shuffled coordinates of data with independent coordinates are data. So it is
graded by how far it is below a baseline on the same points, in its worst set:

    the true density where it is known
    else the better of two plain models of the training points
    where there is neither: by itself, which says as much about the sets as about the model

Where the model has mass away from the data that it does not rank below data, the answer is partly
at best, whatever the sets are.

A baseline ranks by log p. The likelihood ratio would be optimal, so a model can be above the
baseline; that is not an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coldness.metrics import SCORES, SETS, set_names
from coldness.trust.answers import ENOUGH_SAMPLES, Answer, Grade, grade, number, worst
from coldness.trust.chain_answers import too_few
from coldness.trust.hidden import elsewhere

BEHIND_YES = 0.02
"""Difference of AUROC: one pair in fifty that only the baseline orders correctly. On the same
4000 points of each kind, chance explains a few thousandths."""

BEHIND_PARTLY = 0.1
"""One pair in ten."""

ALONE_YES = 0.95
"""Where there is no baseline: one pair in twenty in the wrong order."""

ALONE_PARTLY = 0.75
"""Half way from chance to certainty."""

START = "auroc_logp_"
BASELINES = {"best": "the true density", "plain": "a Gaussian or a kernel density estimate"}
NO_BASELINE = "how well that can be done was not measured"


def ood(metrics: Mapping[str, float]) -> Answer:
    """The answer, from the set on which the model does worst."""
    sets = set_names(metrics)
    if not sets:
        return Answer("ood", "not measured", "", "It was not tested on out-of-distribution points.")
    found = {name: metrics[START + name] for name in sets}
    which = next((b for b in BASELINES if f"{START}{sets[0]}_{b}" in metrics), None)
    baseline = {name: metrics.get(f"{START}{name}_{which}", math.nan) for name in sets}
    measured = "AUROC " + ", ".join(
        f"{_three(value)} against {SETS.get(name, name)}"
        + (f" ({_three(baseline[name])})" if which else "")
        for name, value in found.items()
    )
    if which:
        measured += f"; in brackets {BASELINES[which]}"
    if all(map(math.isnan, found.values())):
        measured = "AUROC is NaN"
    if any(map(math.isnan, found.values())):
        text = "Some of its energies are NaN, so points cannot be ranked."
        return Answer("ood", "no", measured, text)
    behind = {name: baseline[name] - found[name] if which else 1 - found[name] for name in sets}
    hardest = max(sets, key=lambda name: behind[name])
    limits = (BEHIND_YES, BEHIND_PARTLY) if which else (1 - ALONE_YES, 1 - ALONE_PARTLY)
    graded = grade(behind[hardest], *limits)
    if graded != "yes" and found[hardest] < 0.5 - BEHIND_YES:
        name, instead = SETS.get(hardest, hardest), _instead(metrics, hardest)
        text = (
            f"It assigns {name} a higher density than data, so its energies do not detect such "
            f"points{instead}."
        )
    else:
        text = _text(graded, behind[hardest], SETS.get(hardest, hardest), which)
    invented, _ = elsewhere(metrics)
    if invented and not metrics.get("auroc_elsewhere", 0.0) >= ALONE_YES:
        graded, text = (
            worst(graded, "partly"),
            f"{text} {invented} It does not detect points there.",
        )
    if graded == "yes" and metrics.get("samples", ENOUGH_SAMPLES) < ENOUGH_SAMPLES:
        graded, text = "partly", too_few(metrics["samples"])
    return Answer("ood", graded, measured, text)


def _three(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else number(value)


def _instead(metrics: Mapping[str, float], name: str) -> str:
    """The score other than log p that detects this set best, where one does."""
    others = [score for score in SCORES if score != "logp"]
    found = {score: metrics.get(f"auroc_{score}_{name}", math.nan) for score in others}
    found = {score: value for score, value in found.items() if value >= ALONE_PARTLY}
    if not found:
        return ""
    best = max(found, key=lambda score: found[score])
    return f"; {SCORES[best]} does (AUROC {_three(found[best])})"


def _text(graded: Grade, behind: float, name: str, which: str | None) -> str:
    """What the grade means, for the set on which the model does worst."""
    if which is None:
        return {
            "yes": f"Its energies rank data above every set that was tried; {NO_BASELINE}.",
            "partly": "Its energies mostly rank data above other points, worst against "
            f"{name}; {NO_BASELINE}.",
            "no": f"Its energies hardly tell data from {name}; {NO_BASELINE}.",
        }[graded]
    of = BASELINES[which]
    return {
        "yes": f"Its energies rank data above other points as well as {of} does.",
        "partly": f"Its energies rank data above other points, but less well than {of} does: "
        f"its AUROC against {name} is lower by {number(behind, 2)}.",
        "no": f"Its energies rank data above {name} far less often than {of} does: its AUROC is "
        f"lower by {number(behind, 2)}.",
    }[graded]
