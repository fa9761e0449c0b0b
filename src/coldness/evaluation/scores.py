"""Scores for out-of-distribution detection beside log p; each should be higher for data.

    maxp       max_y p(y|x) of a classifier
    joint      -(E(x) - b cos(v(x), h(x))) of an energy that is guided by an encoder h, at coldness 1
    grad       -|d log p / dy| of images, in the model's coordinates y: the density is flat where
               the model has its mass, and steep at isolated points of high density ("approximate
               mass")
    typical    -|U(x) - <U>| of images, with the mean <U> over training examples: in many dimensions
               nearly all samples of a density have nearly the same log p, so points with a far
               higher log p are as atypical as points with a far lower one

References:
    A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks
    (Hendrycks, Gimpel, 2017), section 2.
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), section 5.3.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Eq. 14.
    Detecting Out-of-Distribution Inputs to Deep Generative Models Using Typicality (Nalisnick et
    al., 2019), section 3.2, with one example at a time.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coldness.batching import parts
from coldness.energies import NOTHING, Energy, Kept
from coldness.kernels.run import frozen, tempered_field


def more_scores(
    energy: Energy, x: Tensor, u: Tensor, u_train: Tensor, of_images: bool, kept: Kept = NOTHING
) -> dict[str, NDArray[np.float64]]:
    """The scores that are defined for this energy and these points, (N,) each.

    Args:
        energy: the model.
        x: points (N, ...).
        u: their potentials (N,).
        u_train: potentials of training examples.
        of_images: whether they are images.
        kept: what the model keeps beside the energy.
    """
    found = _own_scores(energy, x, kept)
    if of_images:
        found["grad"] = -slope(energy, x).numpy()
        found["typical"] = -(u - u_train.mean()).abs().numpy()
    return found


def _own_scores(energy: Energy, x: Tensor, kept: Kept) -> dict[str, NDArray[np.float64]]:
    """The scores that the energy itself defines."""
    like = next(energy.parameters(), x)
    with (
        frozen(list(energy.modules())),
        torch.no_grad(),
        torch.autocast(like.device.type, enabled=False),
    ):
        found = [energy.scores(part.to(like), kept) for part in parts(x)]
    return {name: torch.cat([part[name] for part in found]).double().numpy() for name in found[0]}


def slope(energy: Energy, x: Tensor) -> Tensor:
    """|dU(x)| in the energy's coordinates, (N,) in float64 on the CPU; computed in float32."""
    like = next(energy.parameters(), x)
    field = tempered_field(energy, torch.ones((), device=like.device))
    with frozen(list(energy.modules())), torch.autocast(like.device.type, enabled=False):
        norms = [
            energy.coordinates.pull(field(part.to(like))[1]).flatten(1).norm(dim=1)
            for part in parts(x)
        ]
    return torch.cat(norms).cpu().double()
