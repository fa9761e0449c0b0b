"""What every kernel must do to the law of its chains, measured in standard errors.

Each check returns the largest deviation from its law that it met; a right kernel stays below 5. No
check knows a kernel's equation. tests/test_kernel_contract.py shows that wrong kernels fail.

Weak order. From a fixed x0, chains that run for a small time T move as the Langevin diffusion does,

    E[D] = -T M dU(x0) + O(T^2),   E[D D^T] = 2 T M + O(T^2),   D = x_K - x0,  M = L L^T.

4 v(T/2) - v(T) cancels the terms of second order of both moments v. What is left is of order
T^{5/2} where moves are refused, and T^3 where they are not; with T in units of the fastest rate r
at x0, (r T)^{3/2} of the first order is allowed for it: 3%.

Refusals. A proposal that follows the gradient is refused with probability O(T^{3/2}), any other
with O(T^{1/2}): a Metropolis kernel with a wrong or missing gradient is still exact, and tends to
the same diffusion, but shows here.

Invariance. From exact draws of a skewed law, any number of steps of a kernel that refuses moves
gives exact draws.

References:
    Exponential convergence of Langevin distributions and their discrete approximations
    (Roberts, Tweedie, 1996).
    Optimal scaling of discrete approximations to Langevin diffusions (Roberts, Rosenthal, 1998):
    the orders of refusals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from coldness.kernels import Kernel, run
from laws import banana, coordinates, field_of, generator, gumbel, gumbel_draws, matrix

LIMIT = 5.0
"""Standard errors: a right kernel is further off in one check of 1.7 million."""

CHAINS = 300_000
STEPS = 4
X0 = (-0.8, 0.0)
"""Where no component of M dU is small, in any of the coordinates."""

SMALL = 0.1
"""r T: rate times time of the chains in the check of weak order."""

EULER = 0.5772156649015329


def largest_deviation(kernel: Kernel, kind: str) -> float:
    """Of all checks that concern the kernel, in coordinates of this kind."""
    return max(deviations(kernel, kind))


def deviations(kernel: Kernel, kind: str) -> Iterator[float]:
    """One per check, the quick ones first."""
    yield weak_order(kernel, kind)
    if kernel.adjusted:
        yield refusals(kernel, kind)
        yield invariance(kernel, kind)


def weak_order(kernel: Kernel, kind: str) -> float:
    """First and second moments of small displacements against the Langevin diffusion."""
    factor, gradient, rate = local(kind)
    time = SMALL / rate
    whole, half = (
        moments(displacements(kernel, kind, t, seed)) for t, seed in ((time, 1), (time / 2, 2))
    )
    m = factor @ factor.T
    expected = time * torch.cat([-m @ gradient, 2 * m[0], 2 * m[1, 1:]])
    # Of the first order if no component vanished by chance: all of y's, as large as their norm.
    spread = m.diagonal().sqrt()
    force = (factor.T @ gradient).norm() * spread
    allowed = torch.cat([force, 2 * spread[0] * spread, 2 * spread[1:] ** 2]) * time * SMALL**1.5
    error = ((16 * half.var(0) + whole.var(0)) / CHAINS).sqrt()
    excess = (4 * half.mean(0) - whole.mean(0) - expected).abs() - allowed
    return in_errors(excess.clamp(min=0), error)


def refusals(kernel: Kernel, kind: str) -> float:
    """Refused moves become rare faster than in proportion to the time of a move, and are told.

    Over 1/16 of the time a refusal is 1/64 as likely where the gradient is followed, 1/4 where not.
    """
    _, _, rate = local(kind)
    (long, told_long), (short, told_short) = (
        refused(kernel, kind, time / rate, seed) for time, seed in ((0.4, 3), (0.025, 4))
    )
    error = ((64 * short.var() + long.var()) / CHAINS).sqrt()
    found = [in_errors((8 * short.mean() - long.mean()).clamp(min=0), error)]
    for was, told in ((long, told_long), (short, told_short)):
        # One refusal more than the standard error: a count so small is no normal number.
        error = ((told * (1 - told)).mean() / CHAINS).sqrt() + 1 / CHAINS
        found.append(in_errors((was - told).mean(), error))
    return max(found)


def invariance(kernel: Kernel, kind: str) -> float:
    """Two independent Gumbel numbers: their moments, their product and their distribution."""
    start = gumbel_draws(CHAINS, 2, seed=5)
    at = coordinates(kind)
    x = run(kernel, gumbel, start, steps=10, generator=generator(6), coordinates=at).x
    square = math.pi**2 / 6 + EULER**2
    a, b = x[:, 0], x[:, 1]
    values = torch.stack([a, b, a.square(), b.square(), (-a).exp(), (-b).exp(), a * b], 1)
    means = x.new_tensor([EULER, EULER, square, square, 1.0, 1.0, EULER**2])
    found = [in_errors(values.mean(0) - means, values.std(0) / math.sqrt(CHAINS))]
    for column in (a, b):
        with np.errstate(over="ignore"):  # exp(-exp(-x)) of chains that went far
            p_value = stats.kstest(column.numpy(), stats.gumbel_r.cdf).pvalue
        found.append(float(stats.norm.isf(p_value / 2)))
    return max(found)


def acceptance_in_the_law(kernel: Kernel, kind: str) -> float:
    """Mean probability of acceptance at the kernel's own step, from exact draws."""
    at, start = coordinates(kind), gumbel_draws(2000, 2, seed=7)
    return float(
        run(kernel, gumbel, start, steps=2, generator=generator(8), coordinates=at).acceptance
    )


def moves_in_y_as_in_x(kernel: Kernel) -> bool:
    """Whether chains in full coordinates are the same chains, run in x and in y.

    Close to the mode of a curved potential, and so far out on a quadratic one that a clamp or a
    clipped gradient would show.
    """
    at = coordinates("full")

    def far(x: Tensor) -> Tensor:
        return x.square().sum(1) / 2

    alike = []
    for potential, scale in ((banana, 0.5), (far, 1e4)):
        x = scale * torch.randn(50, 2, generator=generator(9), dtype=torch.float64)
        small = replace(kernel, step_size=kernel.step_for_noise(0.1))
        in_x = run(small, potential, x, steps=5, generator=generator(10), coordinates=at)
        in_y = run(
            small, lambda y, u=potential: u(at.unwhiten(y)), at.whiten(x),
            steps=5, generator=generator(10),
        )  # fmt: skip
        assert not torch.equal(in_x.x, x), "no chain has moved"
        alike.append(torch.allclose(at.unwhiten(in_y.x), in_x.x, rtol=1e-9, atol=1e-9))
    return all(alike)


def local(kind: str) -> tuple[Tensor, Tensor, float]:
    """At x0: L, dU, and the fastest rate r there, of curvature or force, in the coordinates."""
    factor = matrix(coordinates(kind))
    x0 = torch.tensor(X0, dtype=torch.float64)
    gradient = field_of(banana)(x0[None])[1][0]
    hessian = torch.autograd.functional.hessian(lambda x: banana(x[None])[0], x0)
    curvature = torch.linalg.eigvalsh(factor.T @ hessian @ factor).abs().max()
    return factor, gradient, float(torch.maximum(curvature, (factor.T @ gradient).square().sum()))


def lasting(kernel: Kernel, time: float) -> Kernel:
    """The kernel with the step whose transition takes this time of the Langevin diffusion.

    One of n > 1 gradients keeps its momentum, so it goes n times as far as one of 1 gradient.
    """
    noise = math.sqrt(2 * time) / kernel.gradients_per_step
    small = replace(kernel, step_size=kernel.step_for_noise(noise))
    assert math.isclose(small.langevin_step * small.gradients_per_step**2, time)
    return small


def displacements(kernel: Kernel, kind: str, time: float, seed: int) -> Tensor:
    """x_K - x0 of independent chains after that time."""
    x0 = torch.tensor(X0, dtype=torch.float64).expand(CHAINS, 2)
    small = lasting(kernel, time / STEPS)
    at = coordinates(kind)
    return run(small, banana, x0, steps=STEPS, generator=generator(seed), coordinates=at).x - x0


def moments(d: Tensor) -> Tensor:
    """d and its products, (B, 5)."""
    return torch.stack([d[:, 0], d[:, 1], d[:, 0] ** 2, d[:, 0] * d[:, 1], d[:, 1] ** 2], 1)


def refused(kernel: Kernel, kind: str, time: float, seed: int) -> tuple[Tensor, Tensor]:
    """Whether one move from x0 was refused, and the probability that the kernel told of it."""
    x0 = torch.tensor(X0, dtype=torch.float64).expand(CHAINS, 2)
    small, field, at = lasting(kernel, time), field_of(banana), coordinates(kind)
    noise = tuple(n[0] for n in small.draw(1, x0, generator(seed)))
    h = torch.tensor(small.step_size, dtype=torch.float64)
    moved, info = small.step(field, small.init(field, x0), noise, h, at)
    return (moved[0] == x0).all(1).double(), 1 - info.acceptance


def in_errors(difference: Tensor, error: Tensor) -> float:
    """The largest of some differences in standard errors; infinite where one is not a number."""
    ratio = torch.where(difference == 0, 0.0, difference.abs() / error)
    return float(torch.where(ratio.isnan(), math.inf, ratio).max())
