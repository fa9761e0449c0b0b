"""Small runs for tests of the loop and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coldness.cli.options import overrides_of
from coldness.training import Settings, Training, fit
from coldness.training.recipe import Recipe

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
    training = Training(settings(recipe, *overrides))
    folder.mkdir(exist_ok=True)
    fit(training, folder)
    return training


def stand_in_images(folder: Path) -> None:
    """Files that stand for CIFAR-10 in a folder of data, for COLDNESS_DATA."""
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        images = rng.integers(0, 256, size=(300, 32, 32, 3), dtype=np.uint8)
        np.savez(folder / f"cifar10_{part}.npz", images=images, labels=np.arange(300) % 10)


def same(a: Any, b: Any) -> bool:
    """Whether two nested states are equal to the bit."""
    if hasattr(a, "shape"):
        return bool((a == b).all()) and a.dtype == b.dtype
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
