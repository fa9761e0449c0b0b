"""Whether long chains have converged to the potentials of the data.

    shift    (mean U of long-run chains - mean U of data) / standard deviation of U of data
    change   (median U at the end - median U half way) / standard deviation of U of data

    converged      |shift| and |change| are small: long chains have the potentials of data
    oversaturated  shift is far below 0: the model has states of much lower potential than data
    drifting       anything else: chains are still moving towards the data, or leave it

A shift of 0.5 is half a standard deviation: with equal spreads, the two histograms of energies
overlap by 80%. Stationary chains change by less than a tenth between half way and the end; with
several hundred chains, a change of a quarter cannot be explained by sampling noise.

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
    """The shift of potentials (N,) of long-run chains against potentials (M,) of data."""
    return float((u_long.double().mean() - u_data.double().mean()) / u_data.double().std())


def change(steps: Sequence[int], medians: Sequence[float], u_data: Tensor) -> float:
    """The change from the record nearest to half of the last step to the last record."""
    half = min(range(len(steps)), key=lambda k: abs(steps[k] - steps[-1] / 2))
    return float((medians[-1] - medians[half]) / u_data.double().std())


def state(shift: float, change: float) -> State:
    """The state for this shift and change; NaN counts as drifting."""
    if abs(shift) < SHIFT and abs(change) < CHANGE:
        return "converged"
    return "oversaturated" if shift <= -SHIFT else "drifting"
