"""Small runs for tests of the loop and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coldness.cli.options import overrides_of
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import banks_of
from coldness.model import Model
from coldness.runs.checkpoints import newest
from coldness.schedules import value_at
from coldness.training import Settings, Training, build, fit
from coldness.training.recipe import Recipe
from coldness.training.result import model_of

QUICK = [
    "--energy.net.widths=[8]",
    "--evaluation.samples=50",
    "--evaluation.long_steps=5",
    "--evaluation.grid=40",
    "--evaluation.ais.chains=20",
    "--evaluation.ais.levels=8",
    "--compile=never",
]


def read(recipe: str | Path, *words: str) -> Recipe:
    """A recipe with overrides as the command line has them."""
    return Recipe.read(recipe, overrides_of(words))


def settings(recipe: str = "mixture2d", *overrides: str) -> Settings:
    """A packaged recipe, made small."""
    quick = [*QUICK, "--iterations=40", "--batch_size=16", "--sources.0.steps=3", *overrides]
    return read(recipe, *quick).parts()


def trained(folder: Path, recipe: str = "mixture2d", *overrides: str) -> Training:
    """A small run, trained to its end in `folder`."""
    training = build(settings(recipe, *overrides))
    folder.mkdir(exist_ok=True)
    fit(training, folder)
    return training


def weights(training: Training) -> dict[str, Tensor]:
    """Of the model of a run: what its file of weights holds."""
    return model_of(training)._tensors()


def untrained(s: Settings) -> Model:
    """The model of settings whose energy is used as it is, trained or not."""
    s.energy.build(s.data.domain)
    n, source = s.iterations, s.sampling
    x = s.data.sample(1000, torch.Generator().manual_seed(0))
    scale = value_at(source.step_scale, n - 1, n)
    return Model(
        s.energy,
        s.data.domain,
        source.sampler(x, s.energy.coordinates, scale),
        data_noise=s.data_noise_at(n - 1),
        precision=s.precision,
        at_once=s.at_once,
        compile="never" if s.compile == "never" else "auto",
    )


def measured(
    s: Settings,
    others: Mapping[str, Tensor] | None = None,
    banks: list[dict[str, Any]] | None = None,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Metrics and arrays of the energy of settings."""
    found = banks_of(s.sources, banks) if banks else {}
    return evaluate(untrained(s), s.data, s.evaluation, others=others, banks=found)


def stand_in_images(folder: Path) -> None:
    """Files that stand for CIFAR-10 in a folder of data, for COLDNESS_DATA."""
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        images = rng.integers(0, 256, size=(300, 32, 32, 3), dtype=np.uint8)
        np.savez(folder / f"cifar10_{part}.npz", images=images, labels=np.arange(300) % 10)


def saved_state(folder: Path) -> dict[str, Any]:
    """The newest checkpoint of a run."""
    found = newest(folder / "checkpoints")
    assert found is not None
    return found[1]


def same(a: Any, b: Any) -> bool:
    """Whether two nested states are equal to the bit."""
    if hasattr(a, "shape"):
        return bool((a == b).all()) and a.dtype == b.dtype
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
