"""Judging a model, as one verb: its metrics, and the answers that are drawn from them.

    judgement = judge(model, data)
    judgement.metrics["kl"], judgement.answers["density"].grade
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coldness.chains import Source
from coldness.data import Data, TestPoints
from coldness.domain import Domain
from coldness.energies import Energy
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import Banks
from coldness.model import Model
from coldness.progress import Stage
from coldness.training.settings import Evaluation
from coldness.trust.answers import Answer
from coldness.trust.verdict import Topic, Verdict, verdict_on


@dataclass(frozen=True)
class Judgement:
    """What was measured of a model, and what it can be trusted with.

    Args:
        metrics: by key; coldness.metrics says what each is.
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
        model: a Model, or any Energy, on data as it is given.
        data: `Data`, or an array or tensor of test points in the data's own units.
        sampler: how samples are drawn, in place of the model's own; an Energy without one is not
            asked to generate.
        seed: of the random numbers.
        evaluation: what is measured, and how thoroughly; None for the defaults.
        others: out-of-distribution sets (N, ...) by name, as the model sees data.
        banks: persistent chains of the run that trained it.
        training: metrics of its training; None for those that the model carries.
        on_stage: called with the name of each stage, for a progress display.
    """
    judged = model if isinstance(model, Model) else _bare(model, data)
    if sampler is not None:
        judged = replace(judged, sampler=_settled(sampler, judged, data))
    points = _as_test_data(data, judged.domain)
    how = replace(evaluation or Evaluation(), seed=seed)
    metrics, arrays = evaluate(judged, points, how, on_stage, others, banks)
    if isinstance(model, Model) and model.z is None:
        model.z = judged.z
    metrics |= judged.training if training is None else training
    return Judgement(metrics, verdict_on(metrics), arrays)


def _bare(energy: Energy, data: Any) -> Model:
    """An energy without anything else, for examples of the shape of the data."""
    if isinstance(data, Data):
        return Model(energy, data.domain)
    return Model(energy, Domain(tuple(_tensor(data).shape[1:])))


def _settled(sampler: Source, model: Model, data: Any) -> Source:
    """The sampler without need of data."""
    points = _as_test_data(data, model.domain)
    x = points.sample(1000, torch.Generator().manual_seed(0)).to(model.device)
    scale = sampler.step_scale
    if not isinstance(scale, (int, float)):
        raise ValueError("the step_scale of a sampler must be a number, not a schedule")
    return sampler.sampler(x, model.energy.coordinates, float(scale))


def _as_test_data(data: Any, domain: Domain) -> Data:
    """Data in the units of the model."""
    if not isinstance(data, Data):
        x = domain.check(_tensor(data).double())
        if not bool(x.isfinite().all()):
            raise ValueError("test points must be finite numbers")
        return TestPoints(domain.units.into_model(x), domain)
    if data.shape != domain.shape:
        raise ValueError(f"the data has examples {data.shape}, the model takes {domain.shape}")
    if data.domain.units == domain.units:
        return data
    if data.finite is None:
        raise ValueError("the data has other units than the model was trained on")
    own = torch.cat([data.original(data.finite.train), data.original(data.finite.test)])
    return TestPoints(domain.units.into_model(own), domain)


def _tensor(data: Any) -> Tensor:
    x = data if isinstance(data, Tensor) else torch.from_numpy(np.asarray(data))
    return x[:, None] if x.dim() == 1 else x
