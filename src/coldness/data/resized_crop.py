"""Random crops that are enlarged to the size of the image.

A crop is a box of whole pixels, drawn as by torchvision's RandomResizedCrop: an area uniform on
`scale` times that of the image, an aspect ratio log-uniform on `ratio`, both sides rounded; a box
that does not fit is drawn again. After ten failures it is the largest central box whose ratio is
allowed. All ten attempts of all images are drawn at once, and each image takes its first box that
fits. This gives the same law, costs 20 numbers per image, and needs no loop.

The box is enlarged by interpolation, which is separable and linear in the image:

    y = R x C^T

The matrices R (H, H) and C (W, W) hold the weights that each row and each column of y gives to
those of x; lines beyond the edge of the box repeat its edge. So the result is that of cutting the
box out and resizing it (torch.nn.functional.interpolate). Two matrix products for the batch take
less time than an affine grid_sample, which also reads pixels beyond the box: 64 images with three
channels take 1.5 and 3.8 ms at 32 x 32, 6.5 and 11 ms at 64 x 64, 40 and 36 ms at 128 x 128
(grid_sample as in kornia 0.9.0; augmentation.py has more figures).

References:
    Going Deeper with Convolutions (Szegedy et al., 2014), section 6 (areas and ratios).
    Improved Contrastive Divergence Training of Energy-Based Models (Du et al., 2021) and Guiding
    Energy-based Models via Contrastive Latent Variables (Lee et al., 2023): as a transition in
    chains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coldness.data.augmentation import Augmentation, check_range

ATTEMPTS = 10
"""Number of boxes that are tried before the central one, as in torchvision."""

CUBIC = -0.75
"""Parameter of the cubic kernel, as in torch.nn.functional.interpolate; -0.5 in Pillow."""

Boxes = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class ResizedCrop(Augmentation):
    """Cuts out a random box of each image and enlarges it to the size of the image.

    Values stay within those of the image: cubic interpolation, which overshoots at edges, is cut to
    the image's own smallest and largest value.

    Args:
        scale: [low, high] of the area of the box as a fraction of the image, in (0, 1].
        ratio: [low, high] of the width of the box divided by its height, > 0.
        interpolation: `bicubic` or `bilinear`.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"

    def __post_init__(self) -> None:
        check_range("scale", self.scale, above=0)
        check_range("ratio", self.ratio, above=0)
        if self.scale[1] > 1:
            raise ValueError(f"scale must not exceed 1, the whole image, got {list(self.scale)}")
        if self.interpolation not in ("bicubic", "bilinear"):
            raise ValueError(f"interpolation must be bicubic or bilinear, got {self.interpolation}")

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        count, _, height, width = x.shape
        top, left, h, w = self.boxes(count, height, width, generator)
        rows = self._weights(top.to(x.dtype), h.to(x.dtype), height)
        columns = self._weights(left.to(x.dtype), w.to(x.dtype), width)
        with torch.autocast(x.device.type, enabled=False):  # bfloat16 would blur pixel values
            y = rows[:, None] @ (x.flatten(1, 2) @ columns.mT).reshape(x.shape)
        return y.clamp(x.amin((1, 2, 3), keepdim=True), x.amax((1, 2, 3), keepdim=True))

    def boxes(self, count: int, height: int, width: int, generator: torch.Generator) -> Boxes:
        """Draws boxes: whole numbers top, left, height and width, each (count,) in float32."""

        def draw(low: float, high: float) -> Tensor:
            shape = (count, ATTEMPTS)
            u = torch.rand(shape, generator=generator, device=generator.device)
            return low + (high - low) * u

        area = draw(*self.scale) * (height * width)
        ratio = draw(*map(math.log, self.ratio)).exp()
        w, h = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
        fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
        first = fits & (fits.cumsum(1) == 1)
        central_h, central_w = self._central(height, width)
        none = ~fits.any(1)
        h = torch.where(none, central_h, (h * first).sum(1))
        w = torch.where(none, central_w, (w * first).sum(1))
        u = torch.rand((2, count), generator=generator, device=generator.device)
        top, left = (u[0] * (height - h + 1)).floor(), (u[1] * (width - w + 1)).floor()
        top = torch.where(none, (height - central_h) // 2, top.minimum(height - h))
        left = torch.where(none, (width - central_w) // 2, left.minimum(width - w))
        return top, left, h, w

    def _central(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the largest central box with an allowed ratio."""
        low, high = self.ratio
        if width / height < low:
            return max(1, round(width / low)), width
        if width / height > high:
            return height, max(1, round(height * high))
        return height, width

    def _weights(self, first: Tensor, length: Tensor, size: int) -> Tensor:
        """Matrices (B, size, size) that enlarge `length` lines, from line `first` on, to `size`."""
        lines = torch.arange(size, device=first.device, dtype=first.dtype)
        at = first[:, None] + (lines + 0.5) * (length / size)[:, None] - 0.5
        last, first = (first + length - 1)[:, None], first[:, None]
        weights = at.new_zeros((*at.shape, size))
        for k in (-1, 0, 1, 2):  # one line at a time: sums have the same order on every device
            line = at.floor() + k
            weight = self._kernel((at - line).abs())
            line = line.clamp(first, last).long()
            weights.scatter_add_(2, line[..., None], weight[..., None])
        return weights

    def _kernel(self, d: Tensor) -> Tensor:
        """Weight of a line at distance d in [0, 2]."""
        if self.interpolation == "bilinear":
            return (1 - d).clamp(min=0)
        near = ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1
        far = CUBIC * (((d - 5) * d + 8) * d - 4)
        return torch.where(d <= 1, near, far)
