"""Random Gaussian blur of images.

    y = sum over i, j of w_i w_j x shifted by (i, j),     w_i ~ exp(-i^2 / 2 sigma^2)

The width sigma is uniform on a range, and drawn for each image. Images are padded by reflection.
The kernel is separable: one pass over rows and one over columns, each a sum over the shifts.

References:
    A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020),
    Appendix A: kernels of a tenth of the image, sigma from 0.1 to 2, probability 1/2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor
from torch.nn.functional import pad

from coldness.data.augmentation import (
    Augmentation,
    check_probability,
    check_range,
    some,
    uniform,
)


@dataclass(frozen=True)
class Blur(Augmentation):
    """Blurs images with a Gaussian kernel. Values stay within those of the image.

    Args:
        kernel: side of the kernel in pixels, odd; half of it must fit into the image.
        sigma: [low, high] of the kernel's standard deviation in pixels, > 0.
        p: probability of changing an image, in [0, 1].
    """

    kernel: int = 3
    sigma: tuple[float, float] = (0.1, 2.0)
    p: float = 0.5

    def __post_init__(self) -> None:
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd and >= 1, got {self.kernel}")
        check_range("sigma", self.sigma, above=0)
        check_probability(self.p)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        height, width = x.shape[2:]
        reach = self.kernel // 2
        if reach >= min(height, width):
            raise ValueError(
                f"kernel must be smaller than twice the sides of the images, "
                f"got {self.kernel} for {height} x {width}"
            )
        sigma = uniform(*self.sigma, x, generator)
        shifts = torch.arange(-reach, reach + 1, device=x.device, dtype=x.dtype)
        w = (-(shifts**2) / (2 * sigma**2)).softmax(-1)  # (B, 1, 1, kernel)
        y = pad(x, (reach, reach, reach, reach), mode="reflect")
        y = _total(w[..., k : k + 1] * y[:, :, k : k + height] for k in range(self.kernel))
        y = _total(w[..., k : k + 1] * y[..., k : k + width] for k in range(self.kernel))
        return some(self.p, y, x, generator)


def _total(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)
