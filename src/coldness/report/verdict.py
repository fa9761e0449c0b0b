"""What a trained model can be trusted with: three questions, answered from its figures.

    Is its density right?           KL(data || model) and total variation; where the data's density
                                    is not known, log-likelihood of held-out points against that
                                    of two plain models
    Does it generate from noise?    energy distance of short-run samples, over its floor
    Do long chains keep the quality?                of long-run samples, over its floor

The floor is the energy distance between two independent samples of the data. Pure functions of the
dictionary in metrics.json, so that the page and the command line say the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Grade = Literal["yes", "partly", "no", "not measured"]

KL_YES = 0.1
"""Nats. The mean log-likelihood of data is then within 0.1 of the best possible."""

KL_PARTLY = 1.0
"""Nats. Beyond it, a point of the data is on average more than e times too unlikely."""

TV_YES = math.sqrt(KL_YES / 2)
"""What Pinsker's inequality, tv <= sqrt(kl / 2), allows at KL_YES."""

TV_PARTLY = 0.5
"""Half of the model's mass would have to be moved."""

LIKELIHOOD_TOLERANCE = 0.05
"""Nats that a model may stay behind the better of two plain models: a Gaussian cannot be beaten on
Gaussian data, and a network fitted by sampling stays a few hundredths behind it."""

LOG_Z_ERROR = 0.02
"""Nats. A log-likelihood from a grid that changes log Z by more when it is thinned says nothing."""

FLOOR_YES = 10.0
"""Times the floor. Energy distance is a squared distance: an error three times that of sampling."""

FLOOR_PARTLY = 40.0
"""Times the floor. With 4000 samples of mixture2d: less than one large mode of eight is lost (50),
and a single Gaussian with the data's mean and spread (58) fails."""

JUDGED_SAMPLES = 4000
"""What the two limits are for. The floor falls as 1 / samples and an error does not: with fewer
samples, what may be added to the floor shrinks in proportion."""

ENOUGH_SAMPLES = 1000
"""With fewer, the floor itself is so high that "yes" would mean little; it becomes "partly"."""

MASS_OUTSIDE = 0.01
"""Share of the model's mass outside the data's box that is worth a sentence."""

THRESHOLDS = (
    f"Density: yes below {KL_YES:g} nats of KL(data || model), which is how far the mean "
    f"log-likelihood of data stays behind the best possible; partly below {KL_PARTLY:g} nat, "
    "where a point is on average e times too unlikely. Total variation, the share of the model's "
    f"mass that is misplaced, must agree: yes below {TV_YES:.2f}, partly below {TV_PARTLY:g}.",
    "Density of your own points, whose true density nobody knows: the mean log-likelihood of "
    "held-out points is compared with that of two plain models of the training points, a Gaussian "
    "and a kernel density estimate with Scott's bandwidth. Yes if it is no more than "
    f"{LIKELIHOOD_TOLERANCE:g} nats behind the better one; partly if it is above the Gaussian. "
    f"Not measured if thinning the grid changes log Z by more than {LOG_Z_ERROR:g}.",
    f"Samples: yes within {FLOOR_YES:g} times the floor, partly within {FLOOR_PARTLY:g} times; "
    f"less in proportion with fewer than {JUDGED_SAMPLES} samples, whose floor is higher. The "
    "floor is the energy distance between two independent samples of the data. Energy distance is "
    f"a squared distance, so {FLOOR_YES:g} times the floor is an error about three times that of "
    f"sampling itself. With fewer than {ENOUGH_SAMPLES} samples, yes becomes partly.",
)


@dataclass(frozen=True)
class Answer:
    """To one question: the grade, the figure behind it, and a plain sentence."""

    question: str
    answer: Grade
    figure: str
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the answers it sums up: density, short-run samples, long-run samples."""

    summary: str
    answers: list[Answer]


def judge(metrics: Mapping[str, float]) -> Verdict:
    """The verdict on the figures of metrics.json, any of which may be missing."""
    answers = [_density(metrics), _short(metrics), _long(metrics)]
    return Verdict(_summary(*(a.answer for a in answers)), answers)


def _density(metrics: Mapping[str, float]) -> Answer:
    question = "Is its density right?"
    kl, tv = metrics.get("kl"), metrics.get("tv")
    if kl is None and tv is None and "log_likelihood_test" in metrics:
        return _likelihood(question, metrics)
    if kl is None and tv is None:
        sentence = "Neither KL nor total variation was measured."
        return Answer(question, "not measured", "", sentence)
    grades: list[Grade] = []
    figures: list[str] = []
    if kl is not None:
        grades.append(_grade(kl, KL_YES, KL_PARTLY))
        figures.append(f"KL {number(kl)} nats")
    if tv is not None:
        grades.append(_grade(tv, TV_YES, TV_PARTLY))
        figures.append(f"total variation {number(tv)}")
    grade = max(grades, key=("yes", "partly", "no").index)
    sentence = {
        "yes": "Its energies can be read as log-densities, up to one constant.",
        "partly": "It has the shape of the density, but its values are off: rank with it only.",
        "no": "Its energies are not log-densities; do not compare likelihoods with them.",
    }[grade]
    if kl is not None and not math.isfinite(kl):
        sentence = "Its density could not be normalised, so its energies are not log-densities."
    return Answer(question, grade, ", ".join(figures), sentence + _outside(metrics))


def _likelihood(question: str, metrics: Mapping[str, float]) -> Answer:
    """Of data whose density is not known: held-out points under the model and two plain models."""
    test, gaussian, kde = (metrics[f"log_likelihood_{k}"] for k in ("test", "gaussian", "kde"))
    figure = (
        f"log-likelihood of held-out points {number(test, 4)} nats, "
        f"Gaussian {number(gaussian, 4)}, kernel estimate {number(kde, 4)}"
    )
    if not metrics.get("log_z_error", 0.0) <= LOG_Z_ERROR:
        sentence = "The grid is too coarse to normalise it on: raise evaluation.grid."
        return Answer(question, "not measured", figure, sentence)
    if test >= max(gaussian, kde) - LIKELIHOOD_TOLERANCE:
        grade: Grade = "yes"
        sentence = (
            "New points are as likely under it as under a kernel estimate and a Gaussian, or more; "
            "how near it is to the truth cannot be known."
        )
    elif test > gaussian:
        grade, sentence = "partly", "It is better than a Gaussian, but a kernel estimate beats it."
    else:
        grade, sentence = "no", "A Gaussian with the data's moments is the better density."
    return Answer(question, grade, figure, sentence + _outside(metrics))


def _outside(metrics: Mapping[str, float]) -> str:
    outside = metrics.get("mass_outside", 0.0)
    return f" {outside:.0%} of its mass lies where there is no data." * (outside > MASS_OUTSIDE)


def _short(metrics: Mapping[str, float]) -> Answer:
    grade, figure, note = _samples(metrics, "energy_distance_short")
    steps = _steps(metrics, "short_steps")
    sentence = {
        "yes": f"Chains{steps} from noise give samples hard to tell from data.",
        "partly": f"Chains{steps} from noise give samples like the data, with visible errors.",
        "no": f"Chains{steps} from noise do not arrive at the data's law.",
        "not measured": "Short-run samples were not compared with data.",
    }[grade]
    return Answer("Does it generate from noise?", grade, figure, note or sentence)


def _long(metrics: Mapping[str, float]) -> Answer:
    grade, figure, note = _samples(metrics, "energy_distance_long")
    steps = _steps(metrics, "long_steps")
    sentence = {
        "yes": f"Chains{steps} still give samples hard to tell from data.",
        "partly": f"Chains{steps} stay near the data, with visible errors.",
        "no": f"Chains{steps} end up elsewhere than the data.",
        "not measured": "Long-run samples were not compared with data.",
    }[grade]
    return Answer("Do long chains keep the quality?", grade, figure, note or sentence)


def _samples(metrics: Mapping[str, float], key: str) -> tuple[Grade, str, str]:
    """Grade, figure, and a sentence that replaces the usual one where something is amiss."""
    distance, floor = metrics.get(key), metrics.get("energy_distance_floor")
    lost = metrics.get(key.replace("energy_distance", "lost_chains"), 0)
    if lost:
        return "no", f"{lost:.0f} chains left the finite numbers", "The chains diverged."
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
    samples = metrics.get("samples", JUDGED_SAMPLES)
    share = min(1.0, samples / JUDGED_SAMPLES)
    grade = _grade(ratio, 1 + (FLOOR_YES - 1) * share, 1 + (FLOOR_PARTLY - 1) * share)
    if grade == "yes" and samples < ENOUGH_SAMPLES:
        return (
            "partly",
            figure,
            f"No fault found, but {samples:.0f} samples are too few to be sure.",
        )
    return grade, figure, ""


def _grade(value: float, yes: float, partly: float) -> Grade:
    """NaN is a no."""
    return "yes" if value < yes else "partly" if value < partly else "no"


def _steps(metrics: Mapping[str, float], key: str) -> str:
    return f" of {metrics[key]:,.0f} steps" if key in metrics else ""


def _summary(density: Grade, short: Grade, long: Grade) -> str:
    """Such as: A density you can use, not a generator: its energies ..., chains from noise ..."""
    if density == short == long == "not measured":
        return "Nothing was measured, so nothing can be said."
    what = {"yes": "a density you can use", "partly": "a rough density"}.get(density)
    makes = {"yes": "a generator", "partly": "a rough generator"}.get(short)
    if makes is None and long == "yes":
        makes = "a generator with long chains"
    elif short == "not measured" and long == "partly":
        makes = "a rough generator with long chains"
    if density == "no":
        head = f"{makes}, not a density" if makes else "not a density"
        head = "neither a density nor a generator" if not makes and short == "no" else head
    elif what is None:
        head = makes or "not a generator"
    elif makes is None:
        head = what if short == "not measured" else f"{what}, not a generator"
    else:
        head = f"{what} and {makes}"
    joined = "but" if short == "no" else "and"
    clauses = [
        {
            "yes": "its energies can be read as log-densities",
            "partly": "its energies give the rough shape of the density",
            "no": "its energies say little about likelihood",
            "not measured": "its density was not measured",
        }[density],
        {
            "yes": "short chains from noise give good samples",
            "partly": "short chains from noise give passable samples",
            "no": "short chains from noise miss the data's law",
            "not measured": "short chains were not measured",
        }[short],
        {
            "yes": f"{joined} long chains {'stay' if short == 'yes' else 'are'} good",
            "partly": f"{joined} long chains are passable",
            "no": "but long chains spoil them" if makes else "and so do long ones",
            "not measured": "and long chains were not measured",
        }[long],
    ]
    if long == "no" and short == "not measured":
        clauses[2] = "and long chains miss the data's law"
    return f"{head[0].upper()}{head[1:]}: {', '.join(clauses)}."


def number(value: float, digits: int = 3) -> str:
    """To so many digits, without an exponent where it can be read without."""
    if not math.isfinite(value):
        return "infinite" if math.isinf(value) else "not a number"
    whole = min(10**digits, 1000)
    if value == 0 or 1e-4 <= abs(value) < whole:
        return f"{value:.{digits}g}"
    if whole <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"
