"""The study `trust`: verdicts on models of known truth (liars.py), over three seeds.

Every model is judged as any other: `judge` with its sampler, on fresh samples of its data. A row of
the table says what it deserves, what the verdict was, and whether it was trusted falsely or doubted
falsely. Truth and estimate of KL(data || model) are beside each other; "not measured" is no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from coldness.domain import Domain
from coldness.metrics import Topic
from coldness.model import Model
from coldness.studies.liars import Liar, liars, right_models
from coldness.studies.number import Number, number
from coldness.training.settings import Evaluation
from coldness.trust.answers import ORDER
from coldness.trust.judgement import Judgement, judge

SEEDS = 3
JUDGED: tuple[Topic, ...] = ("generation", "long_chains", "density", "ood")

HOW = Evaluation(samples=2000, long_steps=1000, adjusted=False)


def judged(liar: Liar, seed: int) -> Judgement:
    """The verdict on a model of known truth."""
    model = Model(liar.model, Domain(liar.data.shape), compile="never")
    return judge(model, liar.data, sampler=liar.sampler, seed=seed, evaluation=HOW)


def false_trust(liar: Liar, found: Judgement) -> list[Topic]:
    """Questions that got a higher grade than they deserve."""
    return [t for t in JUDGED if ORDER[found.answers[t].grade] > ORDER[deserved(liar, t)]]


def false_alarms(liar: Liar, found: Judgement) -> list[Topic]:
    """Questions of a right model that got less than a yes."""
    return [t for t in JUDGED if liar.right and found.answers[t].grade != "yes"]


def deserved(liar: Liar, topic: Topic) -> Any:
    return liar.deserves.get(topic, "yes")


def wrong_kl(liar: Liar, found: Judgement) -> bool:
    """Whether KL was reported, and its interval does not hold the truth."""
    metrics, truth = found.metrics, liar.kl()
    if found.answers["density"].grade == "not measured" or "kl" not in metrics:
        return False
    if math.isinf(truth):  # no number is near it; what counts is that nobody relies on one
        return found.answers["density"].grade != "no"
    # The truth is a mean over samples with a standard error below 1%.
    slack = 0.02 + 0.02 * truth + metrics.get("mass_off_grid_error", 0.0) * 3
    if "tv" in metrics:  # on a grid
        low = high = metrics["kl"]
    else:
        low, high = metrics["kl_low"], metrics["kl_high"]
    return not low - slack <= truth <= high + slack


def trust_numbers(
    rows: Sequence[Mapping[str, Any]], runs: Path, quick: bool, stage: Callable[[str], None]
) -> list[Number]:
    """A row for every model, and two for all of them; rows and runs are not used."""
    numbers, trusted, alarmed, wrong = [], 0, 0, 0
    models, seeds = (*liars(), *right_models()), 1 if quick else SEEDS
    for k, liar in enumerate(models):
        found = []
        for seed in range(seeds):
            done = k * seeds + seed
            stage(f"{done} of {len(models) * seeds} judgements; now {liar.name}, seed {seed}")
            found.append(judged(liar, seed))
        trusted += sum(len(false_trust(liar, f)) for f in found)
        alarmed += sum(len(false_alarms(liar, f)) for f in found)
        wrong += sum(wrong_kl(liar, f) for f in found)
        numbers.append(_row(liar, found))
    numbers.append(_whole("False trust in all models", "none", trusted, seeds, trusted == 0))
    numbers.append(_whole("False alarms on right models", "at most 1", alarmed, seeds, alarmed < 2))
    numbers.append(_whole("Intervals of KL that miss the truth", "none", wrong, seeds, wrong == 0))
    return numbers


def _whole(claim: str, expected: str, count: int, seeds: int, holds: bool) -> Number:
    return number(claim, "", expected, f"{count} over {seeds} seeds", holds)


def _row(liar: Liar, found: Sequence[Judgement]) -> Number:
    truth = liar.kl()
    says = "; ".join(_grades(judgement) for judgement in found)
    holds = not any(false_trust(liar, f) or false_alarms(liar, f) for f in found)
    best = ", ".join(deserved(liar, topic) for topic in JUDGED)
    kl = "infinite" if math.isinf(truth) else f"{truth:.3g} nats"
    return number(liar.name, "", f"at most {best}; KL {kl}", says, holds)


def _grades(found: Judgement) -> str:
    grades = ", ".join(found.answers[topic].grade for topic in JUDGED)
    return f"{grades} (KL {' '.join(_kl(found.metrics))})"


def _kl(metrics: Mapping[str, float]) -> Iterator[str]:
    if "kl" not in metrics:
        yield "not measured"
        return
    yield f"{metrics['kl']:.3g}"
    if "tv" not in metrics:
        yield f"between {metrics['kl_low']:.3g} and {metrics['kl_high']:.3g}"
