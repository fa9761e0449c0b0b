"""SimCLR with the model's latents as further negatives: the encoder of CLEL.

    L = 1/2n sum_i sum_{j=1,2} NT-Xent(z_j^i, z_{3-j}^i, {z_l^k}_{k != i} + {v^m}; tau)     (Eq. 13)

    NT-Xent(z, z+, {z-}; tau) = -log  exp(z.z+ / tau) / (exp(z.z+ / tau) + sum exp(z.z- / tau))
                                                                                           (Eq. 8)

z_1 and z_2 are unit latents of two views of the same images, v those of the model's samples, as
constants. Without the v this is Eq. 7, the objective of SimCLR.

References:
    A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020),
    Eq. 1.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Eqs. 7, 8, 13.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from coldness.data.augmentation import Augmentation
from coldness.nets import Encoder
from coldness.objectives.teachers import LearningTeacher, Optimiser
from coldness.schedules import Cosine, Schedule


class SimCLR(LearningTeacher):
    """A contrastive encoder.

    Args:
        encoder: h, a network that maps images to latents.
        augmentation: T, for two views of an image, and a third that guides; None for none.
        temperature: tau, > 0.
        model_negatives: whether latents of the model's samples are negatives too.
        optimiser: of the encoder, by class name with its arguments; None for SGD with rate 0.03,
            momentum 0.9 and weight decay 5e-4, as in the paper.
        learning_rate: factor on the optimiser's own rate, a number or a schedule over training.
        ema: decay of the moving average of the encoder, which the model keeps, in [0, 1).
        batch_size: examples per iteration that it learns from; None for those of the contrast, 256
            for the paper's large model.
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentation: Augmentation | None = None,
        temperature: float = 0.2,
        model_negatives: bool = True,
        optimiser: Optimiser | None = None,
        learning_rate: float | Schedule = Cosine(),  # noqa: B008 - frozen
        ema: float = 0.998,
        batch_size: int | None = None,
    ) -> None:
        super().__init__(encoder, augmentation, optimiser, learning_rate, ema, batch_size)
        if not temperature > 0:
            raise ValueError(f"temperature must be > 0, got {temperature}")
        self.temperature, self.model_negatives = temperature, model_negatives

    def loss(self, x: Tensor, v_model: Tensor) -> Tensor:
        z_1, z_2 = self.pair(self.examples(x))
        return nt_xent(z_1, z_2, v_model if self.model_negatives else None, self.temperature)

    def pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Latents of two views of every image."""
        z_1, z_2 = self.encoder(torch.cat([self.view(x), self.view(x)])).chunk(2)
        return z_1, z_2


def nt_xent(z_1: Tensor, z_2: Tensor, further: Tensor | None, temperature: float) -> Tensor:
    """Mean of Eq. 8 over both views of n images, a scalar.

    Args:
        z_1: latents (n, d) of the first views; need not be unit vectors.
        z_2: latents (n, d) of the second views.
        further: negatives (m, d) for all of them; None for none.
        temperature: tau.
    """
    n = len(z_1)
    z = normalize(torch.cat([z_1, z_2]).float(), dim=1)
    similarity = z @ z.T
    similarity.fill_diagonal_(-torch.inf)  # a view is neither its own positive nor a negative
    if further is not None:
        similarity = torch.cat([similarity, z @ normalize(further.to(z), dim=1).T], 1)
    partner = torch.arange(2 * n, device=z.device).roll(n)
    return cross_entropy(similarity / temperature, partner)
