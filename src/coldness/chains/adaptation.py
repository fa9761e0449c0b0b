"""Step-size adaptation during training to a target acceptance rate.

    log s <- log s + rate * (acceptance - target)

The factor s multiplies the kernel's step. If the kernel has a Metropolis test, acceptance is
measured on the chains of the iteration. If it has none, one extra move with a Metropolis test is
proposed from the ends of the chains; its acceptance is measured, but the move is not made.

The gain is constant, unlike that of dual averaging (kernels/step_size.py). The network changes at
every update, so the best step size changes too, and s follows it instead of converging. The factor
s is defined for U itself. Chains of training follow t * U, whose length scales are wider by a
factor of 1/sqrt(t), and the noise of their steps is scaled by the same factor (`step_size`). While
the step is wrong, samples are bad; weights (beta > 0) reduce their influence.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 5 (which
    proposes it) and appendix A.3.
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
    """Adapts the step size to a target acceptance rate.

    Args:
        target: acceptance rate to hold, between 0 and 1: 0.57 is optimal for long MALA chains;
            short chains from noise must travel far and do better with a lower target.
        rate: gain; the largest relative change of the step size per iteration.
        range: largest factor, > 1, by which the step on U may exceed or fall below the kernel's
            own step.
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
            raise ValueError(
                "an adapted step cannot also follow a schedule along the chain: "
                "use a constant step_schedule, or no adaptation"
            )
        kernel.adjusted_twin()  # raises ValueError, with the reason, if there is none

    def step_size(self, h: float, kernel: Kernel, tempering: float) -> Tensor:
        if not tempering > 0:
            raise ValueError(
                f"tempering must be > 0 where the step is adapted, got {tempering:.3g}"
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
        """Updates the step after an iteration with this mean acceptance probability.

        If the acceptance is NaN, the step becomes NaN too, so that the guard notices it.
        """
        limit = math.log(self.range)
        moved = self.log_scale.to(acceptance) + self.rate * (acceptance - self.target)
        self.log_scale = moved.clamp(-limit, limit)
