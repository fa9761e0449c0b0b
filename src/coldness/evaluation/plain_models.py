"""Plain models of the training rows of a table, as people use them now, by held-out log-likelihood.

    log_likelihood_mixture    Gaussian mixture with full covariances, its components chosen by BIC
    log_likelihood_kde_cv     equal Gaussian kernels at each row, the bandwidth h chosen by
                              leaving out one row at a time:

        max_h  mean_i log 1/(n - 1) sum_{j != i} N(y_i; y_j, h^2)

Both work in the units of the model, where columns have a standard deviation of one, and are given
in the units of the data. At most FITTED training rows are used.

References:
    Estimating the dimension of a model (Schwarz, 1978), for BIC.
    Choice of smoothing parameters for kernel density estimators (Duin, 1976), for h.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch import Tensor

from coldness.data import HeldOut
from coldness.evaluation.likelihood import SCORED

FITTED = 2000
"""Most training rows that plain models are fitted to, so that they take seconds."""

COMPONENTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers that BIC chooses from; larger ones are left out after two that are no better."""

BANDWIDTHS = tuple(0.05 * 1.25**k for k in range(16))
"""From 0.05 to 1.4 standard deviations."""

ROWS_AT_ONCE = 500

Array = NDArray[np.float64]


def fitted_models(data: HeldOut) -> dict[str, float]:
    """Log-likelihood of held-out points under both, and what was chosen.

    Empty where there are fewer training rows than columns, as for the models in likelihood.py.
    """
    train, test = data.train[:FITTED].double(), data.test[:SCORED].double()
    if len(train) <= train.shape[1]:
        return {}
    log_scale = data.domain.log_scale_of(test)
    mixture = mixture_by_bic(train.numpy())
    bandwidth = bandwidth_by_leaving_out(train)
    return {
        "log_likelihood_mixture": float(mixture.score(test.numpy())) - log_scale,
        "mixture_components": float(mixture.n_components),
        "log_likelihood_kde_cv": float(kernel_log_p(test, train, bandwidth).mean()) - log_scale,
        "kde_bandwidth": bandwidth,
    }


def mixture_by_bic(rows: Array) -> GaussianMixture:
    """scikit-learn's mixture with the lowest BIC on rows (N, D)."""
    best, lowest, worse = None, math.inf, 0
    for k in (k for k in COMPONENTS if k == 1 or k <= len(rows) // 2):
        with warnings.catch_warnings(), threadpool_limits(1):  # more threads are ten times slower
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = GaussianMixture(k, random_state=0).fit(rows)
        bic = float(found.bic(rows))
        worse = 0 if bic < lowest else worse + 1
        if best is None or bic < lowest:
            best, lowest = found, bic
        if worse == 2:
            break
    assert best is not None
    return best


def bandwidth_by_leaving_out(rows: Tensor) -> float:
    """The h of BANDWIDTHS under which each of rows (N, D) is likeliest by all others."""
    totals = torch.zeros(len(BANDWIDTHS), dtype=torch.float64)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part = rows[first : first + ROWS_AT_ONCE]
        squares = torch.cdist(part, rows).square()
        squares[torch.arange(len(part)), first + torch.arange(len(part))] = math.inf
        for k, h in enumerate(BANDWIDTHS):
            log_sum = torch.logsumexp(-squares / (2 * h * h), 1)
            totals[k] += (log_sum - rows.shape[1] * math.log(h)).sum()
    return BANDWIDTHS[int(totals.argmax())]


def kernel_log_p(points: Tensor, centres: Tensor, bandwidth: float) -> Tensor:
    """log of the mean of Gaussians of this bandwidth around centres (K, D), at points: (N,)."""
    constant = centres.shape[1] * math.log(bandwidth * math.sqrt(2 * math.pi))
    found = [
        torch.logsumexp(-torch.cdist(part, centres).square() / (2 * bandwidth**2), 1)
        for part in points.split(ROWS_AT_ONCE)
    ]
    return torch.cat(found) - constant - math.log(len(centres))
