"""The banks of a trained run beside its data: metrics of diagnostics/bank.py for every source.

Banks are not part of the model, so that they come from the run in memory or from its checkpoint.
Names of further sources end in _1, _2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from coldness.chains import Bank
from coldness.data import HeldOut
from coldness.diagnostics.bank import COMPARED, bank_health
from coldness.likelihood.potential import potential
from coldness.evaluation.noisy import noisy
from coldness.seeds import generators

if TYPE_CHECKING:
    from coldness.training.settings import Settings


def bank_metrics(settings: Settings, sources: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the trained model in settings.energy; none where no source has a bank.

    Args:
        settings: of the run, with trained weights loaded.
        sources: `state_dict` of every source, as a checkpoint holds them.
    """
    energy = settings.energy
    metrics: dict[str, float] = {}
    device = next(energy.parameters(), torch.empty(0)).device
    for k, (start, saved) in _banks(settings, sources).items():
        of_data, of_starts = generators(settings.evaluation.seed + 3, device)
        x_data = _examples(settings, of_data, of_starts).to(device)
        fresh = start.initial.fresh(COMPARED, x_data, energy.coordinates, of_starts)
        x = _slots(start, saved).to(device)
        found = bank_health(
            x, saved["age"], fresh, x_data, potential(energy, x), potential(energy, x_data)
        )
        metrics |= {f"{name}_{k}" if k else name: value for name, value in found.items()}
    return metrics


def _examples(settings: Settings, of_data: torch.Generator, of_noise: torch.Generator) -> Tensor:
    """Training examples without repetition, which would be no distance apart; as many as can be."""
    data = settings.data
    if isinstance(data, HeldOut):
        train = data.train
        x = train[torch.randperm(len(train), generator=of_data)[: 2 * COMPARED]]
    else:
        x = data.sample(2 * COMPARED, of_data)
    return noisy(settings, x, of_noise) if len(data.shape) == 3 else x


def bank_samples(
    settings: Settings,
    sources: Sequence[Mapping[str, Any]],
    count: int,
    generator: torch.Generator,
) -> Tensor | None:
    """Slots of the first bank, at most so many and without repetition; None where there is none."""
    for start, saved in _banks(settings, sources).values():
        x = _slots(start, saved).cpu()
        return x[torch.randperm(len(x), generator=generator)[:count]]
    return None


def _banks(
    settings: Settings, sources: Sequence[Mapping[str, Any]]
) -> dict[int, tuple[Bank, Mapping[str, Tensor]]]:
    """Banks and what they held, by the number of their source."""
    both = enumerate(zip(settings.sources, sources, strict=True))
    return {k: (s.start, saved["start"]) for k, (s, saved) in both if isinstance(s.start, Bank)}


def _slots(start: Bank, saved: Mapping[str, Tensor]) -> Tensor:
    """What a bank held, as chains; the bank itself is left alone."""
    bank = copy(start)
    bank.load_state_dict(dict(saved))
    return bank.states()
