"""coldness on JEM, as its recipes run it: bfloat16 where that is fast, channels last, compiled."""

from __future__ import annotations

import tempfile

import torch
from torch import Tensor

from benchmarks import jem
from benchmarks.contenders import ours
from benchmarks.jem import SCALE, Images, network
from benchmarks.toy import Chain, Iteration
from coldness.chains import Bank, Source, UniformNoise
from coldness.energies import ClassifierEnergy
from coldness.guard.policy import Guard
from coldness.kernels import Langevin
from coldness.machine import keep_freed_memory
from coldness.nets import WideResNet
from coldness.objectives import CrossEntropy
from coldness.precision import autocast
from coldness.training import Settings


def _energy() -> ClassifierEnergy:
    net = WideResNet(jem.DEPTH, jem.WIDTH, slope=jem.SLOPE)
    net.build(jem.SHAPE, jem.CLASSES)
    with torch.no_grad():
        for mine, theirs in zip(net.parameters(), network().parameters(), strict=True):
            mine.copy_(theirs)
    return ClassifierEnergy(net, SCALE.coldness)


def _source() -> Source:
    bank = Bank(jem.BANK, UniformNoise(-1.0, 1.0), refresh=jem.RESTARTS)
    return Source(bank, Langevin(SCALE.step_size), jem.STEPS)


def chain(compiled: bool = True) -> Chain:
    keep_freed_memory()  # as training does
    energy, source = _energy(), _source()
    shape_of_data, generator = torch.zeros(jem.BATCH, *jem.SHAPE), torch.Generator().manual_seed(0)
    source.start.prepare(shape_of_data, energy.coordinates, generator)

    def once() -> Tensor:
        with autocast("auto", shape_of_data.device):
            chains = source.draw(energy, shape_of_data, generator, tempering=1.0, compiled=compiled)
            return chains.x

    return once


def iteration(compiled: bool = True) -> Iteration:
    settings = Settings(
        data=Images(),
        energy=_energy(),
        sources=[_source()],
        terms=[CrossEntropy()],
        optimiser=lambda parameters: torch.optim.Adam(parameters, jem.LEARNING_RATE, fused=True),
        batch_size=jem.BATCH,
        data_noise=jem.DATA_NOISE,
        threads=torch.get_num_threads(),
        compile="always" if compiled else "never",
        precision="auto",
        guard=Guard(policy="warn"),
    )
    return ours.watched(settings, tempfile.TemporaryDirectory())[0]
