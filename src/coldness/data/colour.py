"""Random changes of colour, for images in [-1, 1].

Definitions are on the scale u = (x + 1) / 2 in [0, 1], in this order:

    brightness    u + b                 b uniform on +-brightness
    contrast      a u                   a uniform on 1 +- contrast, without a mean
    saturation    S -> min(1, f S)      f uniform on 1 +- saturation, in HSV
    hue           H -> H + r            r uniform on +-hue, in turns of the colour circle

Results are cut to [0, 1] after brightness and after contrast; saturation and hue cannot leave it.
Brightness that is added and contrast that scales without a mean are those of kornia 0.6.3, which
the reference code of CLEL uses. torchvision multiplies for brightness, scales about the mean grey
for contrast, and blends with grey for saturation; the views differ.

kornia draws one order of the four for a whole batch. Here the order is fixed: images of a batch
then have nothing in common, and nothing is copied to the host. Saturation and hue commute, and both
commute with contrast where nothing is cut; only the place of brightness makes a difference.

References:
    A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020),
    Appendix A (the use of jitter and grey images).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.data.augmentation import Augmentation, check_probability, some, uniform

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the grey value (ITU-R BT.601)."""


@dataclass(frozen=True)
class ColourJitter(Augmentation):
    """Changes brightness, contrast, saturation and hue. Images with one channel have no colour:
    only their brightness and contrast change.

    Args:
        brightness: largest change, added, on the scale [0, 1]; >= 0.
        contrast: largest relative change of the contrast, in [0, 1].
        saturation: largest relative change of the saturation, in [0, 1].
        hue: largest change of the hue, in turns, in [0, 0.5].
        p: probability of changing an image, in [0, 1].
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    p: float = 0.8

    def __post_init__(self) -> None:
        if not self.brightness >= 0:
            raise ValueError(f"brightness must be >= 0, got {self.brightness}")
        if not (0 <= self.contrast <= 1 and 0 <= self.saturation <= 1):
            raise ValueError(
                f"contrast and saturation must be in [0, 1], "
                f"got {self.contrast} and {self.saturation}"
            )
        if not 0 <= self.hue <= 0.5:
            raise ValueError(f"hue must be in [0, 0.5], got {self.hue}")
        check_probability(self.p)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        channels = _channels(x, self)
        b = uniform(-self.brightness, self.brightness, x, generator)
        a = uniform(1 - self.contrast, 1 + self.contrast, x, generator)
        f = uniform(1 - self.saturation, 1 + self.saturation, x, generator)
        r = uniform(-self.hue, self.hue, x, generator)
        u = ((x + 1) / 2 + b).clamp(0, 1)
        u = (a * u).clamp(0, 1)
        if channels == 3 and (self.saturation or self.hue):
            u = with_colour(u, f, r)
        return some(self.p, 2 * u - 1, x, generator)


@dataclass(frozen=True)
class Grey(Augmentation):
    """Replaces the three channels of images by their grey value; images with one stay as they are.

    Args:
        p: probability of changing an image, in [0, 1].
    """

    p: float = 0.2

    def __post_init__(self) -> None:
        check_probability(self.p)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self._check(x)
        grey = x
        if _channels(x, self) == 3:
            red, green, blue = (w * x[:, k : k + 1] for k, w in enumerate(LUMA))
            grey = (red + green + blue).expand_as(x)
        return some(self.p, grey, x, generator)


def with_colour(u: Tensor, saturation: Tensor, turn: Tensor) -> Tensor:
    """Scales the saturation and turns the hue of images u (B, 3, H, W) in [0, 1].

    With V the largest channel, C = V - the smallest, and the hue H in sixths of a turn, the
    channels are

        V - C max(0, min(k, 4 - k, 1)),     k = (n + H) mod 6,  n = 5, 3, 1 for red, green, blue

    The saturation is S = C / V, so C is scaled and cut to V.

    Args:
        u: images.
        saturation: factors (B, 1, 1, 1), >= 0.
        turn: turns of the hue (B, 1, 1, 1).
    """
    red, green, blue = u.unbind(1)
    v, low = u.amax(1), u.amin(1)
    chroma = v - low
    safe = torch.where(chroma == 0, 1, chroma)
    sixths = torch.where(
        v == red,
        (green - blue) / safe,
        torch.where(v == green, 2 + (blue - red) / safe, 4 + (red - green) / safe),
    )
    sixths = sixths + 6 * turn[:, 0]
    chroma = torch.minimum(saturation[:, 0] * chroma, v)
    n = torch.tensor([5.0, 3.0, 1.0], dtype=u.dtype, device=u.device).reshape(1, 3, 1, 1)
    k = n + sixths[:, None]
    k = k - 6 * (k / 6).floor()  # remainder(6), which is ten times slower
    return v[:, None] - chroma[:, None] * torch.minimum(k, 4 - k).clamp(0, 1)


def _channels(x: Tensor, part: Augmentation) -> int:
    channels = x.shape[1]
    if channels not in (1, 3):
        raise ValueError(f"{type(part).__name__} needs images with 1 or 3 channels, got {channels}")
    return channels
