"""A pretrained, frozen encoder with a new head that learns: the masked autoencoder of CLEL.

    z = head(features(x)) / |head(features(x))|        features frozen, a head of two layers

The head learns by Eq. 13, the loss of SimCLR with the model's latents as further negatives, without
augmentations: both views of an image are the image itself. Its positive pair is then always
aligned, and the loss only spreads different images, and samples of the model, over the sphere.

Not to be confused with Frozen, whose encoder has the head that it was saved with, nor with Masked,
the loss that such an encoder is pretrained with. Any encoder that was saved can be used here; that
of a masked autoencoder (`coldness pretrain pretrain/digits-mae`) has features and no head of use.

References:
    Masked Autoencoders Are Scalable Vision Learners (He et al., 2022).
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Eq. 13, Table 7
    and appendix C.
"""

from __future__ import annotations

from torch import Tensor

from coldness.data.base import Data
from coldness.nets import Headed
from coldness.objectives.frozen import load_encoder
from coldness.objectives.simclr import SimCLR
from coldness.objectives.teachers import Optimiser
from coldness.schedules import Cosine, Schedule


class MAE(SimCLR):
    """A new head on a frozen encoder, such as that of a masked autoencoder.

    Args:
        path: folder of `coldness pretrain`, or of a run or model with an encoder.
        latent: d, the dimension of the latent vector.
        hidden: width of the hidden layer of the head.
        temperature: tau, > 0.
        model_negatives: whether latents of the model's samples are negatives too.
        optimiser: of the head, by class name with its arguments; None for SGD with rate 0.03,
            momentum 0.9 and weight decay 5e-4.
        learning_rate: factor on the optimiser's own rate, a number or a schedule over training.
        ema: decay of the moving average of the head, which the model keeps, in [0, 1).
        batch_size: examples per iteration that it learns from; None for those of the contrast.
    """

    def __init__(
        self,
        path: str,
        latent: int = 128,
        hidden: int = 2048,
        temperature: float = 0.2,
        model_negatives: bool = True,
        optimiser: Optimiser | None = None,
        learning_rate: float | Schedule = Cosine(),  # noqa: B008 - frozen
        ema: float = 0.998,
        batch_size: int | None = None,
    ) -> None:
        self.path, self.frozen = path, load_encoder(path)
        encoder = Headed(self.frozen, latent, hidden)
        super().__init__(
            encoder, None, temperature, model_negatives, optimiser, learning_rate, ema, batch_size
        )

    def check(self, latent: int, data: Data) -> None:
        super().check(latent, data)
        self.frozen.build(data.domain.shape)  # raises ValueError for images of another shape

    def pair(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(x)
        return z, z
