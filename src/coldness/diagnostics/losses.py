"""The noise of the computational loss, and how much pairing data with chains reduces it.

The computational loss of a source is d = mean over n of D_n, D_n = U(x+_n) - U(x-_n), and

    Var[D] = Var[U(x+)] + Var[U(x-)] - 2 Cov[U(x+), U(x-)],     Var[d] = Var[D] / N

Chains that start at noise or in a bank are independent of the data of the batch: the covariance is
0. Short chains that start at the data stay similar to it: the covariance is positive and the loss
less noisy. The columns d, d_std, u_data_std and u_model_std of metrics.csv are sufficient (they are
on U; ratios and signs are the same on E).

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 4.2.3 and Fig. 6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def signal_to_noise(mean: ArrayLike, std: ArrayLike, n: int = 1) -> Array:
    """Mean over standard deviation of the loss, sqrt(n) mean / std, with its sign (Fig. 6B).

    If std is 0: infinite, or NaN if the mean is 0 too.

    Args:
        mean: of the differences D over a batch: d.
        std: of the differences over a batch: d_std.
        n: 1 for the ratio of a single pair; the batch size for that of the mean of independent
            pairs, whose standard deviation is std / sqrt(n).
    """
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n}")
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(n) * np.asarray(mean, np.float64) / np.asarray(std, np.float64))


def paired_covariance(
    std_data: ArrayLike, std_model: ArrayLike, std_difference: ArrayLike
) -> Array:
    """Cov[U(x+), U(x-)] = (s+^2 + s-^2 - s_D^2) / 2, from the three standard deviations.

    All three must be of the same batch and have the same correction (0 in metrics.csv).

    Args:
        std_data: s+, of the data's potentials: u_data_std.
        std_model: s-, of the chains': u_model_std.
        std_difference: s_D, of the differences: d_std.
    """
    data, model, difference = (
        np.asarray(s, np.float64) for s in (std_data, std_model, std_difference)
    )
    return np.asarray((data**2 + model**2 - difference**2) / 2)
