"""ebmkit, as the README of version 0.16 shows it, with the plain loop that its Trainer wraps.

Its step is x - h dE(x) + n xi with step_size h and noise_scale n, so h = a and n = s on the
network itself. Without a buffer its contrastive divergence starts chains from N(0, I).
"""

from __future__ import annotations

import ebm
import torch

from benchmarks.toy import LEARNING_RATE, SCALE, STEPS, Chain, Iteration, data, network


def _sampler(steps: int) -> ebm.LangevinDynamics:
    return ebm.LangevinDynamics(step_size=SCALE.drift, steps=steps, noise_scale=SCALE.noise)


def chain(batch: int, steps: int) -> Chain:
    energy, sampler = ebm.EnergyModel(network()), _sampler(steps)
    return lambda: sampler.sample(energy, torch.randn(batch, 2))


def iteration() -> Iteration:
    energy, draw = ebm.EnergyModel(network()), data()
    loss_of = ebm.ContrastiveDivergence(_sampler(STEPS))
    optimiser = torch.optim.Adam(energy.parameters(), lr=LEARNING_RATE)

    def once() -> object:
        out = loss_of(energy, draw())
        optimiser.zero_grad(set_to_none=True)
        out.loss.backward()
        optimiser.step()
        return out.metrics

    return once
