"""Pictures of a page, decoded: what a panel or a curve shows, read from its pixels."""

from __future__ import annotations

import base64
import html
import io
import re
from dataclasses import dataclass

import numpy as np
from matplotlib.colors import to_rgb
from PIL import Image

from coldness.report.figures import COLOURS, NOT_A_NUMBER

PICTURE = re.compile(r'(?:<source srcset="([^"]*)"[^>]*>\s*)?<img([^>]*)>')
PALETTE = (COLOURS(np.arange(255) / 254)[:, :3] * 255).round().astype(int)


@dataclass(frozen=True)
class Shown:
    """One picture of a page: its alternative text, and its PNG for light and for dark pages."""

    alt: str
    light: str
    dark: str = ""


def shown(page: str) -> list[Shown]:
    """In their order."""
    found = []
    for dark, tag in PICTURE.findall(page):
        alt, light = (re.search(rf'{name}="([^"]*)"', tag) for name in ("alt", "src"))
        assert alt is not None, tag[-200:]
        assert light is not None, tag[-200:]
        found.append(Shown(html.unescape(alt[1]), light[1], dark))
    return found


def names(page: str) -> list[str]:
    """The alternative texts of all pictures, in their order."""
    return [picture.alt for picture in shown(page)]


def named(page: str, alt: str) -> Shown:
    """The first picture with this alternative text."""
    found = [picture for picture in shown(page) if picture.alt == alt]
    assert found, (alt, names(page))
    return found[0]


def decoded(address: str) -> np.ndarray:
    """(height, width) or (height, width, channels), rows from the top."""
    head, _, body = address.partition(",")
    assert head == "data:image/png;base64"
    return np.array(Image.open(io.BytesIO(base64.b64decode(body))))


def levels_in(address: str) -> np.ndarray:
    """A panel [x, y] on its colour scale: 0 to 1, NaN where it is grey."""
    picture = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")
    return levels_of(np.array(picture, dtype=int))[::-1].T


def levels_of(colours: np.ndarray) -> np.ndarray:
    """Colours (..., 3) on the scale of panels; each has to be a colour of the scale, or grey."""
    flat = colours.reshape(-1, 3)
    unique, back = np.unique(flat, axis=0, return_inverse=True)
    distance = np.abs(unique[:, None] - PALETTE).sum(2)
    grey = (unique == NOT_A_NUMBER).all(1)
    assert (grey | (distance.min(1) <= 3)).all(), "a colour that the scale does not have"
    found = np.where(grey, np.nan, distance.argmin(1) / 254)
    return found[back.reshape(-1)].reshape(colours.shape[:-1])


def assert_panel(address: str, values: np.ndarray, low: float, high: float) -> None:
    """The panel shows these values [x, y] on a scale from low to high, of 255 colours.

    To two of them: the value is rounded, and neighbours may be the same colour in 8 bits.
    """
    expected = np.clip((values - low) / (high - low), 0, 1)
    np.testing.assert_allclose(levels_in(address), expected, atol=2 / 254)


def line_in(address: str, colour: str) -> tuple[np.ndarray, np.ndarray]:
    """Where a curve's opaque pixels of this colour are: columns, and mean heights in them.

    Both are fractions of the picture's width and height, from the left and from the bottom.
    """
    picture = decoded(address)
    wanted = [round(255 * c) for c in to_rgb(colour)]
    there = (np.abs(picture[..., :3].astype(int) - wanted) <= 2).all(2) & (picture[..., 3] > 250)
    columns = np.flatnonzero(there.any(0))
    assert len(columns), f"nothing is {colour}"
    rows = np.arange(len(picture))[:, None]
    heights = (there * rows).sum(0)[columns] / there.sum(0)[columns]
    return columns / picture.shape[1], 1 - heights / len(picture)


def rise(address: str, colour: str) -> float:
    """How much higher a curve ends than it begins, as a fraction of the picture's height."""
    x, y = line_in(address, colour)
    first, last = x.min(), x.max()
    fifth = (last - first) / 5
    return float(y[x >= last - fifth].mean() - y[x <= first + fifth].mean())
