"""Coordinates in which the data has unit scale: the preconditioner of every kernel.

    x = m + L y,     M = L L^T

A kernel that runs plain Langevin dynamics in y runs, in x,

    x' = x - h M dU(x) + sqrt(2h) L xi,

which leaves exp(-U) invariant for every fixed M: the coordinates change how fast a chain
mixes, never what it converges to. With `diagonal`, L holds the standard deviation of each
dimension; with `full`, the Cholesky factor of the covariance; with `none`, L = I and m = 0.

The coordinates are estimated once from the data, belong to the energy and are saved with its
weights. Networks see y, noise starts are drawn in y, kernels move in y.

References:
    Riemann manifold Langevin and Hamiltonian Monte Carlo methods (Girolami, Calderhead, 2011),
    section 5, with a constant metric.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Kind = Literal["none", "diagonal", "full"]


class Coordinates(nn.Module):
    """The affine map x = m + L y.

    Args:
        kind: `none`, `diagonal` (one scale a dimension) or `full` (Cholesky factor).
        location: m, of the shape of one example.
        scale: L: of the shape of one example (`diagonal`) or (D, D) lower triangular (`full`).
    Shapes: x, y and directions (B, ...).
    """

    location: Tensor
    scale: Tensor

    def __init__(
        self, kind: Kind = "none", location: Tensor | None = None, scale: Tensor | None = None
    ) -> None:
        super().__init__()
        if kind != "none" and (location is None or scale is None):
            raise ValueError(f"coordinates of kind {kind} need a location and a scale")
        self.kind: Kind = kind
        self.register_buffer("location", torch.zeros(()) if location is None else location)
        self.register_buffer("scale", torch.ones(()) if scale is None else scale)

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
        if x.dim() != 2:
            raise ValueError("full coordinates need vectors (N, D); use diagonal for images")
        covariance = torch.cov(x.T.double()).reshape(x.shape[1], x.shape[1])
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if int(failed):
            raise ValueError("the data's covariance is singular: use diagonal, or drop a dimension")
        return cls(kind, location, factor.to(x.dtype))

    @classmethod
    def like(cls, kind: Kind, shape: tuple[int, ...]) -> Coordinates:
        """Coordinates of that kind and example shape, to load saved values into."""
        size = (*shape, *shape) if kind == "full" else shape
        return cls() if kind == "none" else cls(kind, torch.zeros(shape), torch.ones(size))

    def whiten(self, x: Tensor) -> Tensor:
        """y = L^-1 (x - m)."""
        if self.kind == "none":
            return x
        if self.kind == "diagonal":
            return (x - self.location) / self.scale
        centred = (x - self.location).T
        return torch.linalg.solve_triangular(self.scale, centred, upper=False).T

    def unwhiten(self, y: Tensor) -> Tensor:
        """x = m + L y."""
        return y if self.kind == "none" else self.location + self.push(y)

    def push(self, v: Tensor) -> Tensor:
        """L v: a direction in y as a direction in x."""
        if self.kind == "none":
            return v
        return v * self.scale if self.kind == "diagonal" else v @ self.scale.T

    def pull(self, g: Tensor) -> Tensor:
        """L^T g: a gradient in x as a gradient in y."""
        if self.kind == "none":
            return g
        return g * self.scale if self.kind == "diagonal" else g @ self.scale

    def extra_repr(self) -> str:
        return self.kind
