"""What a trained model can be trusted for: five questions, answered from its metrics.

    Does it generate from noise?    energy distance of short-run samples relative to its floor, and
                                    a 1-NN two-sample test
    Do long chains keep the quality?                the same of long-run samples, and whether they
                                    have converged (both in chain_answers.py); of images their KID
                                    (quality_answer.py)
    Is its density right?           KL(data || model) and total variation; where the data's density
                                    is not known, log-likelihood of held-out points against that
                                    of two plain models (density_answer.py)
    Does it detect out-of-distribution points?
                                    AUROC of its potentials against other points, relative to that
                                    of the true density where it is known (ood_answer.py)
    Was training healthy?           time series of the training, and alarms of the guard
                                    (training_answer.py)

Pure functions of the dictionary in metrics.json, so that the report and the command line agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from coldness.diagnostics.convergence import CHANGE, JUDGED_SAMPLES, SHIFT
from coldness.diagnostics.convergence import FAR as FLOOR_PARTLY
from coldness.diagnostics.mixing import SEPARATE
from coldness.likelihood.bracket import LEAST_ESS, LOOSE
from coldness.metrics import ELSEWHERE, Topic
from coldness.trust.answers import (
    ENOUGH_SAMPLES,
    KL_PARTLY,
    KL_YES,
    TV_PARTLY,
    TV_YES,
    Answer,
    Grade,
    Noted,
    number,
)
from coldness.trust.chain_answers import (
    FLOOR_YES,
    NEIGHBOURS_PARTLY,
    NEIGHBOURS_YES,
    generation,
    long_chains,
)
from coldness.trust.density_answer import (
    LIKELIHOOD_TOLERANCE,
    LOG_Z_ERROR,
    density,
)
from coldness.trust.hidden import MODE_WEIGHTS, MOST_ELSEWHERE
from coldness.trust.ood_answer import (
    ALONE_PARTLY,
    ALONE_YES,
    BEHIND_PARTLY,
    BEHIND_YES,
    ood,
)
from coldness.trust.quality_answer import SHARE_OF_HALF
from coldness.trust.summary import summary
from coldness.trust.training_answer import MOST_GAP, MOST_LOGITS, training

__all__ = ["THRESHOLDS", "Answer", "Grade", "Verdict", "number", "verdict_on"]

THRESHOLDS = (
    f"Generation: yes if the energy distance of samples to data is below {FLOOR_YES:g} times its "
    f"floor, partly below {FLOOR_PARTLY:g} times; with fewer than {JUDGED_SAMPLES} samples, whose "
    "floor is higher, the limits shrink in proportion. The floor is the energy distance between "
    "two independent samples of the data. Energy distance is a squared distance, so "
    f"{FLOOR_YES:g} times the floor is an error about three times that of sampling itself. It is "
    "sensitive to the large scale only, so a 1-NN two-sample test (0.5 = indistinguishable) must "
    f"agree: yes below {NEIGHBOURS_YES:g}, partly below {NEIGHBOURS_PARTLY:g}. It is the fraction "
    "of samples and data whose nearest neighbour is of the same kind. With fewer than "
    f"{ENOUGH_SAMPLES} samples, yes becomes partly.",
    "Generation of images, where features of a network are available: the kernel distance (KID) of "
    "samples to test images is compared with that of training images at a lower resolution. Yes "
    f"below {SHARE_OF_HALF:.0%} of that at half the resolution, which is half as far from data; "
    "partly below that at a quarter of the resolution. KID is 0 on average for images of the data "
    "and depends on the network: values of different networks do not compare.",
    "Long chains: graded as generation is. Yes becomes partly unless they have converged: their "
    f"mean U is less than {SHIFT:g} standard deviations of the data's U from that of data, and its "
    f"median changed by less than {CHANGE:g} standard deviations between half way and the end. "
    f"Oversaturated is a mean U at least {SHIFT:g} below that of data; drifting is anything else. "
    "Infinitely long chains sample the model itself, so its weighted samples count too: partly at "
    f"best if more than {ELSEWHERE:.0%} of its mass is away from the data, if its tails cannot be "
    f"normalised, or if chains stay in separate modes (R-hat above {SEPARATE:g}) and mode weights "
    f"were not checked or differ by more than {MODE_WEIGHTS:.0%}; no if more than "
    f"{MOST_ELSEWHERE:.0%} is away from the data.",
    f"Density: yes below {KL_YES:g} nats of KL(data || model), which is how far the mean "
    f"log-likelihood of data is below the best possible; partly below {KL_PARTLY:g} nat, where a "
    "point is on average e times too unlikely. Total variation, the fraction of the model's mass "
    f"that is misplaced, must agree: yes below {TV_YES:.2f}, partly below {TV_PARTLY:g}. "
    f"A yes also needs KL(model || data) below {KL_YES:g} nats where the data's density is known, "
    "which sees mass where there is no data; mode weights that agree with the data's; and a search "
    "for mass away from the data that found none: annealed chains from a Gaussian several times as "
    "wide as the data. A potential that grows too slowly far away to be normalised is a no. No "
    "finite search finds every mode.",
    "Density in more than two dimensions: annealed importance sampling (AIS) estimates log Z from "
    "both ends. The forward side is below log Z on average. The reverse side starts at data and "
    "is above it only if data is distributed as the model is: where it lies significantly below "
    "the forward side, mode weights of model and data differ, yes becomes partly, and KL is that "
    "of the forward side. Yes if the upper bound is below "
    f"{KL_YES:g}, partly if the estimate is below {KL_PARTLY:g}; total variation on the slice, "
    "where all but the first two dimensions are 0, must agree. If the bracket of log Z is wider "
    f"than {LOOSE:g} nats, or the effective fraction of AIS chains is below {LEAST_ESS:.0%} in "
    "either direction, the answer is no where even the lower bound is above "
    f"{KL_PARTLY:g} or total variation on the slice is above {TV_PARTLY:g}, and not measured "
    "otherwise. Yes becomes partly where long chains have not converged.",
    "Density of your own points, whose true density is unknown: the mean log-likelihood of "
    "held-out points is compared with that of two plain models of the training points, a Gaussian "
    "and a kernel density estimate with Scott's bandwidth. Yes if it is at most "
    f"{LIKELIHOOD_TOLERANCE:g} nats below the better one; partly if it is above the Gaussian. "
    f"Not measured if thinning the grid changes log Z by more than {LOG_Z_ERROR:g} nats. In more "
    "than two dimensions, a yes also needs the lower end of its bracket to be as close and long "
    "chains to have converged; a loose bracket is not measured.",
    "Out-of-distribution (OOD) detection: the model ranks data and other points by U. AUROC is the "
    "fraction of pairs in the right order; 0.5 is chance. Yes if, for every set, it is less than "
    f"{BEHIND_YES:g} below that of the true density on the same points, or of the better of a "
    "Gaussian and a kernel density estimate where the density is not known; partly if less than "
    f"{BEHIND_PARTLY:g} below. Where there is neither: yes above {ALONE_YES:g}, partly above "
    f"{ALONE_PARTLY:g}, which says as much about the sets as about the model. The likelihood "
    "ratio of data and set would rank better than any density, so a model may be above the "
    "baseline. The sets are uniform noise on a widened box around the data, a Gaussian with the "
    "data's moments, the data with its coordinates shuffled across examples, and files given with "
    "--ood; for images, uniform noise, averages of two test images and images of one colour. "
    "Other sets may be harder.",
    "Training: yes if it was convergent and the guard raised no alarm; partly if it was stable "
    "without being convergent, or oversaturated, or if the run recovered from an alarm of the "
    "guard; no if it was diverging or starved, or if the guard stopped the run; no as well if no "
    f"update changed the network, or if the median |d| is above {MOST_GAP:,.0f} nats and above "
    f"{MOST_LOGITS:g} times the coldness.",
)
"""How the answers are decided, in the order of the questions."""

ANSWERS: dict[Topic, Callable[[Mapping[str, float]], Answer]] = {
    "generation": generation,
    "long_chains": long_chains,
    "density": density,
    "ood": ood,
    "training": training,
}


@dataclass(frozen=True)
class Verdict:
    """A sentence or two, and the answers that they sum up, in the order of the questions."""

    summary: str
    answers: dict[Topic, Answer]


def verdict_on(metrics: Mapping[str, float]) -> Verdict:
    """The verdict on the metrics of metrics.json, any of which may be missing."""
    answers = {topic: _answer(topic, metrics) for topic in ANSWERS}
    return Verdict(summary(*(answer.grade for answer in answers.values())), answers)


def _answer(topic: Topic, metrics: Mapping[str, float]) -> Answer:
    """The answer, with the metrics that it is based on."""
    noted = Noted(metrics)
    return replace(ANSWERS[topic](noted), metrics=noted.noted)
