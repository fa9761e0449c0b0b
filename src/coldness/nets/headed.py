"""A frozen encoder with a new head: the features stay as they are, and the head learns.

    h(x) = head(features(x)),     features of the frozen encoder, head as in encoder.py

The frozen encoder stays in eval mode when the whole is set to train mode, so that its batch norm
keeps its statistics, and its parameters have no gradients. Its own head is not used.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix C: a
    two-layer head on a pretrained masked autoencoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from torch import Tensor, nn

from coldness.nets.encoder import Encoder


class Headed(Encoder):
    """A frozen encoder with a new head that learns.

    Args:
        encoder: whose features are used; it standardises the input.
        latent: d, the dimension of the latent vector.
        hidden: width of the hidden layer of the head.
        shape: of images (C, H, W); None to take it from the data.
    Shapes: x (B, C, H, W), features (B, F) as of the encoder, result (B, d).
    """

    def __init__(
        self,
        encoder: Encoder,
        latent: int = 128,
        hidden: int = 2048,
        shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__(latent, hidden)
        self.encoder = encoder
        if shape is not None:
            self.build(shape)

    def layers(self, shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
        self.encoder.build(shape)
        self.encoder.eval().requires_grad_(False)
        return nn.Sequential(), self.encoder.feature_count

    def features(self, x: Tensor) -> Tensor:
        if self.shape is None:
            raise ValueError("the encoder has no layers yet: call build(shape)")
        return self.encoder.features(x)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self.encoder.eval()
        return self
