"""Identities of the beta objective, on random potentials in float64.

Weights are those that training itself uses (`Contrast.weights`).

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendices D (Eqs. 24
    to 28), E (30 to 32), F (36); section 5 (negative beta).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from coldness.objectives import Contrast
from coldness.studies.number import Number, number

N, M, BATCHES = 100, 20, 200


def identities() -> Iterator[Number]:
    """All identities."""
    yield from bound()
    yield from standard_limit()
    yield from closed_forms()
    yield from negative_beta()


def _batches() -> Iterator[tuple[Tensor, Tensor, float]]:
    """Potentials of data and negatives, and a beta: negatives as good as data or much worse."""
    generator = torch.Generator().manual_seed(0)
    for k in range(BATCHES):
        u_data = torch.randn(N, generator=generator, dtype=torch.float64)
        u_model = torch.randn(M, generator=generator, dtype=torch.float64) + k % 10
        yield u_data, u_model, (0.05, 0.3, 0.5, 0.9, 1.3)[k % 5]


def bound() -> Iterator[Number]:
    """Eq. 28, and the default variant's gradient against that of Eq. 27."""
    excess, difference = -math.inf, 0.0
    for u_data, u_model, beta in _batches():
        u_data.requires_grad_()
        u_model.requires_grad_()
        ratio = -beta * u_data - torch.logsumexp(-beta * u_model, 0)  # log p+^b / sum p-^b
        with_positive = torch.nn.functional.logsigmoid(ratio).mean() / beta
        bound = torch.nn.functional.logsigmoid(ratio.mean()) / beta
        excess = max(excess, float((with_positive - bound).detach()))
        ours, *_ = Contrast(beta)(u_data, [u_model], beta)
        for theirs, mine in zip(
            torch.autograd.grad(with_positive, (u_data, u_model)),
            torch.autograd.grad(ours, (u_data, u_model)),
            strict=True,
        ):
            difference = max(difference, float((theirs + mine).abs().max()))
    yield number(
        "The objective with the positive among the negatives is a lower bound (Jensen)",
        "Eq. 28",
        "<= 0",
        f"largest excess over {BATCHES} batches {excess:.3g}",
        excess <= 0,
    )
    yield number(
        "The default variant ascends exactly that objective",
        "Eqs. 8, 27",
        "0",
        f"largest difference of gradients {difference:.2g}",
        difference < 1e-14,
    )


def standard_limit() -> Iterator[Number]:
    """Eq. 36: as beta -> 0, the default variant is M/(M+1) of the standard loss."""
    worst = 0.0
    for u_data, u_model, _ in _batches():
        small = Contrast(1e-10).weights(u_data, u_model, 1e-10)
        standard = Contrast(0.0).weights(u_data, u_model, 0.0)
        ratios = torch.cat([small.a / standard.a, small.b / standard.b])
        worst = max(worst, float((ratios - M / (M + 1)).abs().max()))
    yield number(
        "At beta = 0, the positive among the negatives only makes steps smaller",
        "Eq. 36",
        f"M/(M+1) = {M / (M + 1):.6f}",
        f"to within {worst:.2g} for every weight",
        worst < 1e-8,
    )


def closed_forms() -> Iterator[Number]:
    """w (Eq. 5), v (Eq. 31) and GradScale (Eq. 30) against their closed forms."""
    of_w = of_v = of_scale = of_limit = 0.0
    for u_data, u_model, beta in _batches():
        weights = Contrast(beta).weights(u_data, u_model, beta)
        relative, of_data = (-beta * u_model).exp(), (-beta * u_data).exp()
        of_w = max(of_w, float((weights.w - relative / relative.sum()).abs().max()))
        v = 1 / (of_data + relative.sum())
        v = v / v.mean()
        of_v = max(of_v, float((weights.a / weights.a.mean() - v).abs().max()))
        g = (relative.sum() / (of_data + relative.sum())).mean()
        of_scale = max(of_scale, float((weights.g - g).abs()))
        far = Contrast(beta).weights(u_data, u_model + 60 / beta, beta)
        flat = far.a * of_data
        of_limit = max(of_limit, float((flat / flat.mean() - 1).abs().max()))
    equal = Contrast(0.5).weights(torch.zeros(N).double(), torch.zeros(M).double(), 0.5).g
    for claim, equation, figure in (
        ("Weights of negatives agree with their closed form", "Eqs. 5, 7", of_w),
        ("Weights of positives agree with their closed form", "Eq. 31", of_v),
        ("GradScale agrees with its closed form", "Eq. 30", of_scale),
        ("Far from all negatives, weights of positives are as 1/p^beta", "Eq. 32", of_limit),
        (
            "With negatives like the data, GradScale is M/(M+1)",
            "E",
            abs(float(equal) - M / (M + 1)),
        ),
    ):
        yield number(claim, equation, "0", f"largest difference {figure:.2g}", figure < 1e-12)


def negative_beta() -> Iterator[Number]:
    """A sampler of p^1.5 for p = N(0, 1): E_p x^2 = 1 by weights of beta = -0.5."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200_000, generator=generator, dtype=torch.float64) / math.sqrt(1.5)
    u = x.square() / 2
    plain = float(x.square().mean())
    weighed = float((Contrast().weights(u[:1], u, -0.5).w * x.square()).sum())
    yield number(
        "Negative beta corrects a sampler that is too cold, here one of p^1.5",
        "section 5",
        "E x^2 = 1 under p; 0.667 without weights",
        f"{weighed:.3f} with beta -0.5, {plain:.3f} with 0",
        abs(weighed - 1) < 0.02,
    )
