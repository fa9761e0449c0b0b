"""A step size divided by a norm on the data: large while the energy is flat, small when steep.

    s = 1 / n,     n = mean over the data batch of |dE(x)|     (of: gradient)
                                             or of |E(x)|      (of: energy)

The factor s multiplies the kernel's step; E is the energy of the current network, without coldness.
The paper sets eps = 0.0005 / ||E(x)|| in x' = x - eps dE(x) + sqrt(2 eps T) xi, at temperature
T = 1/c. That is a step h = eps / c on U, so the kernel's own step is 0.0005 / c. The paper does not
say whether the norm is that of the energy or of its gradient. An energy is only defined up to a
constant and its gradient is unique, so the gradient is the default. The mean length of the drift at
the data is then c times the kernel's own step (0.0005 in the paper), whatever the scale of E.

Gradients are measured in the coordinates that kernels move in, L^T dE; without a preconditioner
they are dE. The gradient norm costs one extra gradient evaluation per iteration, the energy norm
one extra forward pass. No value is copied from the device to the host.
Not to be confused with `StepAdaptation`, which adapts the step to a target acceptance rate.

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 3 (synthetic dataset; data and hybrid initialisation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from coldness.chains.base import Adaptation
from coldness.energies.base import Energy
from coldness.kernels.run import frozen, tempered_field


@dataclass
class InverseNormSteps(Adaptation):
    """Divides the step by the mean norm of the energy's gradient, or of the energy, on the data.

    Args:
        of: the norm: `gradient` for |dE(x)|, `energy` for |E(x)|.
        range: largest factor, > 1, by which the step may exceed or fall below the kernel's own
            step.
    """

    of: Literal["gradient", "energy"] = "gradient"
    range: float = 1000.0
    begins_at_own_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.of not in ("gradient", "energy"):
            raise ValueError(f"of must be gradient or energy, got {self.of}")
        if not self.range > 1:
            raise ValueError(f"range must be > 1, got {self.range}")

    @property
    def description(self) -> str:
        norm = "|dE|" if self.of == "gradient" else "|E|"
        return f"divided at every iteration by the mean {norm} on the data; shown for a mean of 1"

    def before(self, energy: Energy, x_data: Tensor) -> None:
        """Sets the scale. If the norm is NaN or infinite, the step is NaN and the guard sees it."""
        n = self._norm(energy, x_data)
        limit = math.log(self.range)
        log_scale = (-n.log()).clamp(-limit, limit)
        self.log_scale = torch.where(n.isfinite(), log_scale, math.nan)

    def _norm(self, energy: Energy, x_data: Tensor) -> Tensor:
        with frozen(list(energy.modules())), torch.no_grad():
            if self.of == "energy":
                return energy.energy(x_data).abs().mean()
            _, gradient = tempered_field(energy.energy, x_data.new_ones(()))(x_data)
            return energy.coordinates.pull(gradient).flatten(1).norm(dim=1).mean()
