"""Judging a model with one function: its metrics, and the answers that are based on them.

judgement = judge(model, data)
judgement.metrics["kl"], judgement.answers["density"].grade
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from coldness.chains import Source
from coldness.data import Data, domain_of, test_data
from coldness.energies import Energy
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import Banks
from coldness.metrics import Topic
from coldness.model import Model
from coldness.progress import Stage
from coldness.training.result import EXAMPLES_FOR_SCALE
from coldness.training.settings import Evaluation
from coldness.trust.answers import Answer
from coldness.trust.verdict import Verdict, verdict_on


@dataclass(frozen=True)
class Judgement:
    """What was measured of a model, and what it can be trusted for.

    Args:
        metrics: by key; coldness.metrics describes each.
        verdict: a summary, and five answers.
        arrays: samples, grids and potentials behind the metrics.
    """

    metrics: dict[str, float]
    verdict: Verdict
    arrays: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def summary(self) -> str:
        return self.verdict.summary

    @property
    def answers(self) -> dict[Topic, Answer]:
        """By topic: generation, long_chains, density, ood, training."""
        return self.verdict.answers

    def __str__(self) -> str:
        lines = [self.summary]
        for answer in self.answers.values():
            lines.append(f"{answer.question:<44} {answer.grade:<12} {answer.measured}".rstrip())
        return "\n".join(lines)


def judge(
    model: Model | Energy,
    data: Any,
    *,
    sampler: Source | None = None,
    seed: int = 0,
    evaluation: Evaluation | None = None,
    others: Mapping[str, Tensor] | None = None,
    banks: Banks | None = None,
    training: Mapping[str, float] | None = None,
    on_stage: Stage = lambda stage: None,
) -> Judgement:
    """Measures a model on data and answers five questions about it.

    Args:
        model: a Model, or any Energy that takes data as it is given.
        data: `Data`, or an array or tensor of test points in the data's own units.
        sampler: how samples are drawn, in place of the model's own sampler; samples of an Energy
            without a sampler are not measured.
        seed: of the random numbers, in place of that of `evaluation`.
        evaluation: what is measured, and how thoroughly; None for the defaults.
        others: out-of-distribution sets (N, ...) by name, in the form that the model takes.
        banks: replay buffers (persistent chains) of the run that trained it.
        training: metrics of its training; None for those that the model carries.
        on_stage: called with the name of each stage, for a progress display.
    """
    judged = model if isinstance(model, Model) else Model(model, domain_of(data))
    points = test_data(data, judged.domain)
    if sampler is not None:
        judged = replace(judged, sampler=_settled(sampler, judged, points))
    how = replace(evaluation or Evaluation(), seed=seed)
    metrics, arrays = evaluate(judged, points, how, on_stage, others, banks)
    if isinstance(model, Model) and model.z is None:
        model.z = judged.z
    metrics |= judged.training if training is None else training
    return Judgement(metrics, verdict_on(metrics), arrays)


def _settled(sampler: Source, model: Model, data: Data) -> Source:
    """The sampler in a form that needs no data."""
    x = data.sample(EXAMPLES_FOR_SCALE, torch.Generator().manual_seed(0)).to(model.device)
    scale = sampler.step_scale
    if not isinstance(scale, (int, float)):
        raise ValueError("the step_scale of a sampler must be a number, not a schedule")
    return sampler.sampler(x, model.energy.coordinates, float(scale))
