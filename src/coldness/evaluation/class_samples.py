"""Samples by class: chains from noise on p(x|y), equally many of every class.

Whether they show their class is judged by a classifier that is independent of the model: a support
vector machine on the pixels of training images, which is accurate for small images only.

    class_agreement    fraction of samples that it assigns to the class that they were drawn for
    judge_accuracy     its own accuracy on test images

Agreement with an inaccurate judge means nothing: below JUDGE_ACCURACY it is not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from coldness.batching import at_once
from coldness.data import Labelled
from coldness.model import Model

LARGEST_SIDE = 16
"""Largest side of images that are judged."""

JUDGE_EXAMPLES = 5000
"""Most training images of the judge: its cost grows with the square of their number."""

JUDGE_ACCURACY = 0.9


def by_class(
    model: Model, x_data: Tensor, each: int, generator: torch.Generator, guidance: float | None
) -> tuple[Tensor, Tensor]:
    """Samples (K * each, ...) and their labels (K * each,), class after class.

    Args:
        model: with classes and a sampler.
        x_data: examples, for shape and scale.
        each: number of samples per class.
        generator: random number generator.
        guidance: weight of latents, for models with latents of classes; None for the model's own.
    """
    assert model.sampler is not None
    own = next(model.energy.parameters())
    labels = torch.arange(len(model.domain.classes)).repeat_interleave(each)
    condition, _ = model.condition(
        len(labels), label=labels.tolist(), guidance=guidance if model.energy.latent else None
    )
    assert condition is not None
    examples = x_data.to(own)
    found = [
        model.sampler.sample(
            model.energy, examples, len(some), generator, step_scale=model.step_scale,
            given=some.to(own.device),
        ).x.cpu()
        for some in condition.split(at_once(x_data.shape[1:]))
    ]  # fmt: skip
    return torch.cat(found), labels


@dataclass(frozen=True)
class ClassJudge:
    """A support vector machine on pixels, fitted to training images.

    accuracy: on test images.
    """

    accuracy: float
    _machine: Any

    def agreement(self, x: Tensor, labels: Tensor) -> float:
        """Fraction of samples x (N, C, H, W) that it assigns to the classes labels (N,)."""
        return float((self(x) == labels).double().mean())

    def __call__(self, x: Tensor) -> Tensor:
        """Returns the class (N,) of each image (N, C, H, W) in the units of the model."""
        return torch.from_numpy(self._machine.predict(x.flatten(1).numpy()))


def fit_class_judge(data: Labelled, generator: torch.Generator) -> ClassJudge | None:
    """Returns a judge of classes; None if examples are not small images of two classes or more."""
    if (
        not data.domain.is_images
        or max(data.shape[1:]) > LARGEST_SIDE
        or len(data.domain.classes) < 2
    ):
        return None
    train = data.train
    some = torch.randperm(len(train), generator=generator)[:JUDGE_EXAMPLES]
    if len(data.train_labels[some].unique()) < 2:  # the others are too rare
        return None
    machine = import_module("sklearn.svm").SVC(C=10.0)  # imported here: it is slow to import
    machine.fit(train[some].flatten(1).numpy(), data.train_labels[some].numpy())
    own = machine.predict(data.test.flatten(1).numpy()) == data.test_labels.numpy()
    return ClassJudge(float(own.mean()), machine)


def judged(
    data: Labelled, x: Tensor, labels: Tensor, generator: torch.Generator
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Metrics of the judge on samples x (N, C, H, W) drawn for labels (N,).

    The array `confusion` (K, K) has the fraction of samples of class i that look like class j.
    """
    judge = fit_class_judge(data, generator) if bool(x.isfinite().all()) else None
    if judge is None:
        return {}, {}
    metrics = {"judge_accuracy": judge.accuracy}
    if judge.accuracy < JUDGE_ACCURACY:
        return metrics, {}
    metrics["class_agreement"] = judge.agreement(x, labels)
    count = len(data.domain.classes)
    table = torch.zeros(count, count, dtype=torch.float64)
    table.index_put_((labels, judge(x)), torch.ones((), dtype=torch.float64), accumulate=True)
    return metrics, {"confusion": table / table.sum(1, keepdim=True).clamp(min=1)}
