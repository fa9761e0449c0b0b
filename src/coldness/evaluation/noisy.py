"""Examples as at the end of training: with the noise that was added to data."""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.model import Model


def noisy(model: Model, x: Tensor, generator: torch.Generator) -> Tensor:
    """Images (N, ...) on the CPU with noise from the generator; other data unchanged."""
    if not model.data_noise or not model.domain.is_images:
        return x
    noise = torch.empty(x.shape, device=generator.device).normal_(generator=generator)
    return x + model.energy.coordinates.push(model.data_noise * noise).cpu()
