"""Images as tiles of one picture, pixel for pixel.

    colour = round(127.5 (x + 1)),   x clipped to [-1, 1]

Chains are never clamped, so that their pixels may lie beyond; they are clipped here, for the
picture only, and the share of them is noted. A pixel that is not finite is magenta. Every pixel of
an image becomes a block of equal ones, gaps are transparent: both pages, light and dark, show the
same file.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from coldness.report.figures import Array, address_of

Pixels = NDArray[np.uint8]

NOT_FINITE = (255, 0, 255)
"""Magenta: neither grey images nor natural ones have much of it."""

BEYOND = 0.001
"""A share of pixels outside of [-1, 1] below this is not worth a note."""

SHARP = 200
"""Pictures are enlarged, by a whole number, until their longer side has so many pixels."""

GRID_PIXELS, GRID_TILES = 320, (3, 8)
"""A grid has so many pixels of images a side, within these numbers of tiles."""


@dataclass(frozen=True)
class Tiles:
    """One picture of many, rows of tiles from the top left.

    Args:
        name: what they are of.
        pixels: (height, width, 4), red, green, blue and opacity, not enlarged.
        note: what to say below them.
    """

    name: str
    pixels: Pixels
    note: str = ""

    @property
    def factor(self) -> int:
        return max(1, -(-SHARP // max(self.pixels.shape[:2])))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the file."""
        return self.pixels.shape[1] * self.factor, self.pixels.shape[0] * self.factor

    @cached_property
    def address(self) -> str:
        """As a data address, enlarged."""
        enlarged = self.pixels.repeat(self.factor, 0).repeat(self.factor, 1)
        file = io.BytesIO()
        Image.fromarray(enlarged).save(file, "png", optimize=True)
        return address_of(file)


def tiles(name: str, x: Array | Pixels, columns: int) -> Tiles:
    """Images x (n, C, H, W) in rows of so many; the last row may be short.

    Floats are values in [-1, 1], bytes are colours. With three channels or more the first three are
    red, green and blue, else the first is grey.
    """
    shown = colours(x)
    n, height, width, _ = shown.shape
    columns = min(columns, n)
    gap = gap_of(height, width)
    rows = -(-n // columns)
    whole = np.zeros((rows * (height + gap) - gap, columns * (width + gap) - gap, 4), np.uint8)
    for k, image in enumerate(shown):
        top, left = k // columns * (height + gap), k % columns * (width + gap)
        whole[top : top + height, left : left + width, :3] = image
        whole[top : top + height, left : left + width, 3] = 255
    return Tiles(name, whole, note_on(x))


def square(name: str, x: Array | Pixels, most: int = GRID_TILES[1]) -> Tiles:
    """The first of x (n, C, H, W), as many a row as there are rows."""
    side = side_of(x, most)
    return tiles(name, x[: side**2], side)


def side_of(x: Array | Pixels, most: int = GRID_TILES[1]) -> int:
    """Tiles a side: fewer of large images, and no more than there are images for."""
    fits = GRID_PIXELS // max(x.shape[2:])
    return max(1, min(max(fits, GRID_TILES[0]), most, math.isqrt(len(x))))


def gap_of(height: int, width: int) -> int:
    """Pixels between tiles."""
    return 1 if max(height, width) < 16 else 2


def colours(x: Array | Pixels) -> Pixels:
    """Images (n, C, H, W) as colours (n, H, W, 3)."""
    x = x[:, :3] if x.shape[1] >= 3 else x[:, :1].repeat(3, 1)
    x = x.transpose(0, 2, 3, 1)
    if x.dtype == np.uint8:
        return x.astype(np.uint8)
    finite = np.isfinite(x)
    shown = np.round(127.5 * (np.clip(np.where(finite, x, 0), -1, 1) + 1)).astype(np.uint8)
    shown[~finite.all(-1)] = NOT_FINITE
    return shown


def note_on(x: Array | Pixels) -> str:
    """On what of x cannot be shown as it is."""
    if x.dtype == np.uint8:
        return ""
    lost = int((~np.isfinite(x).reshape(len(x), -1).all(1)).sum())
    beyond = float((np.abs(x) > 1).mean())  # False for NaN
    notes = [f"{lost} of {len(x)} not finite (magenta)"] if lost else []
    notes += [f"{beyond:.1%} of pixels clipped"] if beyond >= BEYOND else []
    return ", ".join(notes)
