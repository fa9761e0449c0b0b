"""Exact laws, and the bounds within which samples must obey them.

Every bound is 5 standard errors of independent draws: a right program fails one such check in
1.7 million, whatever the seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from scipy import stats
from torch import Tensor

from coldness.energies import Coordinates

FIVE_SIGMA = 5.7e-7
"""Probability that a normal number is more than 5 standard deviations away, on both sides."""

KINDS = ("none", "diagonal", "full")

Field = Callable[[Tensor], tuple[Tensor, Tensor]]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def assert_mean(values: Tensor, expected: float) -> None:
    """The mean of independent values."""
    error = float(values.std()) / math.sqrt(len(values))
    assert abs(float(values.mean()) - expected) <= 5 * error, (float(values.mean()), expected)


def assert_normal_law(values: Tensor, mean: float, variance: float) -> None:
    """Independent normal values: mean, variance and shape."""
    n = len(values)
    seen = float((values - mean).square().mean())
    assert abs(float(values.mean()) - mean) <= 5 * math.sqrt(variance / n), (values.mean(), mean)
    assert abs(seen - variance) <= 5 * variance * math.sqrt(2 / n), (seen, variance)
    assert_law(values, stats.norm(mean, math.sqrt(variance)).cdf)


def assert_law(values: Tensor, cdf: Callable[..., object]) -> None:
    """Kolmogorov-Smirnov test of independent values against a distribution function."""
    result = stats.kstest(values.double().numpy(), cdf)
    assert result.pvalue > FIVE_SIGMA, result


def assert_share(hits: int, trials: int, probability: float) -> None:
    """The frequency of independent events."""
    error = math.sqrt(probability * (1 - probability) / trials)
    assert abs(hits / trials - probability) <= 5 * error, (hits / trials, probability)


def langevin_law(
    mean: float, variance: float, target_variance: float, steps: Sequence[float]
) -> tuple[float, float]:
    """Law of a discretised Langevin chain on N(0, s^2): m' = (1 - h/s^2) m, v' = (..)^2 v + 2h."""
    for h in steps:
        a = 1 - h / target_variance
        mean, variance = a * mean, a * a * variance + 2 * h
    return mean, variance


def field_of(potential: Callable[[Tensor], Tensor]) -> Field:
    """x -> (U, dU), itself differentiable."""

    def field(x: Tensor) -> tuple[Tensor, Tensor]:
        def summed(v: Tensor) -> tuple[Tensor, Tensor]:
            u = potential(v)
            return u.sum(), u

        gradient, (_, u) = torch.func.grad_and_value(summed, has_aux=True)(x)
        return u, gradient

    return field


def gumbel(x: Tensor) -> Tensor:
    """A skewed potential, U = sum x + exp(-x), with log Z = 0."""
    return (x + (-x).exp()).flatten(1).sum(1)


def gumbel_draws(*shape: int, seed: int = 0) -> Tensor:
    """Exact draws of exp(-gumbel)."""
    u = torch.rand(*shape, generator=generator(seed), dtype=torch.float64)
    return -(-u.log()).log()


def banana(x: Tensor) -> Tensor:
    """A potential (B, 2) without symmetry: curved, skewed, correlated."""
    a, b = x[:, 0], x[:, 1]
    return a.square() / 2 + (b - a.square() / 2 + 0.3 * a).square() + (-b).exp() / 4


def coordinates(kind: str, dimension: int = 2) -> Coordinates:
    """Coordinates far from the identity, in float64."""
    if kind == "none":
        return Coordinates()
    location = torch.linspace(-1, 2, dimension, dtype=torch.float64)
    scale = torch.linspace(0.5, 1.5, dimension, dtype=torch.float64)
    if kind == "diagonal":
        return Coordinates("diagonal", location, scale)
    lower = 0.7 * torch.ones(dimension, dimension, dtype=torch.float64).tril(-1)
    return Coordinates("full", location, lower + scale.diag())


def matrix(at: Coordinates, dimension: int = 2) -> Tensor:
    """L, from what the coordinates do to the unit vectors."""
    return at.push(torch.eye(dimension, dtype=torch.float64)).T
