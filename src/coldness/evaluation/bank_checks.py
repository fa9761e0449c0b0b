"""The banks of a trained run beside its data: figures of diagnostics/bank.py for every source.

Banks are not part of the model, so that they come from the run in memory or from its checkpoint.
Names of further sources end in _1, _2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from coldness.chains import Bank
from coldness.diagnostics.bank import COMPARED, bank_health
from coldness.evaluation.likelihood import potential
from coldness.seeds import generators

if TYPE_CHECKING:
    from coldness.training.settings import Settings


def bank_figures(settings: Settings, sources: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the trained model in settings.energy; none where no source has a bank.

    Args:
        settings: of the run, with trained weights loaded.
        sources: `state_dict` of every source, as a checkpoint holds them.
    """
    energy = settings.energy
    figures: dict[str, float] = {}
    device = next(energy.parameters(), torch.empty(0)).device
    for k, (source, saved) in enumerate(zip(settings.sources, sources, strict=True)):
        start = source.start
        if not isinstance(start, Bank):
            continue
        of_data, of_starts = generators(settings.evaluation.seed + 3, device)
        x_data = settings.data.sample(2 * COMPARED, of_data).to(device)
        fresh = start.initial.fresh(COMPARED, x_data, energy.coordinates, of_starts)
        x = saved["start"]["x"].to(device)
        found = bank_health(
            x, saved["start"]["age"], fresh, x_data, potential(energy, x), potential(energy, x_data)
        )
        figures |= {f"{name}_{k}" if k else name: value for name, value in found.items()}
    return figures
