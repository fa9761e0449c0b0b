"""Does the model recognise what is not data?

The figure is the AUROC of -U against every set of other points (evaluation/ood.py): the share of
pairs of a data point and another that the model puts in the right order. How high it can be
depends on the set: shuffled coordinates of data whose coordinates are independent are data. So it
is graded by how far it stays behind a yardstick on the same points, in its worst set:

    the true density where it is known
    else the better of two plain models of the training points
    where there is neither: by itself, which says as much about the sets as about the model

A yardstick is a ranking by log p. The likelihood ratio would be the best one, so that a model can
be ahead; that is no fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coldness.trust.answers import ENOUGH_SAMPLES, Answer, Grade, grade, number

BEHIND_YES = 0.02
"""Of AUROC: one pair in fifty in the wrong order that the yardstick orders rightly. On the same
4000 points of each kind, chance explains a few thousandths."""

BEHIND_PARTLY = 0.1
"""One pair in ten."""

ALONE_YES = 0.95
"""Where there is no yardstick: one pair in twenty in the wrong order."""

ALONE_PARTLY = 0.75
"""Half way from chance to certainty."""

NAMES = {
    "uniform": "uniform noise",
    "gaussian": "a Gaussian",
    "shuffled": "shuffled coordinates",
    "noise": "uniform noise",
    "interpolated": "means of two images",
    "constant": "images of one colour",
}

OTHER_SCORES = {
    "maxp": "the largest class probability",
    "grad": "the gradient norm",
    "typical": "typicality",
}
"""Beside log p (evaluation/scores.py)."""

START = "auroc_logp_"
YARDSTICKS = {"best": "the true density", "plain": "a Gaussian or a kernel estimate"}


def set_names(metrics: Mapping[str, float], score: str = "logp") -> list[str]:
    """Of the sets that there are figures of this score of."""
    beside, start = tuple(f"_{word}" for word in YARDSTICKS), f"auroc_{score}_"
    return [
        k.removeprefix(start) for k in metrics if k.startswith(start) and not k.endswith(beside)
    ]


def others(metrics: Mapping[str, float]) -> Answer:
    """The answer, by the set that the model does worst on."""
    sets = set_names(metrics)
    if not sets:
        return Answer("others", "not measured", "", "It was not tried on other points than data.")
    found = {name: metrics[START + name] for name in sets}
    word = next((w for w in YARDSTICKS if f"{START}{sets[0]}_{w}" in metrics), None)
    beside = {name: metrics.get(f"{START}{name}_{word}", math.nan) for name in sets}
    figure = "AUROC " + ", ".join(
        f"{_three(value)} against {NAMES.get(name, name)}"
        + (f" ({_three(beside[name])})" if word else "")
        for name, value in found.items()
    )
    if word:
        figure += f"; in brackets {YARDSTICKS[word]}"
    if all(map(math.isnan, found.values())):
        figure = "AUROC not a number"
    if any(map(math.isnan, found.values())):
        return Answer("others", "no", figure, "Its energies are not all numbers: it ranks nothing.")
    behind = {name: beside[name] - found[name] if word else 1 - found[name] for name in sets}
    worst_set = max(sets, key=lambda name: behind[name])
    limits = (BEHIND_YES, BEHIND_PARTLY) if word else (1 - ALONE_YES, 1 - ALONE_PARTLY)
    judged = grade(behind[worst_set], *limits)
    if judged != "yes" and found[worst_set] < 0.5 - BEHIND_YES:
        name, instead = NAMES.get(worst_set, worst_set), _instead(metrics, worst_set)
        sentence = (
            f"It likes {name} better than data: its energies detect nothing of that kind{instead}."
        )
    else:
        sentence = _sentence(judged, behind, worst_set, word)
    if judged == "yes" and metrics.get("samples", ENOUGH_SAMPLES) < ENOUGH_SAMPLES:
        judged = "partly"
        sentence = f"No fault found, but {metrics['samples']:.0f} samples are too few to be sure."
    return Answer("others", judged, figure, sentence)


def _three(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else number(value)


def _instead(metrics: Mapping[str, float], name: str) -> str:
    """The other score that detects this set best, where one does."""
    found = {score: metrics.get(f"auroc_{score}_{name}", math.nan) for score in OTHER_SCORES}
    found = {score: value for score, value in found.items() if value >= ALONE_PARTLY}
    if not found:
        return ""
    best = max(found, key=lambda score: found[score])
    return f"; {OTHER_SCORES[best]} does (AUROC {_three(found[best])})"


def _sentence(
    judged: Grade,
    behind: Mapping[str, float],
    worst_set: str,
    word: str | None,
) -> str:
    name = NAMES.get(worst_set, worst_set)
    if word is None:
        return {
            "yes": "Its energies put data before every other set that was tried; nothing is known "
            "of how well that can be done.",
            "partly": f"Its energies put data before other points as a rule, worst against {name}; "
            "nothing is known of how well that can be done.",
            "no": f"Its energies hardly tell data from {name}; nothing is known of whether that "
            "can be done.",
        }[judged]
    of = YARDSTICKS[word]
    return {
        "yes": f"Its energies rank data above other points as well as {of} does.",
        "partly": f"Its energies rank data above other points, but less well than {of} does: "
        f"{number(behind[worst_set], 2)} of AUROC behind for {name}.",
        "no": f"It takes {name} for data far more often than {of} does: "
        f"{number(behind[worst_set], 2)} of AUROC behind.",
    }[judged]
