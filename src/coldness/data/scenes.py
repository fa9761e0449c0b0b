"""Scenes: one coloured shape on a grey background, with a known law, drawn and rendered.

Lengths are fractions of the side of the image. Four properties are independent, and their values
have equal probabilities:

    shape       circle of radius r; square of side 1.8 r; triangle of side 2.3 r, pointing up
    colour      hue 0 (red), 60 (yellow), 120 (green) or 240 (blue) degrees
    size        r ~ U(0.14, 0.18) small;  r ~ U(0.25, 0.29) large
    position    x ~ U(1.2 r, 0.44) left;  1 - x ~ U(1.2 r, 0.44) right

All else varies without changing an attribute: y ~ U(1.2 r, 1 - 1.2 r), hue by U(-15, 15) degrees,
brightness U(0.8, 1), the grey of the background U(0.1, 0.5), and pixel noise N(0, noise^2).

The distance d of a pixel's centre from the border of the shape, in pixels and negative inside,
gives the fraction of the pixel that is covered: clamp(1/2 - d, 0, 1). It is exact for borders along
the axes, except at corners.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from coldness.data.attributes import Attributes

PROPERTIES: dict[str, tuple[str, ...]] = {
    "shape": ("circle", "square", "triangle"),
    "colour": ("red", "yellow", "green", "blue"),
    "size": ("small", "large"),
    "position": ("left", "right"),
}
NAMES = tuple(name for values in PROPERTIES.values() for name in values)

HUES = torch.tensor([0.0, 60.0, 120.0, 240.0])
HUE_RANGE = 15.0
RADII = torch.tensor([[0.14, 0.18], [0.25, 0.29]])
REACH = 1.2
"""A shape, with a margin, lies within this many radii of its centre."""
FARTHEST = 0.44
"""Largest distance of a centre from the border that it is near."""
SQUARE, TRIANGLE = 0.9, 2.3
"""Half the side of the square, and the side of the triangle, in radii."""
BRIGHTNESS, GREY = (0.8, 1.0), (0.1, 0.5)


@dataclass(frozen=True)
class Scenes:
    """What N images show.

    values: int64 (N, 4), the number of the value of every property. radius, x, y: place and size,
    fractions of the side of the image; y is measured from the top. hue: degrees. brightness, grey:
    in [0, 1]. All of the latter are (N,).
    """

    values: Tensor
    radius: Tensor
    x: Tensor
    y: Tensor
    hue: Tensor
    brightness: Tensor
    grey: Tensor

    @property
    def attributes(self) -> Attributes:
        """The true attributes of the scenes."""
        columns = [
            one_hot(self.values[:, k], len(names)) for k, names in enumerate(PROPERTIES.values())
        ]
        return Attributes(torch.cat(columns, 1).bool(), NAMES, PROPERTIES)


def draw_scenes(count: int, generator: torch.Generator, given: Sequence[str] = ()) -> Scenes:
    """Draws scenes, with their law given that they have the attributes `given`.

    Raises:
        ValueError: if an attribute is unknown, or two are values of one property.
    """
    fixed = _fixed(given)

    def uniform(low: Tensor | float, high: Tensor | float) -> Tensor:
        return low + (high - low) * torch.rand(count, generator=generator)

    values = torch.stack(
        [torch.randint(len(of), (count,), generator=generator) for of in PROPERTIES.values()], 1
    )
    for column, value in fixed.items():
        values[:, column] = value
    _, colour, size, position = values.T
    radius = uniform(*RADII[size].T)
    near = uniform(REACH * radius, FARTHEST)
    return Scenes(
        values,
        radius,
        x=torch.where(position == 0, near, 1 - near),
        y=uniform(REACH * radius, 1 - REACH * radius),
        hue=HUES[colour] + uniform(-HUE_RANGE, HUE_RANGE),
        brightness=uniform(*BRIGHTNESS),
        grey=uniform(*GREY),
    )


def render(scenes: Scenes, side: int, noise: float, generator: torch.Generator) -> Tensor:
    """Returns images uint8 (N, 3, side, side) of scenes, with Gaussian pixel noise."""
    centres = (torch.arange(side) + 0.5) / side
    right = centres[None, None, :] - scenes.x[:, None, None]
    down = centres[None, :, None] - scenes.y[:, None, None]
    distance = _distance(scenes.values[:, 0], scenes.radius[:, None, None], right, down)
    cover = (0.5 - side * distance).clamp(0, 1)[:, None]
    colour = _rgb(scenes.hue, scenes.brightness)[:, :, None, None]
    image = scenes.grey[:, None, None, None] * (1 - cover) + colour * cover
    image += noise * torch.randn(image.shape, generator=generator)
    return (255 * image).round().clamp(0, 255).byte()


def _fixed(given: Sequence[str]) -> dict[int, int]:
    """Returns the number of the given value of every property that has one."""
    for name in given:
        if name not in NAMES:
            raise ValueError(f"there is no attribute {name}; there are {', '.join(NAMES)}")
    fixed = {}
    for k, (of, names) in enumerate(PROPERTIES.items()):
        own = [name for name in names if name in given]
        if len(own) > 1:
            raise ValueError(f"{own[0]} and {own[1]} exclude each other: each is a {of}")
        if own:
            fixed[k] = names.index(own[0])
    return fixed


def _distance(shape: Tensor, radius: Tensor, right: Tensor, down: Tensor) -> Tensor:
    """Returns signed distances (N, H, W) from the border; right (N, 1, W), down (N, H, 1)."""
    circle = (right.square() + down.square()).sqrt() - radius
    square = torch.maximum(right.abs(), down.abs()) - SQUARE * radius
    side = TRIANGLE * radius
    half_height = math.sqrt(3) / 4 * side
    # The slanted sides have the normal (cos 30, -sin 30) and pass through the top (0, -height/2).
    slanted = math.sqrt(3) / 2 * right.abs() - (down + half_height) / 2
    triangle = torch.maximum(slanted, down - half_height)
    index = shape[:, None, None]
    return torch.where(index == 0, circle, torch.where(index == 1, square, triangle))


def _rgb(hue: Tensor, brightness: Tensor) -> Tensor:
    """Returns fully saturated colours (N, 3) in [0, 1] of hues in degrees (HSV)."""
    channel = torch.tensor([5.0, 3.0, 1.0])
    k = (channel + hue[:, None] / 60).remainder(6)
    return brightness[:, None] * (1 - torch.minimum(k, 4 - k).clamp(0, 1))
