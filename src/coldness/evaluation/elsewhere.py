"""Looking for what nobody sampled: mass away from the data, mode weights, and tails.

The ends of AIS chains with their weights w are weighted samples of the model (likelihood/ais.py),
those of the wide Gaussian as far out as it reaches. They need no mixing between modes, so they say
what long chains that stay in one mode cannot:

    mass elsewhere     weighted fraction of ends whose nearest data point is farther away than
                       data points are from each other, in whitened coordinates
    mode weights       fractions of the model and of data in the cells of a k-means partition of
                       both; half the sum of differences, less what chance explains
    KL(model || data)  weighted mean of -U - log Z - log p_d, where p_d is known

    tails              fraction of random directions along which U grows by less than D log 2 while
                       the distance doubles, far outside: exp(-U) then cannot be normalised

What is looked at is stated: `searched` standard deviations of the wide Gaussian. A narrow mode far
away has a small basin and may be missed.
"""

from __future__ import annotations

import math

import torch
from sklearn.cluster import KMeans
from torch import Tensor

from coldness.data import KnownDensity
from coldness.diagnostics.distances import distances
from coldness.energies import Coordinates, Energy
from coldness.evaluation.ood import separation
from coldness.likelihood.ais import coordinates_of
from coldness.likelihood.bracket import LEAST_ESS, STANDARD_ERRORS, LogZ
from coldness.likelihood.potential import potential
from coldness.metrics import ELSEWHERE

NEIGHBOURS = 2000
"""Data points that ends of chains are compared with."""

FARTHEST = 0.999
MARGIN = 0.5
"""An end is away from the data if its nearest data point is farther than this quantile q of the
same distance among data points, plus a margin relative to q minus the median: in many dimensions,
all these distances are nearly equal."""

CELLS = 12
LEAST_PER_CELL = 25
"""Cells of the partition, and data points per cell that it needs."""

DIRECTIONS = 256
OCTAVES = (32.0, 64.0)
"""Directions and distances, in units of the data's scale, at which tails are looked at."""


def look_elsewhere(
    energy: Energy, x_data: Tensor, z: LogZ, generator: torch.Generator
) -> dict[str, float]:
    """Metrics of the model's mass away from the data, of its mode weights and of its tails.

    Args:
        energy: the model.
        x_data: examples (N, D).
        z: log Z with weighted samples.
        generator: on the CPU.
    """
    at = coordinates_of(energy, x_data)
    metrics = {"tail_flat": flat_tails(energy, at, x_data, generator)}
    if not z.searched:
        return {**metrics, "searched": 0.0}
    metrics["searched"] = 1.0
    share, y = z.log_w.softmax(0), at.whiten(z.x.to(x_data)).double()
    far = away_from(y, at.whiten(x_data).double())
    mass, error = fraction(share, far)
    metrics |= {"mass_elsewhere": mass, "mass_elsewhere_error": error}
    if mass > max(ELSEWHERE, STANDARD_ERRORS * error):
        metrics |= _place(share * far, z.x, x_data)
        metrics["auroc_elsewhere"] = _detected(energy, share * far, z.x, x_data)
    if effective(share) >= LEAST_ESS:
        # Modes may be apart in the data's own units or in whitened ones: the larger error counts.
        pairs = (y, at.whiten(x_data).double()), (z.x.double(), x_data.double())
        found = [mode_weights(share, *(p.flatten(1) for p in pair)) for pair in pairs]
        larger = max(found, key=lambda each: each.get("mode_weight_error", 0.0))
        metrics.update(larger)
    return metrics


def fraction(share: Tensor, chosen: Tensor) -> tuple[float, float]:
    """Weighted fraction of the chosen samples, and its standard error."""
    mass = float(share[chosen].sum())
    return mass, float((share.square() * (chosen.double() - mass).square()).sum().sqrt())


def away_from(y: Tensor, y_data: Tensor) -> Tensor:
    """Which points (M, D) are farther from all data (N, D) than data points are, (M,)."""
    centres, others = y_data[:NEIGHBOURS], y_data[NEIGHBOURS : 2 * NEIGHBOURS]
    if len(others) < len(centres):  # leave one out
        own = distances(centres, centres).fill_diagonal_(torch.inf).min(1).values
    else:
        own = distances(others, centres).min(1).values
    farthest = float(torch.quantile(own, FARTHEST))
    limit = farthest + MARGIN * (farthest - float(own.median()))
    return distances(y, centres).min(1).values > limit


def mode_weights(share: Tensor, y: Tensor, y_data: Tensor) -> dict[str, float]:
    """mode_weight_error: difference of the fractions in cells, less what chance explains."""
    n = len(y_data)
    cells = min(CELLS, n // LEAST_PER_CELL)
    if cells < 2:
        return {}
    likely = torch.multinomial(share, min(n, len(y)), replacement=True, generator=_fixed())
    means = KMeans(cells, n_init=3, random_state=0).fit(torch.cat([y_data, y[likely]]).numpy())
    of_data = torch.from_numpy(means.predict(y_data.numpy())).long()
    of_model = torch.from_numpy(means.predict(y.numpy())).long()
    d = torch.bincount(of_data, minlength=cells).double() / n
    p = torch.zeros(cells, dtype=torch.float64).index_add_(0, of_model, share)
    chosen = of_model[:, None] == torch.arange(cells)
    error = (share.square()[:, None] * (chosen.double() - p).square()).sum(0)
    error = (error + d * (1 - d) / n).sqrt()
    chance = float(error.sum()) * math.sqrt(2 / math.pi) / 2  # E|N(0, s^2)| = s sqrt(2 / pi)
    spread = float(error.norm()) * math.sqrt(1 - 2 / math.pi) / 2
    found = float((p - d).abs().sum()) / 2 - chance
    return {"mode_weight_error": max(0.0, found), "mode_weight_noise": spread}


def flat_tails(
    energy: Energy, at: Coordinates, x_data: Tensor, generator: torch.Generator
) -> float:
    """Fraction of directions along which exp(-U) does not fall fast enough to be normalised."""
    dimension = x_data[0].numel()
    direction = torch.randn(DIRECTIONS, dimension, generator=generator, dtype=torch.float64)
    direction = direction / direction.norm(dim=1, keepdim=True) * math.sqrt(dimension)
    near, far = (
        potential(energy, at.unwhiten(r * direction.to(x_data)).reshape(-1, *x_data.shape[1:]))
        for r in OCTAVES
    )
    grows = far - near > dimension * math.log(OCTAVES[1] / OCTAVES[0])
    return float((~grows).double().mean())  # NaN grows nowhere


def reverse_divergence(energy: Energy, data: KnownDensity, z: LogZ) -> dict[str, float]:
    """KL(model || data) from weighted samples of the model, with an interval of two errors."""
    share = z.log_w.softmax(0)
    if effective(share) < LEAST_ESS:
        return {}
    excess = -potential(energy, z.x) - z.estimate - data.log_prob(z.x)
    mean = float((share * excess).sum())
    error = float((share.square() * (excess - mean).square()).sum().sqrt())
    wide = STANDARD_ERRORS * error
    return {
        "reverse_kl": mean,
        "reverse_kl_low": mean - wide - (z.high - z.estimate),
        "reverse_kl_high": mean + wide + (z.estimate - z.low),
    }


def misplaced(u: Tensor, log_p_data: Tensor, z: LogZ) -> float:
    """Total variation from points of p_d: the mean of max(0, 1 - p / p_d)."""
    return float((1 - (-u - z.estimate - log_p_data).exp()).clamp(min=0).mean())


def _place(weight: Tensor, x: Tensor, x_data: Tensor) -> dict[str, float]:
    """Where that mass is: the coordinate in which its mean deviates most from the data's."""
    centre = (weight[:, None] * x.double().flatten(1)).sum(0) / weight.sum()
    data = x_data.double().flatten(1)
    deviation = (centre - data.mean(0)) / data.std(0)
    k = int(deviation.abs().argmax())
    return {
        "elsewhere_dimension": float(k + 1),
        "elsewhere_value": float(centre[k]),
        "elsewhere_deviation": float(deviation[k]),
    }


def _detected(energy: Energy, weight: Tensor, x: Tensor, x_data: Tensor) -> float:
    """AUROC of -U between data and that mass: whether the model itself ranks data above it."""
    pick = torch.multinomial(weight, len(x_data), replacement=True, generator=_fixed())
    u_data, u = potential(energy, x_data), potential(energy, x[pick].to(x_data))
    return separation(-u_data.numpy(), -u.numpy())["auroc"]


def effective(share: Tensor) -> float:
    """Effective fraction of samples with these normalised weights."""
    return float(1 / (share.square().sum() * len(share)))


def _fixed() -> torch.Generator:
    """A choice that is the same every time, because it serves the partition alone."""
    return torch.Generator().manual_seed(0)
