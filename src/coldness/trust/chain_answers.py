"""Do chains generate from noise, and do long ones keep the quality?

Energy distance of samples to data is graded over its floor, that between two independent samples of
the data. It sees the large scale alone, so that nearest neighbours are asked too: the share of
samples and data whose nearest neighbour is of their own kind, 1/2 where nothing tells them apart.
Of images that were compared in the features of a network, their KID is graded in place of both
(quality_answer.py): distances of pixels see noise and not what images show.
Long chains are asked beside whether they have converged (diagnostics/convergence.py): samples that
look right and are still on their way, or that the model likes far better than data, are right for
now only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coldness.diagnostics.convergence import state
from coldness.trust.answers import ENOUGH_SAMPLES, Answer, Grade, grade, number, worst
from coldness.trust.quality_answer import kid_grade

FLOOR_YES = 10.0
"""Times the floor. Energy distance is a squared distance: an error three times that of sampling."""

FLOOR_PARTLY = 40.0
"""Times the floor. With 4000 samples of mixture2d: less than one large mode of eight is lost (50),
and a single Gaussian with the data's mean and spread (58) fails."""

JUDGED_SAMPLES = 4000
"""What the two limits are for. The floor falls as 1 / samples and an error does not: with fewer
samples, what may be added to the floor shrinks in proportion."""

NEIGHBOURS_YES = 0.6
"""Share. Whoever calls a point what its nearest neighbour is is then right in less than six of ten
cases, five being chance."""

NEIGHBOURS_PARTLY = 0.75
"""Half way from chance to certainty."""


def short(metrics: Mapping[str, float]) -> Answer:
    judged, figure, note = _samples(metrics, "energy_distance_short")
    steps = _steps(metrics, "short_steps")
    sentence = {
        "yes": f"Chains{steps} from noise give samples hard to tell from data.",
        "partly": f"Chains{steps} from noise give samples like the data, with visible errors.",
        "no": f"Chains{steps} from noise do not arrive at the data's law.",
        "not measured": "Short-run samples were not compared with data.",
    }[judged]
    return Answer("samples", judged, figure, note or sentence)


def long(metrics: Mapping[str, float]) -> Answer:
    judged, figure, note = _samples(metrics, "energy_distance_long")
    steps = _steps(metrics, "long_steps")
    sentence = {
        "yes": f"Chains{steps} still give samples hard to tell from data.",
        "partly": f"Chains{steps} stay near the data, with visible errors.",
        "no": f"Chains{steps} end up elsewhere than the data.",
        "not measured": "Long-run samples were not compared with data.",
    }[judged]
    about, settled = _convergence(metrics)
    whole = " ".join(filter(None, (note or sentence, about, _acceptance(metrics))))
    judged = "partly" if judged == "yes" and not settled else judged
    return Answer("chains", judged, figure, whole)


def _convergence(metrics: Mapping[str, float]) -> tuple[str, bool]:
    """A sentence on where the chains' potentials are and go, and whether that is no fault."""
    if "u_shift" not in metrics or "u_drift" not in metrics:
        return "", True
    shift, drift = metrics["u_shift"], metrics["u_drift"]
    side = "below" if shift < 0 else "above"
    where = f"their mean U is {number(abs(shift), 2)} standard deviations {side} that of data"
    moved = f"its median moved by {number(drift, 2)} in the second half"
    found = state(shift, drift)
    if found == "converged":
        return f"They have converged: {where}, and {moved}.", True
    if found == "oversaturated":
        return f"They are oversaturated, liked better than data: {where}, and {moved}.", False
    return f"They are drifting: {where}, and {moved}.", False


def _acceptance(metrics: Mapping[str, float]) -> str:
    """Of the training's own step under a Metropolis test, at the ends of long chains."""
    if "acceptance" not in metrics:
        return ""
    share = metrics["acceptance"]
    return f"Moves of the training's step would be accepted with probability {share:.2f}."


def _samples(metrics: Mapping[str, float], key: str) -> tuple[Grade, str, str]:
    """Grade, figure, and a sentence that replaces the usual one where something is amiss."""
    distance, floor = metrics.get(key), metrics.get("energy_distance_floor")
    lost = metrics.get(key.replace("energy_distance", "lost_chains"), 0)
    if lost:
        return "no", f"{lost:.0f} chains left the finite numbers", "The chains diverged."
    samples = metrics.get("samples", JUDGED_SAMPLES)
    in_features = kid_grade(metrics, key.removeprefix("energy_distance_"))
    if in_features is not None:
        return _enough(*in_features, samples)
    if distance is None:
        return "not measured", "", ""
    figure = f"energy distance {number(distance)}"
    if not math.isfinite(distance):
        return "no", figure, "The chains diverged."
    if floor is None or not 0 < floor < math.inf:
        return "not measured", figure, "There is no floor to compare its energy distance with."
    ratio = distance / floor
    if ratio < 1.95:
        figure += f", about its floor of {number(floor)}"
    else:
        figure += f", {number(ratio, 2)} times its floor of {number(floor)}"
    judged = grade(ratio, *limits(metrics))
    told = metrics.get(key.replace("energy_distance", "neighbours"))
    if told is not None:
        figure += f"; {told:.0%} of nearest neighbours are of their own kind (50% is chance)"
        judged = worst(judged, grade(told, NEIGHBOURS_YES, NEIGHBOURS_PARTLY))
    return _enough(judged, figure, samples)


def _enough(judged: Grade, figure: str, samples: float) -> tuple[Grade, str, str]:
    if judged == "yes" and samples < ENOUGH_SAMPLES:
        note = f"No fault found, but {samples:.0f} samples are too few to be sure."
        return "partly", figure, note
    return judged, figure, ""


def limits(metrics: Mapping[str, float]) -> tuple[float, float]:
    """What "yes" and "partly" allow, in times the floor."""
    share = min(1.0, metrics.get("samples", JUDGED_SAMPLES) / JUDGED_SAMPLES)
    return 1 + (FLOOR_YES - 1) * share, 1 + (FLOOR_PARTLY - 1) * share


def _steps(metrics: Mapping[str, float], key: str) -> str:
    return f" of {metrics[key]:,.0f} steps" if key in metrics else ""
