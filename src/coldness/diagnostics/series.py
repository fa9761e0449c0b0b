"""Metrics of training for metrics.json, from the series in metrics.csv.

Of the last 2,000 iterations, or of all if there are fewer:

    health_window      number of these iterations
    beta               at the end
    expansion_share    fraction of updates with a contrast below 0; contraction_share: above 0
    d_size             median |d|, in nats; d_growth is the median |d| of the last twentieth over
                       that of the first half; the largest over all sources
    variance_ratio     of d; variance_ratio_limit is the limit below which oscillation is strong
    d_lag_1 ... 3      autocorrelations of detrended d; r_lag_1 ... 3 of r; d_lowest and r_lowest
                       are the lowest over lags 1 to 15, which is -0.04 by chance
    d_then_r           correlation of d_t and r_{t+1}: below 0 if contraction flattens the energy
    d_with_r           of d_t and r_t: above 0 if steep energies bring chains below the data
    loss_variance      of D = U(x+_n) - U(x-_n) over pairs of a batch, for every source
    loss_snr           mean of d over the square root of loss_variance, for every source
    weight_ess_median, weight_ess_least, largest_weight_median, grad_scale_median,
    starved_share      how much weights leave of negatives and updates (weights.py)
    updates_made       fraction of all iterations with a learning rate above 0 and an update
    bank_outside       fraction of a bank's chains far outside the data, at the end

Keys of further sources are those of `coldness.metrics.source_key`. Correlations and the variance
ratio are of r of the first source and the d of its contrast. The contrast is d where there is one
source without beta, else the loss: the weighted difference that descent brings to 0
(oscillation.py, `balance`). A loss to which terms were added is not that; the column `contrast`,
where there is one, takes its place.

NaN and infinite metrics are kept as they are. Constant series, such as r of chains without steps,
have no correlations.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from coldness.diagnostics.losses import signal_to_noise
from coldness.diagnostics.oscillation import (
    LEAST,
    WINDOW,
    autocorrelation,
    balance,
    cross_correlation,
    detrended,
    oscillation,
)
from coldness.diagnostics.weights import starved_share, weight_health
from coldness.metrics import of_sources, source_key

Array = NDArray[np.float64]
Columns = Mapping[str, Array]

SHOWN_LAGS = 3


def health_metrics(columns: Columns, window: int = WINDOW) -> dict[str, float]:
    """The metrics above, of the available columns; empty without d or with fewer than two rows."""
    if len(columns.get("d", ())) < 2:
        return {}
    last = {name: np.asarray(values, np.float64)[-window:] for name, values in columns.items()}
    metrics = {"health_window": float(len(last["d"]))}
    if "beta" in last:
        metrics["beta"] = float(last["beta"][-1])
    shares = balance(_contrast(last))
    metrics |= {"expansion_share": shares.expansion, "contraction_share": shares.contraction}
    sizes = [np.abs(last[name]) for name in _all(last, "d")]
    metrics["d_size"] = float(np.max([np.median(size) for size in sizes]))
    metrics["d_growth"] = float(np.max([_growth(size) for size in sizes]))
    metrics |= {**_correlations(last), **_losses(last), **_weights(last)}
    metrics |= _updates(columns)
    return metrics | {n: float(last[n][-1]) for n in _all(last, "bank_outside")}


def _updates(columns: Columns) -> dict[str, float]:
    """The fraction of all iterations that changed the network; empty where it was not logged."""
    if "learning_rate" not in columns:
        return {}
    made = np.asarray(columns["learning_rate"]) != 0
    if "left_out" in columns:
        made &= np.asarray(columns["left_out"]) == 0
    return {"updates_made": float(made.mean())}


def _all(columns: Columns, name: str) -> list[str]:
    """Columns of every source."""
    return list(of_sources(columns, name).values())


def _contrast(columns: Columns) -> Array:
    if "contrast" in columns:
        return columns["contrast"]
    weighted = any((columns[name] != 0).any() for name in _all(columns, "beta"))
    if "loss" in columns and (weighted or len(_all(columns, "d")) > 1):
        return columns["loss"]
    return columns["d"]


def _growth(size: Array) -> float:
    """The growth of |d| within the window; 1 if it did not change, even from 0."""
    before = np.median(size[: max(1, len(size) // 2)])
    after = np.median(size[-max(1, len(size) // 20) :])
    with np.errstate(divide="ignore", invalid="ignore"):
        return 1.0 if before == after else float(np.divide(after, before))


def _correlations(columns: Columns) -> dict[str, float]:
    d = columns["d"]
    if len(d) < LEAST:
        return {}
    found = oscillation(d)
    metrics = {"variance_ratio": found.ratio, "variance_ratio_limit": found.limit}
    moving = [name for name in ("d", "r") if name in columns and np.ptp(columns[name]) != 0]
    rest = {name: detrended(columns[name]) for name in moving}
    for name, x in rest.items():
        c = autocorrelation(x)
        metrics |= {f"{name}_lag_{k}": float(c[k]) for k in range(1, SHOWN_LAGS + 1)}
        metrics[f"{name}_lowest"] = float(c[1:].min())
    if len(rest) == 2:
        before, same, _ = cross_correlation(rest["d"], rest["r"], lags=1)
        metrics |= {"d_then_r": float(before), "d_with_r": float(same)}
    return metrics


def _losses(columns: Columns) -> dict[str, float]:
    """Variance and SNR of every source; if sources share a contrast, d_source is the first's d."""
    metrics = {}
    for k, name in of_sources(columns, "d_std").items():
        d = columns.get(source_key("d_source", k), columns.get(source_key("d", k)))
        variance = float(np.mean(columns[name] ** 2))
        metrics[source_key("loss_variance", k)] = variance
        if d is not None:
            snr = float(signal_to_noise(np.mean(d), np.sqrt(variance)))
            metrics[source_key("loss_snr", k)] = snr
    return metrics


def _weights(columns: Columns) -> dict[str, float]:
    """Metrics of weights; empty without beta and without weights of chains: they are then even."""
    scales = of_sources(columns, "grad_scale")
    carried = bool(of_sources(columns, "bank_weight_ess"))
    metrics = {}
    for k, name in scales.items():
        ess, largest, beta = (
            columns.get(source_key(n, k)) for n in ("weight_ess", "largest_weight", "beta")
        )
        if ess is None or largest is None or beta is None:
            continue
        if not (beta != 0).any() and not carried:
            continue
        found = weight_health(ess, largest, columns[name])
        metrics[source_key("weight_ess_median", k)] = found.ess
        metrics[source_key("weight_ess_least", k)] = found.least_ess
        metrics[source_key("largest_weight_median", k)] = found.largest
        metrics[source_key("grad_scale_median", k)] = found.grad_scale
    if metrics:
        metrics["starved_share"] = starved_share([columns[name] for name in scales.values()])
    return metrics
