"""Vision transformer as an encoder, whose parts a masked autoencoder uses.

    patches    x -> (B, N, C p p)                       N = (H/p) (W/p) squares of p x p pixels
    embed      linear map of each patch, plus its position                    (B, N, D)
    encode     t <- t + attention(norm(t)),  t <- t + MLP(norm(t))            any subset of patches
               `depth` times, then norm
    features   mean over all patches of encode(embed(x))                      (B, D)

Positions are fixed: sines and cosines of the row and of the column, a quarter of the width each.
Since they are added before patches are left out, `encode` takes whatever patches are visible. There
is no class token; features are means over patches, which a masked autoencoder does as well with.

The default is ViT-tiny (width 192, depth 12, 3 heads) with patches of 4 x 4 on images of 32 x 32.
The paper on CLEL uses patches of 2 x 2, four times as many.

References:
    An Image is Worth 16x16 Words (Dosovitskiy et al., 2021), Eqs. 1 to 4.
    Masked Autoencoders Are Scalable Vision Learners (He et al., 2022), section 3 and appendix A.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix C.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from coldness.nets.encoder import Encoder, Patched


class ViTEncoder(Encoder):
    """Transformer over the patches of an image.

    Args:
        latent: d, the dimension of the latent vector.
        patch: p, the side of a patch.
        width: D, the dimension of a patch's representation; a multiple of 4 and of `heads`.
        depth: number of transformer blocks.
        heads: of the attention.
        hidden: width of the hidden layer of the head.
        input_mean: subtracted from the input.
        input_std: > 0, the input is divided by it. 0 and 0.5 are for images in [-1, 1].
        shape: of images (C, H, W); None to take it from the data.
    Shapes: x (B, C, H, W), H and W multiples of p; features (B, D), result (B, d).
    """

    def __init__(
        self,
        latent: int = 128,
        patch: int = 4,
        width: int = 192,
        depth: int = 12,
        heads: int = 3,
        hidden: int = 2048,
        input_mean: float = 0.0,
        input_std: float = 0.5,
        shape: Sequence[int] | None = None,
    ) -> None:
        super().__init__(latent, hidden, input_mean, input_std)
        if min(patch, depth, heads) < 1:
            raise ValueError(
                f"patch, depth and heads must be >= 1, got {patch}, {depth} and {heads}"
            )
        if width < 1 or width % 4 or width % heads:
            raise ValueError(f"width must be a multiple of 4 and of heads, got {width}")
        self.patch, self.width, self.depth, self.heads = patch, width, depth, heads
        if shape is not None:
            self.build(shape)

    def layers(self, shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
        if shape[1] % self.patch or shape[2] % self.patch:
            raise ValueError(
                f"ViTEncoder needs images whose sides are multiples of patch {self.patch}, got "
                f"{shape[1]} x {shape[2]}"
            )
        return Transformer(shape, self.patch, self.width, self.depth, self.heads), self.width

    @property
    def patched(self) -> Patched:
        return self

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self._transformer().grid

    def patches(self, x: Tensor) -> Tensor:
        """Returns the pixels of the patches (B, N, C p p) of standardised images."""
        return self._transformer().patches(self.standardised(x))

    def embed(self, x: Tensor) -> Tensor:
        """Returns the embedded patches (B, N, D), with their positions."""
        return self._transformer().embed(self.patches(x))

    def encode(self, tokens: Tensor) -> Tensor:
        """Returns the representations (B, n, D) of n <= N embedded patches."""
        return self._transformer().encode(tokens)

    def _transformer(self) -> Transformer:
        if not isinstance(self.body, Transformer):
            raise ValueError("the encoder has no layers yet: call build(shape)")
        return self.body


class Transformer(nn.Module):
    """The body of the encoder: mean representation of all patches.

    Args:
        shape: of images (C, H, W).
        patch: p.
        width: D.
        depth: number of blocks.
        heads: of the attention.
    Shapes: x (B, C, H, W), result (B, D).
    """

    positions: Tensor

    def __init__(
        self, shape: tuple[int, int, int], patch: int, width: int, depth: int, heads: int
    ) -> None:
        super().__init__()
        channels, rows, columns = shape[0], shape[1] // patch, shape[2] // patch
        self.patch, self.grid = patch, (rows, columns)
        self.embedding = nn.Linear(channels * patch**2, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("positions", sines(rows, columns, width))
        initialise(self)

    def patches(self, x: Tensor) -> Tensor:
        """(B, C, H, W) to (B, N, C p p)."""
        x = x.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch))
        return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def embed(self, patches: Tensor) -> Tensor:
        """(B, N, C p p) to (B, N, D)."""
        return self.embedding(patches) + self.positions

    def encode(self, tokens: Tensor) -> Tensor:
        """(B, n, D) to (B, n, D)."""
        return self.norm(self.blocks(tokens))

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(self.embed(self.patches(x))).mean(1)


class Block(nn.Module):
    """Attention and a two-layer perceptron, each with a norm before it and a shortcut.

    Args:
        width: D.
        heads: number of heads, a divisor of D.
    Shapes: t and result (B, n, D).
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, t: Tensor) -> Tensor:
        qkv = self.qkv(self.before(t)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, n, D / heads)
        attended = scaled_dot_product_attention(q, k, v)
        t = t + self.out(attended.transpose(1, 2).flatten(2))
        return t + self.mlp(self.between(t))


def initialise(module: nn.Module) -> None:
    """Draws the weights of all linear layers from Glorot's uniform law; biases are zero."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


def sines(rows: int, columns: int, width: int) -> Tensor:
    """Positions (rows * columns, width): sines and cosines of the row, then of the column."""
    frequencies = 10_000.0 ** -(torch.arange(width // 4, dtype=torch.float64) / (width // 4))
    row, column = torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)
    angles = [place.double()[:, None] * frequencies for place in (row, column)]
    waves = [wave for angle in angles for wave in (angle.sin(), angle.cos())]
    return torch.cat(waves, 1).float()
