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
from coldness.guard.policy import Guard
from coldness.kernels import Langevin
from coldness.machine import keep_freed_memory
from coldness.nets import MLP
from coldness.runs.log import MetricsLog, Row
from coldness.training import Settings, build
from coldness.training.fit import guard_of


def _energy() -> ScalarEnergy:
    net = MLP(2, WIDTHS, slope=SLOPE)
    net.layers.load_state_dict(network().state_dict())
    return ScalarEnergy(net, SCALE.coldness)


def _source(steps: int) -> Source:
    return Source(GaussianNoise(), Langevin(SCALE.step_size), steps)


def chain(batch: int, steps: int) -> Chain:
    keep_freed_memory()  # as the commands do
    energy, source = _energy(), _source(steps)
    shape_of_data, generator = torch.empty(batch, 2), torch.Generator().manual_seed(0)

    def once() -> Tensor:
        return source.draw(energy, shape_of_data, generator, tempering=1.0, compiled=True).x

    return once


def iteration() -> Iteration:
    """Training.iterate with figures gathered, watched and written to metrics.csv as `fit` does."""
    return watched(settings(), tempfile.TemporaryDirectory())[0]


def settings() -> Settings:
    return Settings(
        data=Mixture2D(),
        energy=_energy(),
        sources=[_source(STEPS)],
        optimiser=lambda parameters: torch.optim.Adam(parameters, LEARNING_RATE, fused=True),
        batch_size=BATCH,
        threads=torch.get_num_threads(),
        compile="always",
        guard=Guard(policy="warn"),
    )


def watched(
    settings: Settings, folder: tempfile.TemporaryDirectory[str]
) -> tuple[Iteration, Iteration]:
    """An iteration, and what the guard does of it in a hundred: looks and a snapshot."""
    keep_freed_memory()  # as the commands do
    training = build(settings)
    path = Path(folder.name)
    (path / "checkpoints").mkdir()
    metrics, rescue = MetricsLog(path / "metrics.csv"), guard_of(training, path)
    every = settings.guard.every
    last: list[Row] = []

    def once() -> object:
        nonlocal last
        assert folder.name  # which is there for as long as this is
        metrics.add(training.iteration, training.iterate())
        if training.iteration % every == 0:
            last = metrics.drain()
            rescue.watch.add(last)
            metrics.write(last)
            rescue.look()
        return training.iteration

    def guard() -> object:
        for _ in range(100 // every):
            rescue.watch.add(last)
            rescue.watch.look()
        rescue.snapshot()
        return rescue

    return once, guard
