"""torchebm, as the README of version 0.8 shows it.

Its step is x - h dE(x) + n sqrt(2h) xi with step_size h and noise_scale n, so h = a and
n = s / sqrt(2a) on the network itself. Its contrastive divergence starts chains from the data, not
from noise; that is as much work.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torchebm.core import BaseModel
from torchebm.losses import ContrastiveDivergence
from torchebm.samplers import LangevinDynamics

from benchmarks.toy import LEARNING_RATE, SCALE, STEPS, Chain, Iteration, data, network


class MLPEnergy(BaseModel):
    """The toy network as torchebm's model."""

    def __init__(self) -> None:
        super().__init__()
        self.net: nn.Module = network()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(-1)


def _sampler(model: MLPEnergy) -> LangevinDynamics:
    noise = SCALE.noise / math.sqrt(2 * SCALE.drift)
    return LangevinDynamics(model=model, step_size=SCALE.drift, noise_scale=noise)


def chain(batch: int, steps: int) -> Chain:
    sampler = _sampler(MLPEnergy())
    return lambda: sampler.sample(dim=2, n_samples=batch, n_steps=steps)


def iteration() -> Iteration:
    model, draw = MLPEnergy(), data()
    loss_of = ContrastiveDivergence(
        model=model, sampler=_sampler(model), k_steps=STEPS, energy_reg_weight=0.0
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def once() -> object:
        loss, _ = loss_of(draw())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return once
