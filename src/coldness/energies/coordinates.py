"""Whitened coordinates, in which the data has unit scale: the preconditioner of every kernel.

    x = m + L y,     M = L L^T

A kernel that runs plain Langevin dynamics in y runs, in x,

    x' = x - h M dU(x) + sqrt(2h) L xi,

which leaves exp(-U) invariant for every fixed M: the coordinates change how fast a chain
mixes, but not what it converges to. With `diagonal`, L holds the standard deviation of each
dimension; with `full`, L is the symmetric square root of the covariance (ZCA whitening); with
`none`, L = I and m = 0.

Among all square roots, the symmetric one keeps y closest to x. A ZCA-whitened image therefore still
looks like an image, and convolutions work on it. Images need whitening most: all pixels have
similar scales, but the principal directions of CIFAR-10 at 16 x 16 have standard deviations from
7.5 to 0.008, and with a step small enough for the narrowest direction, a chain needs a million
steps to cross the widest.

The coordinates are estimated once from the data, belong to the energy and are saved with its
weights. The input of networks is y, noise starts are drawn in y, and kernels move in y.

References:
    Riemann manifold Langevin and Hamiltonian Monte Carlo methods (Girolami, Calderhead, 2011),
    section 5, with a constant metric.
    The "Independent Components" of Natural Scenes are Edge Filters (Bell, Sejnowski, 1997),
    section 2, for the symmetric root.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

Kind = Literal["none", "diagonal", "full"]

SINGULAR = 1e-10
"""Smallest allowed variance as a fraction of the largest: standard deviations from 1 to 1e-5 can be
inverted in float32."""

LARGEST_FULL = 4096
"""Largest number of dimensions of full coordinates: computing the root of a covariance of this size
takes a minute on one core."""

ROWS_AT_ONCE = 4096


class Coordinates(nn.Module):
    """The affine map x = m + L y.

    Args:
        kind: `none`, `diagonal` (one scale per dimension) or `full` (a matrix).
        location: m, with the shape of one example.
        scale: L, with the shape of one example (`diagonal`), or any invertible (D, D) matrix
            (`full`).
    Shapes: x, y and directions (B, ...).
    """

    location: Tensor
    scale: Tensor
    inverse: Tensor

    def __init__(
        self, kind: Kind = "none", location: Tensor | None = None, scale: Tensor | None = None
    ) -> None:
        super().__init__()
        if kind != "none" and (location is None or scale is None):
            raise ValueError(f"coordinates of kind {kind} need both a location and a scale")
        self.kind: Kind = kind
        self.register_buffer("location", torch.zeros(()) if location is None else location)
        self.register_buffer("scale", torch.ones(()) if scale is None else scale)
        self.register_buffer("inverse", torch.empty(0), persistent=False)
        self._invert()
        self.register_load_state_dict_post_hook(_after_loading)

    @classmethod
    def estimate(cls, x: Tensor, kind: Kind) -> Coordinates:
        """Estimates location and scale from the examples x (N, ...)."""
        if kind == "none":
            return cls()
        location = x.mean(0)
        if kind == "diagonal":
            scale = x.std(0)
            if not bool((scale > 0).all()):
                flat = int((scale.flatten() <= 0).nonzero()[0])
                raise ValueError(
                    f"dimension {flat} of the data is constant, so it has no scale: "
                    "remove it, or use coordinates of kind none"
                )
            return cls(kind, location, scale)
        centred = (x - location).flatten(1)
        if centred.shape[1] > LARGEST_FULL:
            raise ValueError(
                f"full coordinates are not possible in {centred.shape[1]} dimensions, "
                f"only up to {LARGEST_FULL}: use diagonal"
            )
        covariance = sum(
            (part.T.double() @ part.double() for part in centred.split(ROWS_AT_ONCE)),
            start=torch.zeros((), dtype=torch.float64, device=x.device),
        ) / (len(x) - 1)
        variances, directions = torch.linalg.eigh(covariance)
        if not float(variances[0]) > SINGULAR * float(variances[-1]):
            raise ValueError(
                "the covariance of the data is singular: use more examples, add noise to them "
                "(for images: dequantise), or use diagonal coordinates"
            )
        root = (directions * variances.sqrt()) @ directions.T
        return cls(kind, location, root.to(x.dtype))

    @classmethod
    def like(cls, kind: Kind, shape: tuple[int, ...]) -> Coordinates:
        """Returns coordinates of this kind and example shape, to load saved values into."""
        if kind == "none":
            return cls()
        scale = torch.eye(math.prod(shape)) if kind == "full" else torch.ones(shape)
        return cls(kind, torch.zeros(shape), scale)

    def whiten(self, x: Tensor) -> Tensor:
        """Returns y = L^-1 (x - m)."""
        if self.kind == "none":
            return x
        if self.kind == "diagonal":
            return (x - self.location) / self.scale
        return _times(x - self.location, self.inverse.T)

    def unwhiten(self, y: Tensor) -> Tensor:
        """Returns x = m + L y."""
        return y if self.kind == "none" else self.location + self.push(y)

    def push(self, v: Tensor) -> Tensor:
        """Returns L v: converts a direction in y to a direction in x."""
        if self.kind == "none":
            return v
        return v * self.scale if self.kind == "diagonal" else _times(v, self.scale.T)

    def pull(self, g: Tensor) -> Tensor:
        """Returns L^T g: converts a gradient in x to a gradient in y."""
        if self.kind == "none":
            return g
        return g * self.scale if self.kind == "diagonal" else _times(g, self.scale)

    @property
    def log_det(self) -> float:
        """log |det L|: the log of the volume in x of a unit volume in y."""
        if self.kind == "full":
            return float(torch.linalg.slogdet(self.scale.double()).logabsdet)
        return float(self.scale.double().log().sum())

    def _apply(self, fn: Any, recurse: bool = True) -> Coordinates:
        """Moves to another device or dtype, and recomputes the inverse in that precision."""
        super()._apply(fn, recurse)
        self._invert()
        return self

    def _invert(self) -> None:
        if self.kind == "full":
            self.inverse = torch.linalg.inv(self.scale.double()).to(self.scale)

    def extra_repr(self) -> str:
        return self.kind


def _after_loading(coordinates: Coordinates, keys: object) -> None:
    coordinates._invert()


def _times(v: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies examples (B, ...), as rows, by a matrix (D, D), in at least their precision."""
    with torch.autocast(v.device.type, enabled=False):
        return (v.flatten(1) @ matrix).reshape(v.shape)
