"""Potentials of many points, as everything that scores needs them: in float64, a part at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.batching import parts
from coldness.energies import Energy
from coldness.kernels.run import frozen


def potential(energy: Energy, points: Tensor) -> Tensor:
    """U in float64 on the CPU, (N,); computed as the energy's own numbers are, in eval mode."""
    own: Tensor | None = next(energy.parameters(), None)
    if own is None:  # an analytic energy: its buffers, not those of its coordinates
        buffers = energy.named_buffers()
        own = next((b for name, b in buffers if not name.startswith("coordinates.")), None)
    device = "cpu" if own is None else own.device.type
    with (
        frozen(list(energy.modules())),
        torch.no_grad(),
        torch.autocast(device, enabled=False),
    ):
        pieces = [
            energy(part if own is None else part.to(own)).cpu().double() for part in parts(points)
        ]
    return torch.cat(pieces)
