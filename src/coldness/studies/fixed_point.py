"""The fixed point of training: the model's error against that of its sampler, on trained runs.

With f = -U, S_t the distribution of the ends of chains on t U, and c any constant:

    p_d = S_(1-beta) exp(beta f) / Z
    f - log p_d = ((1-beta) log p_d - log S_(1-beta)) / beta + c
    f - log p_d = (1 - 1/beta) (log S_1 - log p_d) + c         if S_(1-beta) were S_1^(1-beta)

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendix I.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from coldness.chains import Source
from coldness.data import KnownDensity
from coldness.energies import Energy
from coldness.kernels import run
from coldness.seeds import generators
from coldness.studies.number import Number, number

CHAINS = 20_000
SIDE = 60
LEAST_SHARE = 1e-2
"""Errors are compared where the data's density is at least this fraction of its maximum."""

LEAST_CORRELATION = 0.9
SLOPE_TOLERANCE = 0.3
"""For the relation that is exact at convergence; the runs here have nearly converged."""


def fixed_point(
    row: Mapping[str, Any], energy: Energy, source: Source, data: KnownDensity
) -> Iterator[Number]:
    """Appendix I: the model's error against that of the sampler, in the region of the data."""
    beta = row["beta"]
    side = torch.linspace(-data.box, data.box, SIDE)
    x = torch.cartesian_prod(side, side)
    log_data = data.log_prob(x)
    with torch.no_grad():
        error = -energy(x).double() - log_data
    weights = log_data.exp() * (log_data > log_data.max() + math.log(LEAST_SHARE))
    log_short = log_density_of_chains(source, energy, x, tempering=1.0)
    log_tempered = log_density_of_chains(source, energy, x, tempering=1 - beta)
    r, slope = regression(log_short - log_data, error, weights)
    r_exact, slope_exact = regression((1 - beta) * log_data - log_tempered, error, weights)
    yield number(
        f"{row['run']}: the model is too low where chains are too frequent",
        "I",
        f"correlation < 0; slope 1 - 1/beta = {1 - 1 / beta:.2f} if SGLD(p^a) were SGLD(p)^a",
        f"correlation {r:+.3f}, slope {slope:+.2f}",
        r < 0,
    )
    yield number(
        f"{row['run']}: p_d is SGLD(p^(1 - beta)) p^beta",
        "I",
        f"correlation 1, slope 1/beta = {1 / beta:.2f} (here > {LEAST_CORRELATION} and within "
        f"{SLOPE_TOLERANCE:.0%})",
        f"correlation {r_exact:+.3f}, slope {slope_exact:+.2f}",
        r_exact > LEAST_CORRELATION and abs(slope_exact * beta - 1) < SLOPE_TOLERANCE,
    )


def log_density_of_chains(source: Source, energy: Energy, x: Tensor, tempering: float) -> Tensor:
    """log density, at x (P, 2), of where a source's Langevin chains end; in float64.

    Given the last state but one, the end is Gaussian; the density is the mean of these Gaussians
    over many chains, which is unbiased.
    """
    _, generator = generators(0)
    start, _ = source.start.draw(CHAINS, x[:1], energy.coordinates, generator)
    h = source.kernel.step_size
    before = run(
        source.kernel, energy, start, steps=source.steps - 1, generator=generator,
        tempering=tempering,
    ).x.requires_grad_()  # fmt: skip
    (gradient,) = torch.autograd.grad(energy(before).sum(), before)
    mean = (before - h * tempering * gradient).detach()
    pieces = [
        torch.logsumexp(-torch.cdist(part, mean).square().double() / (4 * h), 1)
        for part in x.split(200)
    ]
    return torch.cat(pieces) - math.log(CHAINS) - math.log(4 * math.pi * h)


def regression(a: Tensor, b: Tensor, weights: Tensor) -> tuple[float, float]:
    """Weighted correlation of a and b, and the slope of b on a."""
    w = weights / weights.sum()
    keep = w > 0
    w, a, b = w[keep], a[keep], b[keep]
    a, b = a - (w * a).sum(), b - (w * b).sum()
    covariance, of_a, of_b = (w * a * b).sum(), (w * a * a).sum(), (w * b * b).sum()
    return float(covariance / (of_a * of_b).sqrt()), float(covariance / of_a)
