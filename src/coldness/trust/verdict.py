"""What a trained model can be trusted with: five questions, answered from its figures.

    Does it generate from noise?    energy distance of short-run samples, over its floor
    Do long chains keep the quality?                of long-run samples, and whether these have
                                    converged (both in chain_answers.py); of images their KID
                                    (quality_answer.py)
    Is its density right?           KL(data || model) and total variation; where the data's density
                                    is not known, log-likelihood of held-out points against that
                                    of two plain models (density_answer.py)
    Does it recognise what is not data?
                                    AUROC of its potentials against other points, over that of the
                                    true density where it is known (ood_answer.py)
    Was training healthy?           series of the training, and what the guard had to do
                                    (training_answer.py)

Pure functions of the dictionary in metrics.json, so that the page and the command line say the
same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coldness.diagnostics.convergence import CHANGE, SHIFT
from coldness.likelihood.ais import LEAST_ESS, LOOSE
from coldness.trust.answers import ENOUGH_SAMPLES, Answer, Grade, Topic, number
from coldness.trust.chain_answers import (
    FLOOR_PARTLY,
    FLOOR_YES,
    JUDGED_SAMPLES,
    NEIGHBOURS_PARTLY,
    NEIGHBOURS_YES,
    long,
    short,
)
from coldness.trust.density_answer import (
    KL_PARTLY,
    KL_YES,
    LIKELIHOOD_TOLERANCE,
    LOG_Z_ERROR,
    TV_PARTLY,
    TV_YES,
    density,
)
from coldness.trust.ood_answer import (
    ALONE_PARTLY,
    ALONE_YES,
    BEHIND_PARTLY,
    BEHIND_YES,
    others,
)
from coldness.trust.quality_answer import SHARE_OF_HALF
from coldness.trust.summary import summary
from coldness.trust.training_answer import training

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
    f"answer is no if even the lower bound is above {KL_PARTLY:g}, or total variation on the slice "
    f"above {TV_PARTLY:g}, else not measured. Neither side "
    "sees mass that no chain reaches, so yes becomes partly where long chains have not converged.",
    "Density of your own points, whose true density nobody knows: the mean log-likelihood of "
    "held-out points is compared with that of two plain models of the training points, a Gaussian "
    "and a kernel density estimate with Scott's bandwidth. Yes if it is no more than "
    f"{LIKELIHOOD_TOLERANCE:g} nats behind the better one; partly if it is above the Gaussian. "
    f"Not measured if thinning the grid changes log Z by more than {LOG_Z_ERROR:g}. "
    "In more than two dimensions the lower end of its bracket must be as near for a yes, and long "
    "chains must have converged; a loose bracket is not measured.",
    f"Samples: yes within {FLOOR_YES:g} times the floor, partly within {FLOOR_PARTLY:g} times; "
    f"less in proportion with fewer than {JUDGED_SAMPLES} samples, whose floor is higher. The "
    "floor is the energy distance between two independent samples of the data. Energy distance is "
    f"a squared distance, so {FLOOR_YES:g} times the floor is an error about three times that of "
    "sampling itself. It sees the large scale alone, so that nearest neighbours must agree: yes "
    f"where fewer than {NEIGHBOURS_YES:.0%} of samples and data have a nearest neighbour of their "
    f"own kind, partly below {NEIGHBOURS_PARTLY:.0%}; chance is 50%. With fewer than "
    f"{ENOUGH_SAMPLES} samples, yes becomes partly.",
    "Samples of images, where there are features of a network: their kernel distance (KID) to test "
    "images is held against that of training images at a lower resolution. Yes below "
    f"{SHARE_OF_HALF:.0%} of that at half the resolution, which is half as far from data; partly "
    "below that at a quarter of the resolution. KID is 0 on average for images of the data, and "
    "depends on the network: figures of different networks do not compare.",
    "Long chains: yes becomes partly unless they have converged, which is that their mean U is "
    f"less than {SHIFT:g} standard deviations of the data's U from that of data, and that its "
    f"median moved by less than {CHANGE:g} of them between half way and the end. Oversaturated is "
    f"a mean U at least {SHIFT:g} below that of data, drifting is anything else.",
    "What is not data: the model ranks data and other points by U. AUROC is the share of pairs in "
    "the right order; 0.5 is chance. Yes if, for every set, it is less than "
    f"{BEHIND_YES:g} behind that of the true density on the same points, or of the better of a "
    "Gaussian and a kernel estimate where the density is not known; partly if less than "
    f"{BEHIND_PARTLY:g}. Where there is neither: yes above {ALONE_YES:g}, partly above "
    f"{ALONE_PARTLY:g}, which says as much about the sets as about the model. The likelihood "
    "ratio of data and set would rank better than any density, so that a model may be ahead. Sets "
    "are uniform noise on the box around the data, widened, a Gaussian with the data's moments, "
    "the data with its coordinates shuffled across examples, and files that are named with --ood; "
    "for images, uniform noise, means of two test images and images of one colour beside. "
    "Other sets may be harder.",
    "Training: yes if it was convergent and the guard saw nothing; partly if it was steady without "
    "being convergent, or oversaturated, or if the guard raised an alarm that it ended well after; "
    "no if it was diverging or starved, or if the guard gave the run up.",
)


@dataclass(frozen=True)
class Verdict:
    """One sentence, and the answers that it sums up, in the order of the questions."""

    summary: str
    answers: list[Answer]

    def __getitem__(self, topic: Topic) -> Answer:
        return next(answer for answer in self.answers if answer.topic == topic)


def judge(metrics: Mapping[str, float]) -> Verdict:
    """The verdict on the figures of metrics.json, any of which may be missing."""
    answers = [short(metrics), long(metrics), density(metrics), others(metrics), training(metrics)]
    return Verdict(summary(*(a.answer for a in answers)), answers)
