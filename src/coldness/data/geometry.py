"""Random affine maps of images: rotation, shear, size and position.

    output at p  =  input at M^-1 (p - t),     M = s R(angle) [1, tan(shear); 0, 1]

p is the position relative to the centre, in pixels, to the right and upwards. Values between pixels
are interpolated bilinearly, and pixels from outside of the image repeat its border. For digits,
which must not be mirrored, small maps take the place of flips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from coldness.data.augmentation import (
    Augmentation,
    check_probability,
    check_range,
    some,
    uniform,
)


@dataclass(frozen=True)
class Affine(Augmentation):
    """Rotates, shears, resizes and shifts images. Every number is uniform on its range.

    Args:
        degrees: [low, high] of the angle, counter-clockwise.
        translate: [low, high] of the shift to the right and, drawn separately, downwards, as
            fractions of the width and the height.
        scale: [low, high] of the factor on the size, > 0.
        shear: [low, high] of the angle, in degrees, that vertical lines are tilted by, in
            (-90, 90).
        p: probability of changing an image, in [0, 1].
        vertical: [low, high] of the shift downwards; None for that of `translate`.
    """

    degrees: tuple[float, float] = (-10.0, 10.0)
    translate: tuple[float, float] = (-0.1, 0.1)
    scale: tuple[float, float] = (0.9, 1.1)
    shear: tuple[float, float] = (0.0, 0.0)
    p: float = 1.0
    vertical: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_range("degrees", self.degrees)
        check_range("translate", self.translate)
        check_range("vertical", self.vertical or self.translate)
        check_range("scale", self.scale, above=0)
        check_range("shear", self.shear, above=-90)
        if self.shear[1] >= 90:
            raise ValueError(f"shear must be below 90 degrees, got {list(self.shear)}")
        check_probability(self.p)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        height, width = x.shape[2:]

        def draw(limits: tuple[float, float], factor: float = 1.0) -> Tensor:
            low, high = limits
            return uniform(factor * low, factor * high, x, generator)[:, 0]  # (B, 1, 1)

        angle = draw(self.degrees, math.pi / 180)
        right = draw(self.translate, width)
        down = draw(self.translate if self.vertical is None else self.vertical, height)
        scale, tilt = draw(self.scale), draw(self.shear, math.pi / 180).tan()
        # The inverse map, of output pixels to places in the input; rows count downwards.
        across = _centred(width, x)[None, None, :] - right
        below = _centred(height, x)[None, :, None] - down
        cos, sin = angle.cos(), angle.sin()
        turned_x, turned_y = cos * across - sin * below, sin * across + cos * below
        place_x, place_y = (turned_x + tilt * turned_y) / scale, turned_y / scale
        grid = torch.stack([2 * place_x / width, 2 * place_y / height], dim=-1)
        with torch.autocast(x.device.type, enabled=False):
            y = grid_sample(x, grid, padding_mode="border", align_corners=False)
        return some(self.p, y, x, generator)


def _centred(size: int, x: Tensor) -> Tensor:
    """Positions of pixels relative to the middle of a side, (size,)."""
    return torch.arange(size, device=x.device, dtype=x.dtype) - (size - 1) / 2
