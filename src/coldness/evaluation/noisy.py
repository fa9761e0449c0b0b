"""Examples as training saw them in the end: with the noise that was added to data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from coldness.training.settings import Settings


def noisy(settings: Settings, x: Tensor, generator: torch.Generator) -> Tensor:
    """Images (N, ...) on the CPU, with noise from the generator; data of other kinds as it is."""
    sd = settings.data_noise_at(settings.iterations - 1)
    if not sd or len(settings.data.shape) != 3:
        return x
    noise = torch.empty(x.shape, device=generator.device).normal_(generator=generator)
    return x + settings.energy.coordinates.push(sd * noise).cpu()
