"""How the model shares its mass between the modes of a known density.

    p(mode k) = integral of p over the region of mode k

In two dimensions it is the sum over the cells of the grid. In others it is estimated by importance
sampling from the data's own density p_d: with x_i ~ p_d and w_i = exp(-U(x_i)) / p_d(x_i),

    p(mode k) = sum of w_i in the region of mode k / sum of all w_i.

No model's chains are needed, so that modes which exchange no chains are no obstacle. What the model
has where there is no data is not seen and not counted: shares are those of the mass near data.
The effective fraction of the weights says how far the estimate can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from coldness.data import KnownDensity
from coldness.energies import Energy
from coldness.likelihood.potential import potential

POINTS = 50_000
"""Points of the data that importance sampling uses."""


def mode_metrics(
    energy: Energy, data: KnownDensity, arrays: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, float]:
    """Shares of the model in comparison with the data's.

    mode_share and mode_share_data are those of the data's largest mode, mode_share_error the total
    variation of all. mode_share_ess is the effective fraction of points where shares are estimated.

    Args:
        energy: the model.
        data: with `mode_shares`.
        arrays: side and log_p_model of the grid, if there is one.
        generator: random number generator on the CPU.
    """
    assert data.mode_shares is not None
    metrics: dict[str, float] = {}
    if "log_p_model" in arrays:
        side = arrays["side"].cpu()
        x, log_w = torch.cartesian_prod(side, side), arrays["log_p_model"].cpu().flatten()
        w = torch.softmax(log_w, 0)
    else:
        x = data.sample(POINTS, generator)
        w = torch.softmax(-potential(energy, x).cpu() - data.log_prob(x), 0)
        metrics["mode_share_ess"] = float(1 / (w.square().sum() * len(w)))
    shares = torch.zeros_like(data.mode_shares).index_add_(0, data.mode_of(x), w)
    largest = int(data.mode_shares.argmax())
    return metrics | {
        "mode_share": float(shares[largest]),
        "mode_share_data": float(data.mode_shares[largest]),
        "mode_share_error": float((shares - data.mode_shares).abs().sum() / 2),
    }
