"""Latent guidance (CLEL): the direction of the energy's outputs follows a teacher's latents.

    -b mean_i v(x_i) . sg(z_i)  +  the loss of the teacher                            (Eq. 12)

v(x) is the energy's direction, b its guidance, and z the teacher's latent of the same example, here
a constant (Algorithm 1, line 5). E(x, z) of Eq. 12 is E(x), which the contrast contains, minus
b v(x) . z, which is this term. With a contrast whose beta is not 0, importance weights are those of
the marginal energy.

A teacher (teachers.py) is an encoder and the way it learns. Its loss may use the model's own
latents v(x-), as constants, as further negatives (Eq. 13). During the first `warm_up` iterations
only the teacher learns, so that its latents are worth following when the guidance begins.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Eqs. 9, 12, 13
    and Algorithm 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from coldness.data.base import Data
from coldness.energies.base import Energy
from coldness.objectives.base import Batch, Term
from coldness.objectives.teachers import Teacher


class Guidance(Term):
    """Guidance of a latent energy by a teacher.

    Args:
        teacher: the encoder, and how it learns.
        warm_up: iterations at the beginning in which the teacher learns and does not guide.
    """

    def __init__(self, teacher: Teacher, warm_up: int = 0) -> None:
        if warm_up < 0:
            raise ValueError(f"warm_up must be >= 0, got {warm_up}")
        self.teacher, self.warm_up = teacher, warm_up
        self._metrics: dict[str, Tensor | float] = {}

    @property
    def wants_labels(self) -> bool:  # type: ignore[override]
        return self.teacher.wants_labels

    @property
    def teaches(self) -> bool:
        return True

    def check(self, energy: Energy, data: Data) -> None:
        if not energy.latent:
            raise ValueError("Guidance needs an energy with latents, such as SphericalEnergy")
        self.teacher.check(energy.latent, data)

    def prepare(self, energy: Energy, data: Data, generator: torch.Generator) -> None:
        self.teacher.prepare(data, next(energy.parameters()).device, generator)

    @property
    def has_latents(self) -> bool:
        return self.teacher.has_latents

    def latents(self, x: Tensor) -> Tensor:
        return self.teacher.latents(x)

    def __call__(self, batch: Batch) -> Tensor:
        energy = batch.energy
        assert batch.outputs_data is not None
        assert batch.outputs_model is not None
        losses = []
        if self.teacher.learns:
            with torch.no_grad():
                v_model = energy.direction(batch.outputs_model)
            losses.append(self.teacher.loss(batch.x_data, v_model))
            self._metrics["teacher"] = losses[0].detach()
        outputs, z = self.teacher.lesson(batch)
        along = (energy.direction(outputs) * z.to(outputs)).sum(1).mean()
        self._metrics["alignment"] = along.detach()
        if batch.iteration >= self.warm_up:
            losses.append(-energy.guidance * along)
        return torch.stack(losses).sum() if losses else 0 * along

    def metrics(self) -> dict[str, Tensor | float]:
        """alignment is the mean of cos(v(x), z) on data; teacher is the teacher's own loss."""
        return dict(self._metrics)

    def update(self, t: int, n: int) -> None:
        if self.teacher.learns:
            self.teacher.update(t, n)

    def kept(self) -> dict[str, nn.Module | Tensor]:
        return self.teacher.kept()

    def state_dict(self) -> dict[str, Any]:
        return self.teacher.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.teacher.load_state_dict(state)
