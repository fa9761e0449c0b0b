"""Accuracy and calibration of a classifier.

    accuracy    fraction of test images whose largest p(y|x) is that of their class
    ECE         sum over 15 confidence bins of fraction x |accuracy - mean confidence| of each bin

Images get the noise that training images had at the end, as in the reference code, because the
classifier was trained on no others. With refine_steps, both are also measured after k Langevin
steps from the test images. These chains follow the model itself without labels, and move an image
to where the model assigns it a higher density.

References:
    On Calibration of Modern Neural Networks (Guo et al., 2017), Eqs. 2 and 3.
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), sections 5.2 and
    5.4 (chains at the inputs, there as a defence).
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.batching import parts
from coldness.chains import Source
from coldness.energies import Energy
from coldness.kernels.run import frozen

BINS = 15


def probabilities(energy: Energy, x: Tensor) -> Tensor:
    """p(y|x), (N, K) in float64 on the CPU, from float32 logits."""
    own = next(energy.parameters())
    with (
        frozen(list(energy.modules())),
        torch.no_grad(),
        torch.autocast(own.device.type, enabled=False),
    ):
        logits = [energy.outputs(part.to(own)).cpu().double() for part in parts(x)]
    return torch.cat(logits).softmax(1)


def reliability(p: Tensor, labels: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    """accuracy and ece of p (N, K), and reliability_{confidence,accuracy,share} of the bins.

    `share` is the fraction of images in a bin. An empty bin has fraction 0, and its midpoint for
    confidence and accuracy. Confidence 1 belongs to the last bin.
    """
    confidence, choice = p.max(1)
    right = (choice == labels).double()
    bin_of = (confidence * BINS).long().clamp(max=BINS - 1)
    count = torch.bincount(bin_of, minlength=BINS).double()
    middle = (torch.arange(BINS, dtype=torch.float64) + 0.5) / BINS

    def mean(values: Tensor) -> Tensor:
        total = torch.bincount(bin_of, values.double(), minlength=BINS)
        return torch.where(count > 0, total / count.clamp(min=1), middle)

    confidences, accuracies, share = mean(confidence), mean(right), count / len(p)
    ece = float((share * (accuracies - confidences).abs()).sum())
    arrays = {"confidence": confidences, "accuracy": accuracies, "share": share}
    metrics = {"accuracy": float(right.mean()), "ece": ece}
    return metrics, {f"reliability_{name}": values for name, values in arrays.items()}


def refined(
    energy: Energy,
    source: Source,
    x: Tensor,
    steps: int,
    generator: torch.Generator,
    step_scale: float,
) -> Tensor:
    """Images (N, ...) after this many steps of the source's kernel, at the end of its schedule."""
    own = next(energy.parameters())
    moved = [
        source.carry_on(
            energy, part.to(own), steps, generator, step_scale=step_scale, settled=True
        ).x.cpu()
        for part in parts(x)
    ]
    return torch.cat(moved)
