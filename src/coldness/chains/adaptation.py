"""A step size that follows the model: adapted during training to a target acceptance.

    log s <- log s + rate * (acceptance - target)

s multiplies the kernel's step. Acceptance is that of the iteration's own chains where the kernel
refuses moves; where it does not, that of a Metropolis test on the side, one move from where the
chains ended, which is measured and not made.

The gain is constant, unlike that of dual averaging (kernels/step_size.py): the network moves at
every update, so there is no step to converge to, only one to follow. s belongs to U itself; chains
of training follow t * U, whose scales are 1/sqrt(t) as wide, and so is the noise of their steps
(chains/source.py). A step that is wrong for a while gives bad samples for a while, which weights
(beta > 0) discount.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 5 (which asks
    for it) and appendix A.3.
    A tutorial on adaptive MCMC (Andrieu, Thoms, 2008), section 4.2.2 (the recursion).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class StepAdaptation:
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
    log_scale: Tensor = field(default_factory=lambda: torch.zeros(()), init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise ValueError(f"target must be between 0 and 1, got {self.target}")
        if not self.rate > 0 or not self.range > 1:
            raise ValueError(f"rate must be > 0 and range > 1, got {self.rate} and {self.range}")

    @property
    def scale(self) -> Tensor:
        """What the kernel's step is multiplied by in chains on U; a number."""
        return self.log_scale.exp()

    def update(self, acceptance: Tensor) -> None:
        """After an iteration whose moves were accepted with this mean probability.

        An acceptance that is not a number stays one in the step, and so reaches the guard.
        """
        limit = math.log(self.range)
        moved = self.log_scale.to(acceptance) + self.rate * (acceptance - self.target)
        self.log_scale = moved.clamp(-limit, limit)
