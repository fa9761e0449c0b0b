"""Augmentations: random changes of images that preserve what they show.

An augmentation is a frozen dataclass. It is a function of a batch (B, C, H, W) and a generator,
which is its only source of randomness and is on the device of the images. Every image has its own
random numbers. Images are floats in the units of the model, [-1, 1]; augmentations that only move
pixels also work on bytes. They serve training data, the views of encoders, and transitions inside
chains (chains/source.py).

They are written here because kornia takes no generator and is slower. Processor milliseconds for
64 x 3 x 32 x 32 on one thread (version 2.13 of torch, the best of 40 rounds of five calls):

                                       here   kornia 0.9.0   kornia 0.6.3
    CropFlip                           0.25       1.5            3.7
    Flip                               0.16       0.24           0.64
    ResizedCrop, bicubic               1.5        3.8            4.0
    ResizedCrop, bilinear              1.2        2.9            2.8
    ColourJitter                       1.7        5.5            8.5
    Grey                               0.20       0.33           0.31
    Blur, kernel 3                     0.54       1.0            2.2
    Affine                             1.0        2.0            2.3
    crop, jitter, grey and flip        4.1       11.6           13.2
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


class Augmentation(ABC):
    """A random change of images, independent for each image of a batch."""

    @property
    def moves_pixels(self) -> bool:
        """Whether pixels are moved and never changed in value, so that images may be bytes."""
        return False

    @abstractmethod
    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Returns changed images with the shape and dtype of x (B, C, H, W); x is not modified.

        Args:
            x: images, floats in [-1, 1], or bytes if the augmentation `moves_pixels`.
            generator: random number generator, on the device of x.
        """

    def _check(self, x: Tensor) -> None:
        """Raises ValueError for anything but images of a type that can be changed."""
        name = type(self).__name__
        if x.dim() != 4:
            raise ValueError(f"{name} needs images (B, C, H, W), got shape {tuple(x.shape)}")
        if not (self.moves_pixels or x.is_floating_point()):
            raise ValueError(f"{name} needs images as floats in [-1, 1], got {x.dtype}")


@dataclass(frozen=True)
class Compose(Augmentation):
    """Several augmentations, one after the other.

    Args:
        parts: the augmentations, in their order.
    """

    parts: Sequence[Augmentation]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("parts must name at least one augmentation")
        object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def moves_pixels(self) -> bool:
        return all(part.moves_pixels for part in self.parts)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        for part in self.parts:
            x = part(x, generator)
        return x


@dataclass(frozen=True)
class Flip(Augmentation):
    """Mirrors images left to right.

    Args:
        p: probability of mirroring an image, in [0, 1].
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        check_probability(self.p)

    @property
    def moves_pixels(self) -> bool:
        return True

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        return some(self.p, x.flip(3), x, generator)


@dataclass(frozen=True)
class CropFlip(Augmentation):
    """Pads images by reflection, crops them at random to the old size, and mirrors half of them.

    It is implemented as one lookup.

    References:
        Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), reference code:
        padding 4 at 32 x 32; no flip for house numbers.
    Args:
        padding: number of pixels on every side, >= 0; the corner of the crop is uniform on
            0 ... 2 padding in both directions.
        flip: whether to mirror images left to right with probability 1/2.
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"padding must be >= 0, got {self.padding}")

    @property
    def moves_pixels(self) -> bool:
        return True

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        count, channels, height, width = x.shape
        if self.padding >= min(height, width):
            raise ValueError(
                f"padding must be smaller than the sides of the images, "
                f"got {self.padding} for {height} x {width}"
            )
        rows = self._lines(count, height, x.device, generator)
        columns = self._lines(count, width, x.device, generator)
        if self.flip:
            flipped = torch.rand(count, 1, generator=generator, device=x.device) < 0.5
            columns = torch.where(flipped, columns.flip(1), columns)
        pixels = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)[:, None]
        return x.flatten(2).gather(2, pixels.expand(-1, channels, -1)).reshape(x.shape)

    def _lines(
        self, count: int, size: int, device: torch.device, generator: torch.Generator
    ) -> Tensor:
        """Returns the indices of the rows or columns that each crop shows, (count, size)."""
        corners = 2 * self.padding + 1
        corner = torch.randint(corners, (count, 1), generator=generator, device=device)
        lines = (corner - self.padding + torch.arange(size, device=device)).abs()
        return torch.where(lines < size, lines, 2 * (size - 1) - lines)


def some(p: float, changed: Tensor, x: Tensor, generator: torch.Generator) -> Tensor:
    """Returns the changed images, each with probability p, and the others as they were."""
    chosen = torch.rand(len(x), 1, 1, 1, generator=generator, device=x.device) < p
    return torch.where(chosen, changed, x)


def uniform(low: float, high: float, x: Tensor, generator: torch.Generator) -> Tensor:
    """Draws one number per image, (B, 1, 1, 1), with the dtype of x."""
    u = torch.rand(len(x), 1, 1, 1, generator=generator, device=x.device)
    return low + (high - low) * u.to(x.dtype)


def check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"p must be a probability in [0, 1], got {p}")


def check_range(name: str, limits: tuple[float, float], above: float | None = None) -> None:
    """Raises ValueError unless limits are [low, high] with low <= high, and low > above."""
    low, high = limits
    if not (low <= high and (above is None or low > above)):
        least = "" if above is None else f"{above:g} < "
        raise ValueError(f"{name} must be [low, high] with {least}low <= high, got {list(limits)}")
