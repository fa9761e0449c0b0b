"""coldness, as its training loop runs it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.toy import (
    BATCH,
    LEARNING_RATE,
    SCALE,
    SLOPE,
    STEPS,
    WIDTHS,
    Chain,
    Iteration,
    network,
)
from coldness.chains import GaussianNoise, Source
from coldness.data import Mixture2D
from coldness.energies import ScalarEnergy
from coldness.kernels import Langevin
from coldness.nets import MLP
from coldness.training import Settings, Training
from coldness.training.guard import check
from coldness.training.log import MetricsLog
from coldness.training.loop import ITERATIONS_PER_BLOCK


def _energy() -> ScalarEnergy:
    net = MLP(2, WIDTHS, slope=SLOPE)
    net.layers.load_state_dict(network().state_dict())
    return ScalarEnergy(net, SCALE.coldness)


def _source(steps: int) -> Source:
    return Source(GaussianNoise(), Langevin(SCALE.step_size), steps)


def chain(batch: int, steps: int) -> Chain:
    energy, source = _energy(), _source(steps)
    shape_of_data, generator = torch.empty(batch, 2), torch.Generator().manual_seed(0)

    def once() -> Tensor:
        return source.draw(energy, shape_of_data, generator, tempering=1.0, compiled=True).x

    return once


def iteration() -> Iteration:
    """Training.iterate with figures gathered, checked and written to metrics.csv as `fit` does."""
    settings = Settings(
        data=Mixture2D(),
        energy=_energy(),
        sources=[_source(STEPS)],
        optimiser=lambda parameters: torch.optim.Adam(parameters, LEARNING_RATE, fused=True),
        batch_size=BATCH,
        threads=torch.get_num_threads(),
        compile="always",
    )
    training = Training(settings)
    folder = tempfile.TemporaryDirectory()
    metrics = MetricsLog(Path(folder.name) / "metrics.csv")

    def once() -> object:
        metrics.add(training.iteration, training.iterate())
        if training.iteration % ITERATIONS_PER_BLOCK == 0:
            rows = metrics.take()
            check(rows)
            metrics.write(rows)
        return folder  # lives as long as this function

    return once
