"""A step size that follows the model: adapted during training to a target acceptance.

    log s <- log s + rate * (acceptance - target)

s multiplies the kernel's step. Acceptance is that of the iteration's own chains where the kernel
refuses moves; where it does not, that of a Metropolis test on the side, one move from where the
chains ended, which is measured and not made.

The gain is constant, unlike that of dual averaging (kernels/step_size.py): the network moves at
every update, so there is no step to converge to, only one to follow. s belongs to U itself; chains
of training follow t * U, whose scales are 1/sqrt(t) as wide, and so is the noise of their steps
(`step_size`). A step that is wrong for a while gives bad samples for a while, which weights
(beta > 0) discount.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 5 (which asks
    for it) and appendix A.3.
    A tutorial on adaptive MCMC (Andrieu, Thoms, 2008), section 4.2.2 (the recursion).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.chains.base import Adaptation
from coldness.energies.base import Energy
from coldness.kernels import Chains, Kernel, StepSchedule, run


@dataclass
class StepAdaptation(Adaptation):
    """Follows a target acceptance.

    Args:
        target: acceptance to hold: 0.57 is optimal for long MALA chains; short chains from noise
            want to travel, so less.
        rate: gain; the step changes by at most this share an iteration.
        range: the step on U stays within this factor of the kernel's own, both ways.
    """

    target: float = 0.57
    rate: float = 0.02
    range: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError(f"target must be between 0 and 1, got {self.target}")
        if not self.rate > 0 or not self.range > 1:
            raise ValueError(f"rate must be > 0 and range > 1, got {self.rate} and {self.range}")

    @property
    def description(self) -> str:
        return f"adapted during training to an acceptance of {self.target:g}"

    def check(self, kernel: Kernel, schedule: StepSchedule) -> None:
        if not schedule.is_constant:
            raise ValueError("a step that is adapted cannot follow a schedule along the chain too")
        kernel.adjusted_twin()  # says why there is none

    def step_size(self, h: float, kernel: Kernel, tempering: float) -> Tensor:
        if not tempering > 0:
            raise ValueError(
                f"an adapted step needs chains that follow the energy, not {tempering:.3g} U"
            )
        wider = kernel.step_for_noise(tempering**-0.5) / kernel.step_for_noise(1.0)
        return h * wider * self.scale

    def after(
        self,
        energy: Energy,
        kernel: Kernel,
        chains: Chains,
        *,
        steps: int,
        step_size: Tensor | float,
        tempering: float,
        generator: torch.Generator,
    ) -> None:
        if not kernel.adjusted:
            chains.acceptance = run(
                kernel.adjusted_twin(),
                energy,
                chains.x,
                steps=1,
                generator=generator,
                tempering=tempering,
                step_size=step_size,
            ).acceptance
        if steps or not kernel.adjusted:
            self.update(chains.acceptance)

    def update(self, acceptance: Tensor) -> None:
        """After an iteration whose moves were accepted with this mean probability.

        An acceptance that is not a number stays one in the step, and so reaches the guard.
        """
        limit = math.log(self.range)
        moved = self.log_scale.to(acceptance) + self.rate * (acceptance - self.target)
        self.log_scale = moved.clamp(-limit, limit)
