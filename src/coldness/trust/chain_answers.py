"""Do chains generate from noise, and do long ones keep the quality?

The energy distance of samples to data is graded relative to its floor, the energy distance between
two independent samples of the data. It is sensitive to the large scale only, so a 1-NN two-sample
test must agree: the fraction of samples and data whose nearest neighbour is of the same kind, 0.5
where the two are indistinguishable. Images that were compared in the features of a network are
graded by their KID instead of both (quality_answer.py): distances between pixels respond to noise
and not to what images show.

Long chains must also have converged (diagnostics/convergence.py). Samples that look right while
their potentials still change, or lie far below those of data, may look wrong after more steps. And
they must be what infinitely long chains would give. Chains that stay in their mode (R-hat above
1.1) keep the mode weights of their starts, and chains near the data do not see mass far away. So a
yes needs mode weights that were checked by weighted samples (evaluation/elsewhere.py) where chains
do not mix, and no significant mass elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from coldness.diagnostics.convergence import FAR as FLOOR_PARTLY
from coldness.diagnostics.convergence import JUDGED_SAMPLES, allowed, far_from_data, state_of
from coldness.diagnostics.mixing import SEPARATE
from coldness.trust.answers import ENOUGH_SAMPLES, Answer, Grade, grade, number, worst
from coldness.trust.hidden import elsewhere, misplaced, mode_weights, tails
from coldness.trust.quality_answer import kid_grade

FLOOR_YES = 10.0
"""Times the floor. Energy distance is squared: the error is about three times that of sampling."""

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
    if graded == "not measured":
        return Answer("long_chains", graded, measured, note or text)
    about, settled = _convergence(metrics)
    hidden, limit = _hidden(metrics)
    whole = " ".join(filter(None, (note or text, about, hidden, _acceptance(metrics))))
    graded = worst(graded, limit, "yes" if settled else "partly")
    return Answer("long_chains", graded, measured, whole)


def _hidden(metrics: Mapping[str, float]) -> tuple[str, Grade]:
    """Sentences on what these chains do not see, and the best grade that it allows."""
    text, limit = elsewhere(metrics)
    if flat := tails(metrics):
        text = f"{text} {flat} Chains that are long enough would not come back.".strip()
        limit = worst(limit, "partly")
    text, limit = _both((text, limit), misplaced(metrics))
    weights, mixed = mode_weights(metrics), metrics.get("rhat", 1.0) < SEPARATE  # NaN is not
    apart = "" if mixed else f"Chains stay in separate modes (R-hat {number(metrics['rhat'])})."
    if weights:
        about = f"{weights[0].upper()}{weights[1:]}."
    elif mixed:
        about = ""
    elif weights is None:
        about = "Their mode weights are those of their starts, and were not checked."
    else:
        about = "The model's mode weights, by weighted samples, are those of the data."
    if weights or (weights is None and not mixed):
        limit = worst(limit, "partly")
    return " ".join(filter(None, (text, apart, about))), limit


def _both(one: tuple[str, Grade], other: tuple[str, Grade]) -> tuple[str, Grade]:
    return " ".join(filter(None, (one[0], other[0]))), worst(one[1], other[1])


def _convergence(metrics: Mapping[str, float]) -> tuple[str, bool]:
    """A sentence on the chains' potentials; False where they have not converged."""
    found = state_of(metrics)
    if found is None:
        return "Whether they have converged was not measured.", False
    shift, drift = metrics["u_shift"], metrics["u_drift"]
    side = "below" if shift < 0 else "above"
    where = f"their mean U is {number(abs(shift), 2)} standard deviations {side} that of data"
    moved = f"its median changed by {number(drift, 2)} in the second half"
    if found == "converged":
        return f"They have converged: {where}, and {moved}.", True
    if found == "oversaturated":
        return (
            f"They are oversaturated (the model assigns them a higher density than data): {where}, "
            f"and {moved}.",
            False,
        )
    if far_from_data(metrics) and state_of({**metrics, "energy_distance_long": 0.0}) == "converged":
        return f"Their potentials are steady, but their samples are not like data: {where}.", False
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
    samples = metrics.get("samples", JUDGED_SAMPLES)
    return allowed(FLOOR_YES, samples), allowed(FLOOR_PARTLY, samples)


def _steps(metrics: Mapping[str, float], key: str) -> str:
    return f" of {metrics[key]:,.0f} steps" if key in metrics else ""
