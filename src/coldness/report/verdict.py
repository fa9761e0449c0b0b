"""What a trained model can be trusted with: three questions, answered from its figures.

    Is its density right?           KL(data || model) and total variation; where the data's density
                                    is not known, log-likelihood of held-out points against that
                                    of two plain models (density_answer.py)
    Does it generate from noise?    energy distance of short-run samples, over its floor
    Do long chains keep the quality?                of long-run samples, and whether these have
                                    converged (chain_answers.py)

Pure functions of the dictionary in metrics.json, so that the page and the command line say the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coldness.diagnostics.convergence import CHANGE, SHIFT
from coldness.evaluation.ais import LEAST_ESS, LOOSE
from coldness.report.answers import Answer, Grade, number
from coldness.report.chain_answers import (
    ENOUGH_SAMPLES,
    FLOOR_PARTLY,
    FLOOR_YES,
    JUDGED_SAMPLES,
    NEIGHBOURS_PARTLY,
    NEIGHBOURS_YES,
    long,
    short,
)
from coldness.report.density_answer import (
    KL_PARTLY,
    KL_YES,
    LIKELIHOOD_TOLERANCE,
    LOG_Z_ERROR,
    TV_PARTLY,
    TV_YES,
    density,
)

__all__ = ["THRESHOLDS", "Answer", "Grade", "Verdict", "judge", "number"]

THRESHOLDS = (
    f"Density: yes below {KL_YES:g} nats of KL(data || model), which is how far the mean "
    f"log-likelihood of data stays behind the best possible; partly below {KL_PARTLY:g} nat, "
    "where a point is on average e times too unlikely. Total variation, the share of the model's "
    f"mass that is misplaced, must agree: yes below {TV_YES:.2f}, partly below {TV_PARTLY:g}.",
    "Density in more than two dimensions: log Z is estimated by annealed importance sampling from "
    "both ends, and KL comes between two bounds. Yes if the upper one is below "
    f"{KL_YES:g}, partly if the estimate is below {KL_PARTLY:g}; total variation on the slice, "
    "where all but the first two dimensions are 0, must agree. Where the bracket of log Z is wider "
    "than "
    f"{LOOSE:g} nats, or fewer than {LEAST_ESS:.0%} of the chains count in either direction, the "
    f"answer is no if even the lower bound is above {KL_PARTLY:g}, else not measured. Neither side "
    "sees mass that no chain reaches, so yes becomes partly where long chains have not converged.",
    "Density of your own points, whose true density nobody knows: the mean log-likelihood of "
    "held-out points is compared with that of two plain models of the training points, a Gaussian "
    "and a kernel density estimate with Scott's bandwidth. Yes if it is no more than "
    f"{LIKELIHOOD_TOLERANCE:g} nats behind the better one; partly if it is above the Gaussian. "
    f"Not measured if thinning the grid changes log Z by more than {LOG_Z_ERROR:g}. "
    "In more than two dimensions the lower end of its bracket must be as near for a yes, and a "
    "loose bracket is not measured.",
    f"Samples: yes within {FLOOR_YES:g} times the floor, partly within {FLOOR_PARTLY:g} times; "
    f"less in proportion with fewer than {JUDGED_SAMPLES} samples, whose floor is higher. The "
    "floor is the energy distance between two independent samples of the data. Energy distance is "
    f"a squared distance, so {FLOOR_YES:g} times the floor is an error about three times that of "
    "sampling itself. It sees the large scale alone, so that nearest neighbours must agree: yes "
    f"where fewer than {NEIGHBOURS_YES:.0%} of samples and data have a nearest neighbour of their "
    f"own kind, partly below {NEIGHBOURS_PARTLY:.0%}; chance is 50%. With fewer than "
    f"{ENOUGH_SAMPLES} samples, yes becomes partly.",
    "Long chains: yes becomes partly unless they have converged, which is that their mean U is "
    f"less than {SHIFT:g} standard deviations of the data's U from that of data, and that its "
    f"median moved by less than {CHANGE:g} of them between half way and the end. Oversaturated is "
    f"a mean U at least {SHIFT:g} below that of data, drifting is anything else.",
)


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the answers it sums up: density, short-run samples, long-run samples."""

    summary: str
    answers: list[Answer]


def judge(metrics: Mapping[str, float]) -> Verdict:
    """The verdict on the figures of metrics.json, any of which may be missing."""
    answers = [density(metrics), short(metrics), long(metrics)]
    return Verdict(_summary(*(a.answer for a in answers)), answers)


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
