"""A step size divided by a norm on the data: large while the energy is flat, small where steep.

    s = 1 / n,     n = mean over the data batch of |dE(x)|     (of: gradient)
                                             or of |E(x)|      (of: energy)

s multiplies the kernel's step; E is without coldness, at the current network. The paper sets
eps = 0.0005 / ||E(x)|| in x' = x - eps dE(x) + sqrt(2 eps T) xi, at temperature T = 1/c; that is
step h = eps / c on U, so the kernel's own step is 0.0005 / c. Whether its norm is of the energy or
of the energy's gradient it does not say: an energy is only known up to a constant, its gradient is
not, so that is the default. With it, the drift of a step at the data has the length of eps alone.

Gradients are measured in the coordinates that kernels move in, L^T dE; without a preconditioner
they are dE. The gradient takes one more gradient evaluation an iteration, the energy one more
forward pass. Nothing is read back from the device.
Not to be confused with `StepAdaptation`, which follows an acceptance.

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
        of: `gradient` for |dE(x)|, `energy` for |E(x)|.
        range: the step stays within this factor of the kernel's own, both ways.
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
        return f"divided at every iteration by the mean {norm} of the data; these are where it is 1"

    def before(self, energy: Energy, x_data: Tensor) -> None:
        """A norm that is not finite makes a step that is not a number, which reaches the guard."""
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
