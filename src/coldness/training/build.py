"""Construction: from settings and their seed to a live run.

Everything random is drawn from the seed: weights of networks that are made for the data's shape,
examples that coordinates are estimated from, and the first states of replay buffers (banks).
"""

from __future__ import annotations

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coldness.batching import activation_bytes
from coldness.energies import Coordinates, FittedMixture, check_coordinates, check_uncoupled
from coldness.kernels import worth_compiling
from coldness.machine import check_memory
from coldness.precision import autocast
from coldness.seeds import generators
from coldness.training.ema import MovingAverage
from coldness.training.live import Live
from coldness.training.loop import Training
from coldness.training.settings import Settings

EXAMPLES_FOR_COORDINATES = 20_000
VALUES_FOR_COORDINATES = 2**24
"""Most examples, and most values in them, that coordinates are estimated from."""

VALUES_FOR_COVARIANCE = 2**27
"""Most values for a full covariance of finite data, which needs many examples per dimension: each
example is used once. This is 43,690 images of 3 x 32 x 32."""


def build(s: Settings) -> Training:
    """The run at its beginning. The energy, sources and terms of the settings are used in place.

    Raises:
        ValueError: parts do not fit each other; the message is one line.
    """
    energy, data = s.energy, s.data
    # Networks draw their weights from the global generator, which is restored afterwards.
    check_memory(s.memory)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(s.seed)
        energy.build(data.domain)
    _check(s)
    fabric = Fabric(accelerator="auto", devices=1)
    of_data, of_chains = generators(s.seed, fabric.device)
    x_data = _examples(s, of_data)
    energy.coordinates = Coordinates.estimate(x_data, s.preconditioner)
    if energy.reference is not None:
        _fit_reference(s, energy.reference, x_data)
    check_uncoupled(energy, x_data)
    check_coordinates(energy, x_data)
    needs = s.memory  # with networks that were made for the data's shape
    if fabric.device.type == "cpu":
        with autocast(s.precision, fabric.device):
            needs["batch_size"] += s.examples * activation_bytes(energy.outputs, data.shape)
    check_memory(needs)
    optimiser = s.optimiser(list(energy.parameters()))
    _, wrapped = fabric.setup(energy, optimiser)
    ema = None if s.average is None else MovingAverage(energy, s.average)
    for source in [*s.sources, s.sampling]:
        source.start.bind(energy)
    for source in s.sources:
        source.start.prepare(x_data.to(fabric.device), energy.coordinates, of_chains)
        if s.conditional and energy.latent:
            source.start.condition_on(energy.latent)
    for term in s.terms:
        term.prepare(energy, data, of_chains)
    compiled = [
        s.compile == "always"
        or (s.compile == "auto" and worth_compiling(s.iterations * source.steps))
        for source in s.sources
    ]
    live = Live(s, fabric.device)
    return Training(s, fabric, wrapped, ema, of_data, of_chains, compiled, live)


def _fit_reference(s: Settings, reference: FittedMixture, x_data: Tensor) -> None:
    """Fits the reference to the training part, or to examples where there is no such part."""
    rows = x_data if s.data.finite is None else s.data.finite.train
    reference.fit(rows, s.seed, s.energy.coordinates.whiten)


def _check(s: Settings) -> None:
    """Raises ValueError for parts that do not fit each other."""
    if s.conditional and not (s.energy.classes or s.energy.latent):
        raise ValueError("conditional sources need an energy with classes or with latents")
    if s.conditional and s.energy.classes and s.data.labelled is None:
        raise ValueError("conditional sources need data with labels")
    if s.conditional and s.energy.latent and not any(term.has_latents for term in s.terms):
        raise ValueError("conditional sources need a term with latents, such as Guidance")
    for source in [*s.sources, s.sampling]:
        source.check_examples(s.data.shape)
    for term in s.terms:
        term.check(s.energy, s.data)
    labelled = s.data.labelled
    if s.validate_every and not (
        any(term.validates for term in s.terms)
        and labelled is not None
        and len(labelled.validation_labels)
    ):
        raise ValueError(
            "validate_every needs a term that validates, such as CrossEntropy, and data with a "
            "validation part"
        )
    if s.preconditioner != "none" and s.energy.is_composite:
        raise ValueError("a preconditioner needs an energy that is not composed of others")


def _examples(s: Settings, generator: torch.Generator) -> Tensor:
    """Examples that coordinates are estimated from."""
    values = s.data.domain.dimensions
    count = min(EXAMPLES_FOR_COORDINATES, max(1, VALUES_FOR_COORDINATES // values))
    x = s.data.sample(count, generator)
    if s.preconditioner == "full" and s.data.finite is not None:
        train = s.data.finite.train
        order = torch.randperm(len(train), generator=generator)
        return train[order[: VALUES_FOR_COVARIANCE // values]]
    return x
