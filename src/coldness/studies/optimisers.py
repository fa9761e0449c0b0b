"""Optimisers that normalise gradients, when no negative is competitive.

A good model gets negatives that are 20 nats less likely than the data, so that GradScale is
nearly 0 and the gradient of the objective vanishes.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendix H.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from coldness.chains import GaussianNoise
from coldness.evaluation import compare_on_grid
from coldness.studies.number import Number, number
from coldness.training import Training, build
from coldness.training.recipe import Recipe

BEFORE, AFTER = 3000, 2000
"""Iterations with good negatives and with bad ones."""

SGD_RATE = 0.1


def optimisers(quick: bool) -> Iterator[Number]:
    """Change of kl without good negatives: with Adam, with updates skipped, and with SGD."""
    before, after = (BEFORE // 10, AFTER // 10) if quick else (BEFORE, AFTER)
    adam, _ = moved = _change(before, after)
    yield number(
        "Adam turns vanishing gradients into full-size steps: the model gets worse",
        "H",
        "kl rises",
        _text(moved, after),
        adam > 0.1,
    )
    for claim, options, sgd in (
        ("With updates of GradScale < 0.05 skipped, kl stays", {"least_grad_scale": 0.05}, False),
        (f"With SGD at {SGD_RATE}, kl stays", {}, True),
    ):
        kept = _change(before, after, options, sgd)
        yield number(
            claim, "H", "under a tenth of Adam's", _text(kept, after), abs(kept[0]) < adam / 10
        )
    control = _change(before // 10, after, sgd=True, starve=False)
    yield number(
        f"SGD at {SGD_RATE} does train where negatives are good",
        "H",
        "kl falls by more than 0.1",
        _text(control, after),
        control[0] < -0.1,
    )


def _change(
    before: int,
    after: int,
    options: Mapping[str, Any] | None = None,
    sgd: bool = False,
    starve: bool = True,
) -> tuple[float, float]:
    """Change of kl in the last `after` iterations, starved or not, and their mean GradScale."""
    overrides = {"iterations": before, "contrast.beta": 0.5, "learning_rate": 1, **(options or {})}
    training = build(Recipe.read("mixture2d", overrides).parts())
    for _ in range(before):
        training.iterate()
    kl, scale = _kl(training), 0.0
    if starve:
        take_negatives_away(training)
    if sgd:
        training.optimiser = training.fabric.setup_optimizers(
            torch.optim.SGD(training.parameters, lr=SGD_RATE)
        )
        training.rates = [SGD_RATE]
    for _ in range(after):
        scale += float(training.iterate()["grad_scale"]) / after
    return _kl(training) - kl, scale


def _text(change: tuple[float, float], after: int) -> str:
    return f"{change[0]:+.3g} in {after} iterations at a mean GradScale of {change[1]:.2g}"


def _kl(training: Training) -> float:
    data, how = training.settings.data.known, training.settings.evaluation
    assert data is not None
    return compare_on_grid(training.energy, data, how.grid, how.widening)[0]["kl"]


def take_negatives_away(training: Training) -> None:
    """Replaces all negatives by one point, 20 nats less likely than the data under the model."""
    settings = training.settings
    generator = torch.Generator().manual_seed(0)
    places = 3 * torch.randn(5000, 2, generator=generator)
    with torch.no_grad():
        gap = (
            training.energy(places) - training.energy(settings.data.sample(1000, generator)).mean()
        )
    place = places[(gap - 20).abs().argmin()]
    start = GaussianNoise(place.tolist(), std=0.01)
    settings.sources[0] = replace(settings.sources[0], start=start, steps=0)
