"""Replay buffers (banks) of a run compared with its data, by the metrics of diagnostics/bank.py.

Banks are not part of the model, so they come from the run in memory or from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from coldness.chains import Source, Start
from coldness.data import Data
from coldness.diagnostics.bank import COMPARED, bank_health
from coldness.evaluation.noisy import noisy
from coldness.likelihood.potential import potential
from coldness.metrics import source_key
from coldness.model import Model
from coldness.seeds import generators

Banks = Mapping[int, tuple[Start, Mapping[str, Tensor]]]
"""Starts with a bank and the state of each, by the index of their source."""


def banks_of(sources: Sequence[Source], states: Sequence[Mapping[str, Any]]) -> Banks:
    """The banks among a run's sources.

    Args:
        sources: of the run.
        states: `state_dict` of every source, as a checkpoint holds them.
    """
    both = enumerate(zip(sources, states, strict=True))
    return {k: (s.start, saved["start"]) for k, (s, saved) in both if s.start.has_state}


def bank_metrics(model: Model, data: Data, banks: Banks, seed: int) -> dict[str, float]:
    """Metrics of the banks under the trained model; empty where no source has a bank.

    Args:
        model: the model.
        data: the data that it was trained on.
        banks: of the run.
        seed: of the evaluation.
    """
    energy, device = model.energy, model.device
    metrics: dict[str, float] = {}
    for k, (start, saved) in banks.items():
        slots = start.slots(saved)
        if slots is None:
            continue
        of_data, of_starts = generators(seed + 3, device)
        x_data = _examples(model, data, of_data, of_starts).to(device)
        fresh = start.fresh(COMPARED, x_data, energy.coordinates, of_starts)
        x, age = slots[0].to(device), slots[1]
        found = bank_health(x, age, fresh, x_data, potential(energy, x), potential(energy, x_data))
        metrics |= {source_key(name, k): value for name, value in found.items()}
    return metrics


def _examples(
    model: Model, data: Data, of_data: torch.Generator, of_noise: torch.Generator
) -> Tensor:
    """Distinct training examples, because repeated ones have distance 0; as many as there are."""
    if data.finite is not None:
        train = data.finite.train
        x = train[torch.randperm(len(train), generator=of_data)[: 2 * COMPARED]]
    else:
        x = data.sample(2 * COMPARED, of_data)
    return noisy(model, x, of_noise)


def bank_samples(banks: Banks, count: int, generator: torch.Generator) -> Tensor | None:
    """At most `count` distinct slots of the first bank; None where there is no bank."""
    for start, saved in banks.values():
        slots = start.slots(saved)
        if slots is not None:
            x = slots[0].cpu()
            return x[torch.randperm(len(x), generator=generator)[:count]]
    return None
