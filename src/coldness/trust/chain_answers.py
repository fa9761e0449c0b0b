"""Do chains generate from noise, and do long ones keep the quality?

The energy distance of samples to data is graded relative to its floor, the energy distance between
two independent samples of the data. It is sensitive to the large scale only, so a 1-NN two-sample
test must agree: the fraction of samples and data whose nearest neighbour is of the same kind, 0.5
where the two are indistinguishable. Images that were compared in the features of a network are
graded by their KID instead of both (quality_answer.py): distances between pixels respond to noise
and not to what images show.

Long chains must also have converged (diagnostics/convergence.py). Samples that look right while
their potentials still change, or lie far below those of data, may look wrong after more steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coldness.diagnostics.convergence import state
from coldness.trust.answers import ENOUGH_SAMPLES, Answer, Grade, grade, number, worst
from coldness.trust.quality_answer import kid_grade

FLOOR_YES = 10.0
"""Times the floor. Energy distance is squared: the error is about three times that of sampling."""

FLOOR_PARTLY = 40.0
"""Times the floor. With 4000 samples of mixture2d: less than one large mode of eight is lost (50),
and a single Gaussian with the data's mean and spread (58) fails."""

JUDGED_SAMPLES = 4000
"""Number of samples that the two limits are for. The floor falls as 1 / samples and an error does
not: with fewer samples, the allowed excess over the floor shrinks in proportion."""

NEIGHBOURS_YES = 0.6
"""A 1-nearest-neighbour classifier tells samples from data less than 60% of the time; 50% is
chance."""

NEIGHBOURS_PARTLY = 0.75
"""Half way from chance to certainty."""


def generation(metrics: Mapping[str, float]) -> Answer:
    """The answer for short chains from noise."""
    graded, measured, note = _samples(metrics, "short")
    steps = _steps(metrics, "short_steps")
    text = {
        "yes": f"Chains{steps} from noise give samples that are hard to tell from data.",
        "partly": f"Chains{steps} from noise give samples like the data, with visible errors.",
        "no": f"Chains{steps} from noise do not reach the data distribution.",
        "not measured": "Short-run samples were not compared with data.",
    }[graded]
    return Answer("generation", graded, measured, note or text)


def long_chains(metrics: Mapping[str, float]) -> Answer:
    """The answer for chains far longer than those of training."""
    graded, measured, note = _samples(metrics, "long")
    steps = _steps(metrics, "long_steps")
    text = {
        "yes": f"Chains{steps} still give samples that are hard to tell from data.",
        "partly": f"Chains{steps} stay near the data, with visible errors.",
        "no": f"Chains{steps} leave the data distribution.",
        "not measured": "Long-run samples were not compared with data.",
    }[graded]
    about, settled = _convergence(metrics)
    whole = " ".join(filter(None, (note or text, about, _acceptance(metrics))))
    graded = "partly" if graded == "yes" and not settled else graded
    return Answer("long_chains", graded, measured, whole)


def _convergence(metrics: Mapping[str, float]) -> tuple[str, bool]:
    """A sentence on the chains' potentials; False where they have not converged."""
    if "u_shift" not in metrics or "u_drift" not in metrics:
        return "", True
    shift, drift = metrics["u_shift"], metrics["u_drift"]
    side = "below" if shift < 0 else "above"
    where = f"their mean U is {number(abs(shift), 2)} standard deviations {side} that of data"
    moved = f"its median changed by {number(drift, 2)} in the second half"
    found = state(shift, drift)
    if found == "converged":
        return f"They have converged: {where}, and {moved}.", True
    if found == "oversaturated":
        return (
            f"They are oversaturated (the model assigns them a higher density than data): {where}, "
            f"and {moved}.",
            False,
        )
    return f"They are drifting: {where}, and {moved}.", False


def _acceptance(metrics: Mapping[str, float]) -> str:
    """Acceptance of the training's own step by a Metropolis test, at the ends of long chains."""
    if "acceptance" not in metrics:
        return ""
    rate = metrics["acceptance"]
    return (
        f"A Metropolis test would accept steps of the training's size with probability {rate:.2f}."
    )


def _samples(metrics: Mapping[str, float], chains: str) -> tuple[Grade, str, str]:
    """Grade, numbers, and a sentence that replaces the usual one where something is wrong."""
    key = f"energy_distance_{chains}"
    lost = metrics.get(f"lost_chains_{chains}", 0)
    if lost:
        return "no", f"{lost:.0f} chains became NaN or infinite", "The chains diverged."
    in_features = kid_grade(metrics, chains)
    if in_features is not None:
        return _enough(*in_features, metrics)
    distance = metrics.get(key)
    if distance is None:
        return "not measured", "", ""
    measured = f"energy distance {number(distance)}"
    if not math.isfinite(distance):
        return "no", measured, "The chains diverged."
    floor = metrics.get("energy_distance_floor")
    if floor is None or not 0 < floor < math.inf:
        return "not measured", measured, "There is no floor to compare its energy distance with."
    ratio = distance / floor
    if ratio < 1.95:
        measured += f", about its floor of {number(floor)}"
    else:
        measured += f", {number(ratio, 2)} times its floor of {number(floor)}"
    graded = grade(ratio, *limits(metrics))
    found = metrics.get(f"neighbours_{chains}")
    if found is not None:
        measured += f"; 1-NN two-sample test {number(found, 2)} (0.5 = indistinguishable)"
        graded = worst(graded, grade(found, NEIGHBOURS_YES, NEIGHBOURS_PARTLY))
    return _enough(graded, measured, metrics)


def _enough(graded: Grade, measured: str, metrics: Mapping[str, float]) -> tuple[Grade, str, str]:
    samples = metrics.get("samples", JUDGED_SAMPLES)
    if graded == "yes" and samples < ENOUGH_SAMPLES:
        return "partly", measured, too_few(samples)
    return graded, measured, ""


def too_few(samples: float) -> str:
    return f"No problems found, but {samples:.0f} samples are too few to be sure."


def limits(metrics: Mapping[str, float]) -> tuple[float, float]:
    """Limits of "yes" and "partly", in multiples of the floor."""
    fraction = min(1.0, metrics.get("samples", JUDGED_SAMPLES) / JUDGED_SAMPLES)
    return 1 + (FLOOR_YES - 1) * fraction, 1 + (FLOOR_PARTLY - 1) * fraction


def _steps(metrics: Mapping[str, float], key: str) -> str:
    return f" of {metrics[key]:,.0f} steps" if key in metrics else ""
