"""Coordinates in which the data has unit scale: the preconditioner of every kernel.

    x = m + L y,     M = L L^T

A kernel that runs plain Langevin dynamics in y runs, in x,

    x' = x - h M dU(x) + sqrt(2h) L xi,

which leaves exp(-U) invariant for every fixed M: the coordinates change how fast a chain
mixes, never what it converges to. With `diagonal`, L holds the standard deviation of each
dimension; with `full`, the symmetric square root of the covariance; with `none`, L = I and m = 0.

Of all square roots the symmetric one leaves y nearest to x, so that a whitened image is an image
still (ZCA), which convolutions can look at. Images need it most: pixels have much the same scale,
but the directions in which CIFAR-10 varies, at 16 x 16, have standard deviations from 7.5 to
0.008, and a step that the narrowest allows takes a million to cross the widest.

The coordinates are estimated once from the data, belong to the energy and are saved with its
weights. Networks see y, noise starts are drawn in y, kernels move in y.

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
"""Share of the largest variance: standard deviations of 1 to 1e-5 are what float32 can undo."""

LARGEST_FULL = 4096
"""Dimensions: of that many the roots of the covariance take a minute on a core."""

ROWS_AT_ONCE = 4096


class Coordinates(nn.Module):
    """The affine map x = m + L y.

    Args:
        kind: `none`, `diagonal` (one scale a dimension) or `full` (a matrix).
        location: m, of the shape of one example.
        scale: L: of the shape of one example (`diagonal`) or (D, D), of any kind (`full`).
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
            raise ValueError(f"coordinates of kind {kind} need a location and a scale")
        self.kind: Kind = kind
        self.register_buffer("location", torch.zeros(()) if location is None else location)
        self.register_buffer("scale", torch.ones(()) if scale is None else scale)
        self.register_buffer("inverse", torch.empty(0), persistent=False)
        self._invert()
        self.register_load_state_dict_post_hook(_after_loading)

    @classmethod
    def estimate(cls, x: Tensor, kind: Kind) -> Coordinates:
        """Mean and scale of the examples x (N, ...)."""
        if kind == "none":
            return cls()
        location = x.mean(0)
        if kind == "diagonal":
            scale = x.std(0)
            if not bool((scale > 0).all()):
                flat = int((scale.flatten() <= 0).nonzero()[0])
                raise ValueError(f"dimension {flat} of the data is constant: no scale to divide by")
            return cls(kind, location, scale)
        centred = (x - location).flatten(1)
        if centred.shape[1] > LARGEST_FULL:
            raise ValueError(
                f"full coordinates of {centred.shape[1]} dimensions take a matrix of as many rows; "
                f"up to {LARGEST_FULL} are possible: use diagonal"
            )
        covariance = sum(
            (part.T.double() @ part.double() for part in centred.split(ROWS_AT_ONCE)),
            start=torch.zeros((), dtype=torch.float64, device=x.device),
        ) / (len(x) - 1)
        variances, directions = torch.linalg.eigh(covariance)
        if not float(variances[0]) > SINGULAR * float(variances[-1]):
            raise ValueError(
                "the data's covariance is singular: more examples, noise on them (images: "
                "dequantise), or diagonal coordinates"
            )
        root = (directions * variances.sqrt()) @ directions.T
        return cls(kind, location, root.to(x.dtype))

    @classmethod
    def like(cls, kind: Kind, shape: tuple[int, ...]) -> Coordinates:
        """Coordinates of that kind and example shape, to load saved values into."""
        if kind == "none":
            return cls()
        scale = torch.eye(math.prod(shape)) if kind == "full" else torch.ones(shape)
        return cls(kind, torch.zeros(shape), scale)

    def whiten(self, x: Tensor) -> Tensor:
        """y = L^-1 (x - m)."""
        if self.kind == "none":
            return x
        if self.kind == "diagonal":
            return (x - self.location) / self.scale
        return _times(x - self.location, self.inverse.T)

    def unwhiten(self, y: Tensor) -> Tensor:
        """x = m + L y."""
        return y if self.kind == "none" else self.location + self.push(y)

    def push(self, v: Tensor) -> Tensor:
        """L v: a direction in y as a direction in x."""
        if self.kind == "none":
            return v
        return v * self.scale if self.kind == "diagonal" else _times(v, self.scale.T)

    def pull(self, g: Tensor) -> Tensor:
        """L^T g: a gradient in x as a gradient in y."""
        if self.kind == "none":
            return g
        return g * self.scale if self.kind == "diagonal" else _times(g, self.scale)

    @property
    def log_det(self) -> float:
        """log |det L|: the volume in x of a unit of y."""
        if self.kind == "full":
            return float(torch.linalg.slogdet(self.scale.double()).logabsdet)
        return float(self.scale.double().log().sum())

    def _apply(self, fn: Any, recurse: bool = True) -> Coordinates:
        """To another device or dtype, with an inverse of that precision."""
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
    """Examples (B, ...), as rows, times a matrix (D, D); never in less than their own precision."""
    with torch.autocast(v.device.type, enabled=False):
        return (v.flatten(1) @ matrix).reshape(v.shape)
