"""ebmkit's JEMLoss, as its documentation composes it, with the plain loop its Trainer wraps.

Cross-entropy and contrast share one batch there, so it draws one batch where others draw two. It
goes through the network twice, once for each, as others' two batches do.
"""

from __future__ import annotations

import ebm
import torch
from torch import Tensor

from benchmarks import jem
from benchmarks.jem import SCALE, Images, network
from benchmarks.toy import Chain, Iteration


def _sampler() -> ebm.LangevinDynamics:
    return ebm.LangevinDynamics(step_size=SCALE.drift, steps=jem.STEPS, noise_scale=SCALE.noise)


def _buffer() -> ebm.ReplayBuffer:
    return ebm.ReplayBuffer(
        jem.BANK, jem.SHAPE, jem.RESTARTS, lambda size: torch.rand(size) * 2 - 1
    )


def chain() -> Chain:
    energy, sampler, buffer = ebm.ClassifierEnergy(network()), _sampler(), _buffer()

    def once() -> Tensor:
        x = sampler.sample(energy, buffer.sample(jem.BATCH))
        buffer.push(x)
        return x

    return once


def iteration() -> Iteration:
    energy = ebm.ClassifierEnergy(network())
    loss_of = ebm.JEMLoss(ebm.ContrastiveDivergence(_sampler(), _buffer()))
    images, generator = Images(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(energy.parameters(), lr=jem.LEARNING_RATE)

    def once() -> object:
        out = loss_of(energy, *images.noisy(generator))
        optimiser.zero_grad(set_to_none=True)
        out.loss.backward()
        optimiser.step()
        return out.metrics

    return once
