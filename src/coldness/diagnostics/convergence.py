"""Whether long chains have converged to what the data looks like under the model.

    shift    (mean U of long-run chains - mean U of data) / standard deviation of U of data
    change   (median U at the end - median U half way) / the same

    converged      |shift| and |change| small: long chains look to the model as data does
    oversaturated  shift far below 0: the model has states that it likes much better than data
    drifting       anything else: chains are still under way, or leave

A shift of 0.5 is half a standard deviation: with equal spreads, the two histograms of energies
overlap by 80%. Chains that are stationary change by less than a tenth between half way and the end;
a quarter is outside what sampling explains with several hundred chains.

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Figs. 5 and 9: histograms of energies and energies over steps.
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 3.3, on oversaturated long-run samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

State = Literal["converged", "drifting", "oversaturated"]

SHIFT = 0.5
CHANGE = 0.25


def shift(u_long: Tensor, u_data: Tensor) -> float:
    """Of potentials (N,) and (M,)."""
    return float((u_long.double().mean() - u_data.double().mean()) / u_data.double().std())


def change(steps: Sequence[int], medians: Sequence[float], u_data: Tensor) -> float:
    """From the note nearest to half of the last step, to the last."""
    half = min(range(len(steps)), key=lambda k: abs(steps[k] - steps[-1] / 2))
    return float((medians[-1] - medians[half]) / u_data.double().std())


def state(shift: float, change: float) -> State:
    """NaN is drifting."""
    if abs(shift) < SHIFT and abs(change) < CHANGE:
        return "converged"
    return "oversaturated" if shift <= -SHIFT else "drifting"
