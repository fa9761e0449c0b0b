"""Samples by class: chains from noise on p(x|y), equally many of every class.

Whether they show their class is judged by a classifier that is independent of the model: a support
vector machine on the pixels of training images, which is accurate for small images only.

    class_agreement    fraction of samples that it assigns to the class that they were drawn for
    judge_accuracy     its own accuracy on test images

Agreement with an inaccurate judge means nothing: below JUDGE_ACCURACY it is not measured.
"""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor

from coldness.batching import at_once
from coldness.chains import Source
from coldness.data import Labelled
from coldness.energies import Energy

LARGEST_SIDE = 16
"""Largest side of images that are judged."""

JUDGE_EXAMPLES = 5000
"""Most training images of the judge: its cost grows with the square of their number."""

JUDGE_ACCURACY = 0.9


def by_class(
    energy: Energy,
    source: Source,
    x_data: Tensor,
    each: int,
    generator: torch.Generator,
    step_scale: float,
) -> tuple[Tensor, Tensor]:
    """Samples (K * each, ...) and their labels (K * each,), class after class."""
    own = next(energy.parameters())
    labels = torch.arange(energy.classes, device=own.device).repeat_interleave(each)
    examples = x_data.to(own)
    found = [
        source.sample(
            energy, examples, len(some), generator, step_scale=step_scale, labels=some
        ).x.cpu()
        for some in labels.split(at_once(x_data.shape[1:]))
    ]
    return torch.cat(found), labels.cpu()


def judged(
    data: Labelled, x: Tensor, labels: Tensor, generator: torch.Generator
) -> dict[str, float]:
    """Metrics of the judge on samples x (N, C, H, W) drawn for labels (N,)."""
    if (
        not data.domain.is_images
        or max(data.shape[1:]) > LARGEST_SIDE
        or not bool(x.isfinite().all())
    ):
        return {}
    train = data.train
    some = torch.randperm(len(train), generator=generator)[:JUDGE_EXAMPLES]
    judge = import_module("sklearn.svm").SVC(C=10.0)  # imported here: it is slow to import
    judge.fit(train[some].flatten(1).numpy(), data.train_labels[some].numpy())

    def share(images: Tensor, of: Tensor) -> float:
        return float((judge.predict(images.flatten(1).numpy()) == of.numpy()).mean())

    own = share(data.test, data.test_labels)
    metrics = {"judge_accuracy": own}
    if own >= JUDGE_ACCURACY:
        metrics["class_agreement"] = share(x, labels)
    return metrics
