"""Numbers of the study `beta-theory`: what the appendices derive, measured.

Identities are checked on random potentials in float64, with the weights that training itself uses
(`Contrast.weights`). The fixed point is measured on the study's trained runs, and the optimiser's
part on a model whose negatives are taken away.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendices D (Eqs. 24
    to 28), E (30 to 32), F (36), G, H, I; section 5 (negative beta).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coldness.chains import GaussianNoise, Source
from coldness.data import KnownDensity
from coldness.energies import Energy
from coldness.evaluation import compare_on_grid
from coldness.kernels import run
from coldness.objectives import Contrast
from coldness.seeds import generators
from coldness.training import Settings, Training
from coldness.training.folder import RunFolder
from coldness.training.recipe import find, resolve

Number = dict[str, Any]
Identity = Callable[[], Iterator[Number]]
Stage = Callable[[str], None]

N, M, BATCHES = 100, 20, 200
CHAINS = 20_000
SIDE = 60
LEAST_SHARE = 1e-2
"""Errors are compared where the data's density is at least this share of its maximum."""


def theory(
    rows: Sequence[Mapping[str, Any]], runs: Path, quick: bool, stage: Stage
) -> list[Number]:
    """All numbers of the study; rows and runs are those of its grid."""
    stage("identities")
    identities: list[Identity] = [_bound, _standard_limit, _weights, _negative_beta]
    numbers = [number for identity in identities for number in identity()]
    for row in rows:
        if row["diverged_at"] is None:
            stage(f"fixed point of {row['run']}")
            numbers += _fixed_point(row, RunFolder(runs / row["run"]).load())
    stage("optimisers without good negatives")
    return [*numbers, *_optimisers(quick)]


NUMBERS: dict[str, Callable[..., list[Number]]] = {"theory": theory}


def _number(claim: str, equation: str, expected: str, measured: str, holds: bool) -> Number:
    return {
        "claim": claim,
        "equation": equation,
        "expected": expected,
        "measured": measured,
        "holds": bool(holds),
    }


def _batches() -> Iterator[tuple[Tensor, Tensor, float]]:
    """Potentials of data and negatives, and a beta: negatives as good as data or much worse."""
    generator = torch.Generator().manual_seed(0)
    for k in range(BATCHES):
        u_data = torch.randn(N, generator=generator, dtype=torch.float64)
        u_model = torch.randn(M, generator=generator, dtype=torch.float64) + k % 10
        yield u_data, u_model, (0.05, 0.3, 0.5, 0.9, 1.3)[k % 5]


# Identities.


def _bound() -> Iterator[Number]:
    """Eq. 28, and that the default variant's gradient is that of Eq. 27."""
    excess, difference = -math.inf, 0.0
    for u_data, u_model, beta in _batches():
        u_data.requires_grad_()
        u_model.requires_grad_()
        ratio = -beta * u_data - torch.logsumexp(-beta * u_model, 0)  # log p+^b / sum p-^b
        with_positive = torch.nn.functional.logsigmoid(ratio).mean() / beta
        bound = torch.nn.functional.logsigmoid(ratio.mean()) / beta
        excess = max(excess, float((with_positive - bound).detach()))
        ours, _ = Contrast(beta)(u_data, [u_model], beta)
        for theirs, mine in zip(
            torch.autograd.grad(with_positive, (u_data, u_model)),
            torch.autograd.grad(ours, (u_data, u_model)),
            strict=True,
        ):
            difference = max(difference, float((theirs + mine).abs().max()))
    yield _number(
        "The objective with the positive among the negatives is a lower bound",
        "Eq. 28",
        "<= 0",
        f"largest excess over {BATCHES} batches {excess:.3g}",
        excess <= 0,
    )
    yield _number(
        "The default variant ascends exactly that objective",
        "Eqs. 8, 27",
        "0",
        f"largest difference of gradients {difference:.2g}",
        difference < 1e-14,
    )


def _standard_limit() -> Iterator[Number]:
    """Eq. 36: as beta -> 0, the default variant is M/(M+1) of the standard loss."""
    worst = 0.0
    for u_data, u_model, _ in _batches():
        small = Contrast(1e-10).weights(u_data, u_model, 1e-10)
        standard = Contrast(0.0).weights(u_data, u_model, 0.0)
        ratios = torch.cat([small.a / standard.a, small.b / standard.b])
        worst = max(worst, float((ratios - M / (M + 1)).abs().max()))
    yield _number(
        "Without beta, letting the positive in only makes steps smaller",
        "Eq. 36",
        f"M/(M+1) = {M / (M + 1):.6f}",
        f"to within {worst:.2g} for every weight",
        worst < 1e-8,
    )


def _weights() -> Iterator[Number]:
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
        ("Weights of negatives are their closed form", "Eqs. 5, 7", of_w),
        ("Weights of positives are their closed form", "Eq. 31", of_v),
        ("GradScale is its closed form", "Eq. 30", of_scale),
        ("Far from all negatives, positives weigh as 1/p^beta", "Eq. 32", of_limit),
        (
            "With negatives like the data, GradScale is M/(M+1)",
            "E",
            abs(float(equal) - M / (M + 1)),
        ),
    ):
        yield _number(claim, equation, "0", f"largest difference {figure:.2g}", figure < 1e-12)


def _negative_beta() -> Iterator[Number]:
    """A sampler of p^1.5 for p = N(0, 1): E_p x^2 = 1 by weights of beta = -0.5."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200_000, generator=generator, dtype=torch.float64) / math.sqrt(1.5)
    u = x.square() / 2
    plain = float(x.square().mean())
    weighed = float((Contrast().weights(u[:1], u, -0.5).w * x.square()).sum())
    yield _number(
        "Negative beta corrects a sampler that is too cold, here one of p^1.5",
        "section 5",
        "E x^2 = 1 under p; 0.667 without weights",
        f"{weighed:.3f} with beta -0.5, {plain:.3f} with 0",
        abs(weighed - 1) < 0.02,
    )


# The fixed point.


def _fixed_point(row: Mapping[str, Any], settings: Settings) -> Iterator[Number]:
    """Appendix I: the model's error, against that of the sampler, where the data is."""
    data, energy, source, beta = settings.data, settings.energy, settings.sources[0], row["beta"]
    assert isinstance(data, KnownDensity)
    side = torch.linspace(-data.box, data.box, SIDE)
    x = torch.cartesian_prod(side, side)
    log_data = data.log_prob(x)
    with torch.no_grad():
        error = -energy(x).double() - log_data
    weights = log_data.exp() * (log_data > log_data.max() + math.log(LEAST_SHARE))
    log_short = log_density_of_chains(source, energy, x, tempering=1.0)
    log_tempered = log_density_of_chains(source, energy, x, tempering=1 - beta)
    r, slope = _regression(log_short - log_data, error, weights)
    r_exact, slope_exact = _regression((1 - beta) * log_data - log_tempered, error, weights)
    yield _number(
        f"{row['block']}, beta {beta}: where chains come too often, the model has too little",
        "I",
        f"correlation < 0; slope 1 - 1/beta = {1 - 1 / beta:.2f} if SGLD(p^a) were SGLD(p)^a",
        f"correlation {r:+.3f}, slope {slope:+.2f}",
        r < 0,
    )
    yield _number(
        f"{row['block']}, beta {beta}: p_d is SGLD(p^(1 - beta)) p^beta",
        "I",
        "correlation 1, slope 1/beta = " + f"{1 / beta:.2f}",
        f"correlation {r_exact:+.3f}, slope {slope_exact:+.2f}",
        r_exact > 0.5,
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


def _regression(a: Tensor, b: Tensor, weights: Tensor) -> tuple[float, float]:
    """Weighted correlation of a and b, and the slope of b on a."""
    w = weights / weights.sum()
    keep = w > 0
    w, a, b = w[keep], a[keep], b[keep]
    a, b = a - (w * a).sum(), b - (w * b).sum()
    covariance, of_a, of_b = (w * a * b).sum(), (w * a * a).sum(), (w * b * b).sum()
    return float(covariance / (of_a * of_b).sqrt()), float(covariance / of_a)


# Optimisers that normalise gradients.


def _optimisers(quick: bool) -> Iterator[Number]:
    """Appendix H: a good model meets negatives that are no good at all, for 2,000 iterations."""
    before = 300 if quick else 3000
    after = 200 if quick else 2000
    results: dict[str, tuple[float, float]] = {}
    for name, options in {
        "Adam": [],
        "Adam, least_grad_scale 0.05": ["--least_grad_scale=0.05"],
        "SGD": [],
    }.items():
        words = [f"--iterations={before}", "--contrast.beta=0.5", "--learning_rate=1", *options]
        training = Training(resolve(find("mixture2d"), words)[0].settings)
        for _ in range(before):
            training.iterate()
        kl, scale = _kl(training), 0.0
        _take_negatives_away(training)
        if name == "SGD":
            training.optimiser = training.fabric.setup_optimizers(
                torch.optim.SGD(training.parameters, lr=0.1)
            )
        for _ in range(after):
            scale += float(training.iterate()["grad_scale"]) / after
        results[name] = (_kl(training) - kl, scale)
    moved, scale = results["Adam"]
    for name, (change, _) in results.items():
        yield _number(
            f"{name}: a model whose negatives are taken away "
            + ("is spoilt all the same" if name == "Adam" else "stays what it was"),
            "H",
            "kl rises" if name == "Adam" else "kl stays",
            f"kl changes by {change:+.3g} in {after} iterations at a mean GradScale of "
            f"{results[name][1]:.2g}",
            change > 0.1 if name == "Adam" else abs(change) < 0.1 * abs(moved),
        )


def _kl(training: Training) -> float:
    data, how = training.settings.data, training.settings.evaluation
    assert isinstance(data, KnownDensity)
    return compare_on_grid(training.energy, data, how.grid, how.widening)[0]["kl"]


def _take_negatives_away(training: Training) -> None:
    """From now on negatives are one place, 20 nats less likely than the data under the model."""
    settings = training.settings
    generator = torch.Generator().manual_seed(0)
    places = 3 * torch.randn(5000, 2, generator=generator)
    with torch.no_grad():
        gap = (
            training.energy(places) - training.energy(settings.data.sample(1000, generator)).mean()
        )
    place = places[(gap - 20).abs().argmin()]
    start = GaussianNoise(place.tolist(), std=0.01)
    settings.sources[0] = replace(settings.sources[0], start=start, steps=0)
