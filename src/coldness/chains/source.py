"""A source: one stream of negatives.

    start + kernel + number of steps + number of chains + weight

A model trains on a list of sources. With beta = 0 and weights 1 (noise start) and lambda (data
start) the list is the hybrid loss; with beta != 0 the weights multiply the importance weights over
the union of all sources.

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Eq. 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from coldness.chains.base import Start
from coldness.energies.base import Energy
from coldness.kernels import Chains, ConstantSteps, Kernel, StepSchedule, run
from coldness.schedules import Schedule


@dataclass
class Source:
    """One stream of negatives.

    Args:
        start: where chains begin.
        kernel: the transition.
        steps: how many, >= 0.
        count: number of chains; null for the batch size.
        weight: > 0; lambda in the hybrid loss.
        step_schedule: how the step changes along a chain.
        step_scale: what the step is multiplied by, a number or a schedule over training.
    """

    start: Start
    kernel: Kernel
    steps: int = 20
    count: int | None = None
    weight: float = 1.0
    step_schedule: StepSchedule = field(default_factory=ConstantSteps)
    step_scale: float | Schedule = 1.0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must be >= 0, got {self.steps}")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count must be >= 1, got {self.count}")
        if not self.weight > 0:
            raise ValueError(f"weight must be > 0, got {self.weight}")

    def chains_for(self, batch_size: int) -> int:
        return batch_size if self.count is None else self.count

    def draw(
        self,
        energy: Energy,
        x_data: Tensor,
        generator: torch.Generator,
        *,
        tempering: float,
        step_scale: float = 1.0,
        compiled: bool = False,
    ) -> Chains:
        """Negatives for this batch: chains are started, run on t * U, and returned to the start."""
        at = energy.coordinates
        count = self.chains_for(len(x_data))
        x, slots = self.start.draw(count, x_data, at, generator)
        chains = self._run(energy, x, self.steps, generator, tempering, step_scale, compiled)
        self.start.put(slots, chains.x, self.steps)
        return chains

    def sample(
        self,
        energy: Energy,
        x_data: Tensor,
        count: int,
        generator: torch.Generator,
        *,
        steps: int | None = None,
        step_scale: float = 1.0,
        compiled: bool = False,
    ) -> Chains:
        """Fresh chains of the model itself (no tempering), `steps` long; null for the source's."""
        x = self.start.fresh(count, x_data, energy.coordinates, generator)
        steps = self.steps if steps is None else steps
        return self._run(energy, x, steps, generator, 1.0, step_scale, compiled)

    def _run(
        self,
        energy: Energy,
        x: Tensor,
        steps: int,
        generator: torch.Generator,
        tempering: float,
        step_scale: float,
        compiled: bool,
    ) -> Chains:
        return run(
            self.kernel,
            energy,
            x,
            steps=steps,
            generator=generator,
            tempering=tempering,
            step_size=self.kernel.step_size * step_scale,
            schedule=self.step_schedule,
            compiled=compiled,
        )
