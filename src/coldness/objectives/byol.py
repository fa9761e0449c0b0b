"""BYOL: an encoder that predicts its own moving average, without negatives.

    L = 1/2n sum_i sum_{j=1,2} |q(z_j^i) - sg(z'_{3-j}^i)|^2     of unit vectors     (BYOL, Eq. 2)

z is the online encoder's latent, z' that of the target network, an average of the encoder whose
momentum rises from its base to 1 along half a cosine, and q a predictor of two layers with batch
norm. The latents that guide the energy, and the encoder that the model keeps, are the target's.

References:
    Bootstrap Your Own Latent: A New Approach to Self-Supervised Learning (Grill et al., 2020),
    Eqs. 1 and 2, section 3.2 for the momentum.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix C.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from coldness.data.augmentation import Augmentation
from coldness.nets import Encoder
from coldness.objectives.teachers import LearningTeacher, Optimiser
from coldness.schedules import Cosine, Schedule


class BYOL(LearningTeacher):
    """An encoder without negatives.

    Args:
        encoder: h with its projection head, a network that maps images to latents.
        augmentation: T, for two views of an image, and a third that guides; None for none.
        hidden: width of the predictor.
        momentum: of the target network at the beginning, in [0, 1).
        optimiser: of encoder and predictor, by class name with its arguments; None for SGD with
            rate 0.03, momentum 0.9 and weight decay 5e-4.
        learning_rate: factor on the optimiser's own rate, a number or a schedule over training.
        batch_size: examples per iteration that it learns from; None for those of the contrast.
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentation: Augmentation | None = None,
        hidden: int = 2048,
        momentum: float = 0.99,
        optimiser: Optimiser | None = None,
        learning_rate: float | Schedule = Cosine(),  # noqa: B008 - frozen
        batch_size: int | None = None,
    ) -> None:
        super().__init__(encoder, augmentation, optimiser, learning_rate, momentum, batch_size)
        self.hidden, self.momentum = hidden, momentum
        self.both = nn.ModuleList([encoder])

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        d = self.encoder.latent
        predictor = nn.Sequential(
            nn.Linear(d, self.hidden), nn.BatchNorm1d(self.hidden), nn.ReLU(),
            nn.Linear(self.hidden, d),
        )  # fmt: skip
        self.both = nn.ModuleList([self.encoder, predictor])

    def network(self) -> nn.Module:
        return self.both

    def loss(self, x: Tensor, v_model: Tensor) -> Tensor:
        x = self.examples(x)
        views = torch.cat([self.view(x), self.view(x)])
        predicted = normalize(self.both[1](self.encoder(views)).float(), dim=1)
        with torch.no_grad():
            other = normalize(self.average(views).float(), dim=1).roll(len(x), 0)
        return (2 - 2 * (predicted * other).sum(1)).mean()

    def target(self, x: Tensor) -> Tensor:
        return normalize(self.average(x), dim=1)

    @torch.no_grad()
    def follow(self, t: int, n: int) -> None:
        """Moves the target; its batch norm has statistics of its own."""
        momentum = 1 - (1 - self.momentum) * (math.cos(math.pi * t / max(1, n)) + 1) / 2
        averages, own = list(self.average.parameters()), list(self.encoder.parameters())
        torch._foreach_lerp_(averages, own, 1 - momentum)  # type: ignore[arg-type]
