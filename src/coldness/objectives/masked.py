"""Masked autoencoder: an encoder that learns to complete images of which it sees a few patches.

    L = 1/|M| sum_{i in M} 1/P |g(f(x_V))_i - t_i|^2           M masked patches, V visible ones

Of N patches, |M| = round(mask N) are masked, others in every image and at every call. The encoder f
sees the visible patches only. The decoder g, a small transformer, gets their representations and a
learned token in place of each masked patch, both with positions, and predicts P pixels per patch.
The loss is the mean squared error over masked patches alone; predictions of visible patches have no
effect. Targets t_i are pixels of the standardised image, or, with `normalise`, of each patch
standardised by its own mean and standard deviation.

After training the decoder is dropped. The features of the encoder are the mean over all patches.

References:
    Masked Autoencoders Are Scalable Vision Learners (He et al., 2022), section 3 and appendix A.1.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix C.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import torch
from torch import Tensor, nn

from coldness.data.augmentation import Augmentation
from coldness.data.base import Data
from coldness.nets import Encoder
from coldness.nets.encoder import Patched
from coldness.nets.vit import Block, initialise, sines
from coldness.objectives.base import Batch
from coldness.objectives.teachers import LearningTeacher, Optimiser
from coldness.schedules import Cosine, Schedule

LEAST_VARIANCE = 1e-6
"""Added to the variance of a patch, for patches of one colour."""


class MaskedAutoencoder(nn.Module):
    """An encoder, and the decoder that it is trained with.

    Args:
        encoder: built for the images, with patches; it is used in place.
        decoder_width: of the decoder; a multiple of 4 and of `decoder_heads`.
        decoder_depth: number of transformer blocks of the decoder.
        decoder_heads: of its attention.
        mask: fraction of patches that are masked, in (0, 1).
        normalise: predict each patch standardised by its own mean and standard deviation.
    Shapes: x (B, C, H, W), order (B, N), predictions (B, N, P), loss a scalar.
    """

    positions: Tensor

    def __init__(
        self,
        encoder: Encoder,
        decoder_width: int = 128,
        decoder_depth: int = 2,
        decoder_heads: int = 4,
        mask: float = 0.75,
        normalise: bool = False,
    ) -> None:
        super().__init__()
        _check_decoder(decoder_width, decoder_depth, decoder_heads, mask)
        self.encoder, self.normalise = encoder, normalise
        with torch.no_grad():
            own = next(encoder.parameters())
            x = torch.zeros(1, *(encoder.shape or ())).to(own)
            (_, count, width), pixels = self._patched().embed(x).shape, self._targets(x).shape[2]
        self.masked = round(mask * count)
        if not 0 < self.masked < count:
            raise ValueError(
                f"mask {mask:g} masks {self.masked} of {count} patches: some must be masked, and "
                "some visible"
            )
        self.visible = count - self.masked
        self.into = nn.Linear(width, decoder_width)
        self.token = nn.Parameter(0.02 * torch.randn(decoder_width))
        self.blocks = nn.Sequential(
            *(Block(decoder_width, decoder_heads) for _ in range(decoder_depth))
        )
        self.out = nn.Sequential(nn.LayerNorm(decoder_width), nn.Linear(decoder_width, pixels))
        self.register_buffer("positions", sines(*self._patched().grid, decoder_width))
        for part in (self.into, self.blocks, self.out):
            initialise(part)

    def forward(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The loss, with masks of these random numbers."""
        return self.loss(x, self.order(len(x), generator))

    def order(self, count: int, generator: torch.Generator) -> Tensor:
        """Patches (count, N) in random order; the first `visible` of each row are visible."""
        shape = (count, self.visible + self.masked)
        return torch.rand(shape, generator=generator, device=generator.device).argsort(1)

    def loss(self, x: Tensor, order: Tensor) -> Tensor:
        """Mean squared error of the masked patches."""
        errors = (self.predictions(x, order) - self._targets(x)).square().mean(2)
        return errors.gather(1, order[:, self.visible :]).mean()

    def predictions(self, x: Tensor, order: Tensor) -> Tensor:
        """Pixels of all patches, from the visible ones."""
        patched = self._patched()
        seen = order[:, : self.visible, None]
        tokens = patched.embed(x)
        tokens = tokens.gather(1, seen.expand(-1, -1, tokens.shape[2]))
        known = self.into(patched.encode(tokens))
        masked = self.token.to(known.dtype).expand(len(x), self.masked, -1)
        back = order.argsort(1)[:, :, None].expand(-1, -1, known.shape[2])
        t = torch.cat([known, masked], 1).gather(1, back) + self.positions
        predicted = self.out(self.blocks(t))
        return predicted.to(torch.promote_types(predicted.dtype, torch.float32))

    def _targets(self, x: Tensor) -> Tensor:
        t = self._patched().patches(x)
        if not self.normalise:
            return t
        variance, mean = torch.var_mean(t, 2, keepdim=True)
        return (t - mean) / (variance + LEAST_VARIANCE).sqrt()

    def _patched(self) -> Patched:
        if self.encoder.patched is None:
            raise ValueError(needs_patches(self.encoder))
        return self.encoder.patched


class Masked(LearningTeacher):
    """A masked autoencoder, for `coldness pretrain`; the head of its encoder does not learn.

    Args:
        encoder: a network with patches, such as ViTEncoder.
        mask: fraction of patches that are masked, in (0, 1).
        decoder_width: of the decoder; a multiple of 4 and of `decoder_heads`.
        decoder_depth: number of transformer blocks of the decoder.
        decoder_heads: of its attention.
        normalise: predict each patch standardised by its own mean and standard deviation.
        augmentation: of the images; None for none.
        optimiser: of encoder and decoder, by class name with its arguments; None for AdamW with
            rate 1.5e-4, betas 0.9 and 0.95 and weight decay 0.05, the paper's for batches of 256.
        learning_rate: factor on the optimiser's own rate, a number or a schedule over training.
        ema: decay of a moving average of the encoder, which is kept, in [0, 1); 0 for none.
    """

    def __init__(
        self,
        encoder: Encoder,
        mask: float = 0.75,
        decoder_width: int = 128,
        decoder_depth: int = 2,
        decoder_heads: int = 4,
        normalise: bool = False,
        augmentation: Augmentation | None = None,
        optimiser: Optimiser | None = None,
        learning_rate: float | Schedule = Cosine(),  # noqa: B008 - frozen
        ema: float = 0.0,
    ) -> None:
        super().__init__(encoder, augmentation, optimiser or _as_in_the_paper, learning_rate, ema)
        _check_decoder(decoder_width, decoder_depth, decoder_heads, mask)
        self.mask, self.normalise = mask, normalise
        self.decoder_width, self.decoder_depth = decoder_width, decoder_depth
        self.decoder_heads = decoder_heads

    def check(self, latent: int, data: Data) -> None:
        super().check(latent, data)
        if self.encoder.patched is None:
            raise ValueError(needs_patches(self.encoder))

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        self.autoencoder = MaskedAutoencoder(
            self.encoder, self.decoder_width, self.decoder_depth, self.decoder_heads, self.mask,
            self.normalise,
        )  # fmt: skip

    def network(self) -> nn.Module:
        return self.autoencoder

    def loss(self, x: Tensor, v_model: Tensor) -> Tensor:
        return self.autoencoder(self.view(self.examples(x)), self.generator)

    def lesson(self, batch: Batch) -> NoReturn:
        raise ValueError(
            "Masked cannot guide an energy, for it trains no latents: pretrain an encoder with it "
            "(coldness pretrain), then guide with MAE"
        )


def needs_patches(encoder: Encoder) -> str:
    """What is said of an encoder that has no patches."""
    return (
        f"a masked autoencoder needs an encoder with patches, such as ViTEncoder, not "
        f"{type(encoder).__name__}"
    )


def _check_decoder(width: int, depth: int, heads: int, mask: float) -> None:
    if min(depth, heads) < 1:
        raise ValueError(f"decoder_depth and decoder_heads must be >= 1, got {depth} and {heads}")
    if width < 1 or width % 4 or width % heads:
        raise ValueError(f"decoder_width must be a multiple of 4 and of decoder_heads, got {width}")
    if not 0 < mask < 1:
        raise ValueError(f"mask must be between 0 and 1, got {mask}")


def _as_in_the_paper(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1.5e-4, betas=(0.9, 0.95), weight_decay=0.05)
