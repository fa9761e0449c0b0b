"""Log-likelihood in nats, and KL(p_d || p) where p_d is known, in any dimension.

    log p(x)        = -U(x) - log Z
    log-likelihood  = mean of log p over test points
    KL(p_d || p)    = mean of (log p_d + U) over points of p_d, + log Z

The mean of log p_d + U varies far less than that of U: for a correct model it is a constant.
Brackets are those of log Z (likelihood/bracket.py), widened by two standard errors of the mean for
KL, whose points are a random sample; a log-likelihood is that of the given points.
"""

from __future__ import annotations

import math

import torch
from scipy.stats import gaussian_kde, multivariate_normal
from torch import Tensor

from coldness.data import HeldOut, KnownDensity
from coldness.energies import Energy
from coldness.likelihood.bracket import STANDARD_ERRORS, LogZ
from coldness.likelihood.potential import potential

SCORED = 20_000
"""Most points of each part that are scored, and most centres of the kernel density estimate."""


def log_likelihood(u: Tensor, z: LogZ, log_scale: float = 0.0) -> dict[str, float]:
    """Bracket of the log-likelihood of points with potentials u (N,), in the data's own units."""
    mean = -float(u.mean()) - log_scale
    return {
        "log_likelihood_test": mean - z.estimate,
        "log_likelihood_low": mean - z.high,
        "log_likelihood_high": mean - z.low,
    }


def divergence(u: Tensor, log_p_data: Tensor, z: LogZ) -> dict[str, float]:
    """KL(p_d || p) from points of p_d with potentials u and log p_d, both (N,), as a bracket."""
    excess = log_p_data + u
    mean, error = float(excess.mean()), float(excess.std()) / math.sqrt(len(excess))
    return {
        "kl": mean + z.estimate,
        "kl_low": mean + z.low - STANDARD_ERRORS * error,
        "kl_high": mean + z.high + STANDARD_ERRORS * error,
    }


def of_known(energy: Energy, data: KnownDensity, x: Tensor, z: LogZ) -> dict[str, float]:
    """Log-likelihood and KL of data with a known density, from points x (N, ...) of it."""
    u = potential(energy, x)
    return {**log_likelihood(u, z), **divergence(u, data.log_prob(x), z)}


def of_held_out(energy: Energy, data: HeldOut, z: LogZ) -> dict[str, float]:
    """Log-likelihood of held-out points and of training points."""
    scored, train = data.scored[:SCORED], data.train[:SCORED]
    metrics = log_likelihood(potential(energy, scored), z, data.domain.log_scale_of(scored))
    if not data.has_training_part:
        return metrics
    mean = float(potential(energy, train).mean()) + data.domain.log_scale_of(train)
    metrics["log_likelihood_train"] = -mean - z.estimate
    return metrics


def plain_models(data: HeldOut) -> dict[str, float]:
    """Log-likelihood of held-out points under two plain models of the training points.

    log_likelihood_gaussian    Gaussian with their moments
    log_likelihood_kde         Gaussian kernels at each, Scott's bandwidth

    Empty where there are fewer training points than dimensions, or where points are not vectors:
    these densities do not exist then.
    """
    train, test = data.train[:SCORED].double(), data.test[:SCORED].double()
    if train.dim() != 2 or len(train) <= train.shape[1]:
        return {}
    log_scale = data.domain.log_scale_of(test)
    x, centres = test.numpy(), train.T.numpy()
    covariance = torch.cov(train.T, correction=0).reshape(len(centres), len(centres))
    gaussian = multivariate_normal(centres.mean(1), covariance.numpy())
    return {
        "log_likelihood_gaussian": float(gaussian.logpdf(x).mean()) - log_scale,
        "log_likelihood_kde": float(gaussian_kde(centres).logpdf(x.T).mean()) - log_scale,
    }
