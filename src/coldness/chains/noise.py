"""Chains that start from noise, drawn in the model's coordinates.

    x0 = m + L (mean + std xi),  xi ~ N(0, I)        or        x0 = m + L u,  u ~ U(low, high)

m and L are the coordinates of the energy: 0 and the identity unless a preconditioner is used.
`LikeData` takes mean and std from the data batch, and `FittedNoise` uses values that were saved.

References:
    Learning Non-Convergent Non-Persistent Short-Run MCMC Toward Energy-Based Model
    (Nijkamp et al., 2019), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.chains.base import Start
from coldness.energies.coordinates import Coordinates


@dataclass(frozen=True)
class GaussianNoise(Start):
    """Gaussian noise.

    Args:
        mean: one number for all dimensions, or one number per dimension.
        std: standard deviation, > 0.
    """

    mean: float | Sequence[float] = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise ValueError(f"std must be > 0, got {self.std}")

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        noise = x_data.new_empty((count, *x_data.shape[1:]))
        noise.normal_(generator=generator).mul_(self.std)
        mean = self.mean if isinstance(self.mean, (int, float)) else x_data.new_tensor(self.mean)
        return at.unwhiten(noise.add_(mean))

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor:
        y = at.whiten(x).double()
        mean = self.mean if isinstance(self.mean, (int, float)) else y.new_tensor(self.mean)
        return _half_squares((y - mean) / self.std)


@dataclass(frozen=True)
class UniformNoise(Start):
    """Uniform noise in every dimension.

    Args:
        low: smallest value.
        high: largest value.
    """

    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"low must be < high, got {self.low} and {self.high}")

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        noise = x_data.new_empty((count, *x_data.shape[1:]))
        return at.unwhiten(noise.uniform_(self.low, self.high, generator=generator))


@dataclass(frozen=True)
class LikeData(Start):
    """Gaussian noise with the mean and standard deviation of the data in each coordinate.

    Both are computed from the current batch, so they need not be known in advance.

    Args:
        width: factor, > 0, that the standard deviations are multiplied by.
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise ValueError(f"width must be > 0, got {self.width}")

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        noise = x_data.new_empty((count, *x_data.shape[1:])).normal_(generator=generator)
        y = at.whiten(x_data)
        return at.unwhiten(y.mean(0) + noise * (self.width * y.std(0)))

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor:
        return self.without_data(x_data, at).potential(x, x_data, at)

    def without_data(self, x_data: Tensor, at: Coordinates) -> FittedNoise:
        fitted = FittedNoise(self.width)
        y = at.whiten(x_data)
        fitted.mean, fitted.std = y.mean(0), y.std(0)
        return fitted


class FittedNoise(Start):
    """Gaussian noise with saved means and standard deviations: `LikeData` without the data.

    Args:
        width: factor, > 0, that the standard deviations are multiplied by.
    """

    def __init__(self, width: float = 1.0) -> None:
        self.width = width
        self.mean, self.std = torch.zeros(()), torch.ones(())

    def fresh(
        self, count: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
    ) -> Tensor:
        noise = x_data.new_empty((count, *x_data.shape[1:])).normal_(generator=generator)
        mean, std = self.mean.to(x_data), self.std.to(x_data)
        return at.unwhiten(mean + noise * (self.width * std))

    def potential(self, x: Tensor, x_data: Tensor, at: Coordinates) -> Tensor:
        y = at.whiten(x).double()
        return _half_squares((y - self.mean.to(y)) / (self.width * self.std.to(y)))

    def state_dict(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "std": self.std}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.mean, self.std = state["mean"], state["std"]


def _half_squares(z: Tensor) -> Tensor:
    """|z|^2 / 2 of each row, (B,)."""
    return z.flatten(1).square().sum(1) / 2
