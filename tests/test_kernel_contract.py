"""The contract of kernels has the power to fail: each wrong kernel below is caught by it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from coldness.energies import Coordinates
from coldness.kernels import HMC, MALA, Info, Kernel, Langevin
from coldness.kernels.base import Field, State
from kernel_contract import LIMIT, deviations, largest_deviation, moves_in_y_as_in_x
from laws import KINDS

CLEARLY = 2 * LIMIT
"""A wrong kernel is further off than this. The weakest mutation, half the gradient of Langevin, is
expected at 15, 5 standard errors above."""

RIGHT = {"Langevin": Langevin(0.05), "MALA": MALA(0.8), "HMC": HMC(0.9, leapfrog_steps=3)}


@dataclass(frozen=True)
class Mutant(Kernel):
    """A right kernel that is handed a wrong gradient, wrong noise, or moves it cannot refuse.

    Wrong in all places alike: a Metropolis kernel then weighs the moves that it proposes as it
    should, which is the mistake that is hardest to find.
    """

    right: Kernel = RIGHT["Langevin"]
    gradient: float = 1.0
    noise: float = 1.0
    accepts_all: bool = False

    @property
    def adjusted(self) -> bool:  # type: ignore[override]
        return self.right.adjusted

    @property
    def gradients_per_step(self) -> int:
        return self.right.gradients_per_step

    @property
    def langevin_step(self) -> float:
        return replace(self.right, step_size=self.step_size).langevin_step

    def step_for_noise(self, noise: float) -> float:  # type: ignore[override]
        return self.right.step_for_noise(noise)

    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        first, *rest = self.right.draw(steps, x, generator)
        if self.accepts_all:
            rest = [torch.full_like(log_uniform, -math.inf) for log_uniform in rest]
        return (self.noise * first, *rest)

    def init(self, field: Field, x: Tensor) -> State:
        return self.right.init(self._wrong(field), x)

    def step(
        self, field: Field, state: State, noise: tuple[Tensor, ...], h: Tensor, at: Coordinates
    ) -> tuple[State, Info]:
        return self.right.step(self._wrong(field), state, noise, h, at)

    def _wrong(self, field: Field) -> Field:
        def wrong(x: Tensor) -> tuple[Tensor, Tensor]:
            potential, gradient = field(x)
            return potential, self.gradient * gradient

        return wrong


def mutant(name: str, **wrong: Any) -> Kernel:
    return Mutant(RIGHT[name].step_size, RIGHT[name], **wrong)


MUTATIONS: dict[str, dict[str, Any]] = {
    "wrong sign": {"gradient": -1.0},
    "no gradient": {"gradient": 0.0},
    "half the gradient": {"gradient": 0.5},
    "no noise": {"noise": 0.0},
    "noise with twice the variance": {"noise": math.sqrt(2)},
    "noise with half the variance": {"noise": math.sqrt(0.5)},
    "twice the noise": {"noise": 2.0},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_wrapped_without_change_passes(name: str, kind: str) -> None:
    """So that it is the mutation that fails, and not the wrapper."""
    assert largest_deviation(mutant(name), kind) < LIMIT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("name", RIGHT)
def test_wrong_kernels_fail(name: str, mutation: str, kind: str) -> None:
    wrong = mutant(name, **MUTATIONS[mutation])
    assert any(deviation > CLEARLY for deviation in deviations(wrong, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["MALA", "HMC"])
def test_moves_that_cannot_be_refused_fail(name: str, kind: str) -> None:
    wrong = mutant(name, accepts_all=True)
    assert any(deviation > CLEARLY for deviation in deviations(wrong, kind))


@pytest.mark.parametrize(
    "kernel",
    [
        Langevin(0.05, clamp=(-50.0, 50.0)),
        Langevin(0.05, clip_gradient=100.0),
        Langevin(0.05, clip_drift=5.0),
    ],
)
def test_what_is_clamped_or_clipped_does_not_move_in_y_as_in_x(kernel: Kernel) -> None:
    assert not kernel.affine
    assert not moves_in_y_as_in_x(kernel)
