"""Whether long chains have converged to the potentials of the data.

    shift    (mean U of long-run chains - mean U of data) / standard deviation of U of data
    change   (median U at the end - median U half way) / standard deviation of U of data

    converged      |shift| and |change| are small and samples are near the data: long chains have
                   the potentials of data, and look like it
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

from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

State = Literal["converged", "drifting", "oversaturated"]

SHIFT = 0.5
CHANGE = 0.25

FAR = 40.0
"""Times the floor of the energy distance. With 4000 samples of mixture2d: less than one large mode
of eight is lost (50), and a single Gaussian with the data's mean and spread (58) fails."""

JUDGED_SAMPLES = 4000
"""Number of samples that limits in multiples of the floor are for. The floor falls as 1 / samples
and an error does not: with fewer samples, the allowed excess over the floor shrinks in
proportion."""


def shift(u_long: Tensor, u_data: Tensor) -> float:
    """The shift of potentials (N,) of long-run chains against potentials (M,) of data."""
    return float((u_long.double().mean() - u_data.double().mean()) / u_data.double().std())


def change(steps: Sequence[int], medians: Sequence[float], u_data: Tensor) -> float:
    """The change from the record nearest to half of the last step to the last record."""
    half = min(range(len(steps)), key=lambda k: abs(steps[k] - steps[-1] / 2))
    return float((medians[-1] - medians[half]) / u_data.double().std())


def allowed(times: float, samples: float) -> float:
    """A limit in multiples of the floor, for this number of samples."""
    return 1 + (times - 1) * min(1.0, samples / JUDGED_SAMPLES)


def far_from_data(metrics: Mapping[str, float]) -> bool:
    """Whether samples of long chains are not like the data, whatever their potentials are.

    Not asked of images that were compared in features: distances of pixels say little about them.
    """
    if any(key.startswith("kid_") and key.endswith("_long") for key in metrics):
        return False
    distance, floor = metrics.get("energy_distance_long"), metrics.get("energy_distance_floor")
    if distance is None or floor is None or not floor > 0:
        return False
    return not distance / floor < allowed(FAR, metrics.get("samples", JUDGED_SAMPLES))


def state_of(metrics: Mapping[str, float]) -> State | None:
    """The state according to metrics.json; None where long chains were not measured."""
    if "u_shift" not in metrics or "u_drift" not in metrics:
        return None
    return state(metrics["u_shift"], metrics["u_drift"], far_from_data(metrics))


def state(shift: float, change: float, far: bool = False) -> State:
    """The state for this shift and change; NaN counts as drifting, and so do samples far off."""
    if abs(shift) < SHIFT and abs(change) < CHANGE and not far:
        return "converged"
    return "oversaturated" if shift <= -SHIFT else "drifting"
