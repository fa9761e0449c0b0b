"""Terms: what is added to the contrast."""

from __future__ import annotations

import pytest
import torch

from coldness.energies import Gaussian
from coldness.objectives import Batch, EnergyL2
from laws import normal


def batch(coldness: float) -> Batch:
    energy = Gaussian([0.0, 0.0], [[1.0, 0.2], [0.2, 2.0]], coldness=coldness)
    x_data, x_model = normal(5, 2), 2 * normal(3, 2, seed=1)
    u_data = energy(x_data).requires_grad_(True)
    return Batch(energy, x_data, x_model, u_data, energy(x_model).requires_grad_(True))


@pytest.mark.parametrize("coldness", [1.0, 128.0])
def test_energy_l2_is_the_mean_square_of_energies(coldness: float) -> None:
    """On E and not on U, so that the coldness does not matter; each mean over its own batch."""
    given = batch(coldness)
    loss = EnergyL2(0.3)(given)
    of_data = sum(float(e) ** 2 for e in given.energy.energy(given.x_data)) / 5
    of_model = sum(float(e) ** 2 for e in given.energy.energy(given.x_model)) / 3
    assert loss.shape == ()
    assert loss.item() == pytest.approx(0.3 * (of_data + of_model))


def test_energy_l2_pulls_each_energy_in_proportion() -> None:
    """dL/dE_i = 2 strength E_i / N: by the chain rule, c dL/dU_i."""
    given = batch(4.0)
    EnergyL2(0.3)(given).backward()
    e_data, e_model = (given.energy.energy(x) for x in (given.x_data, given.x_model))
    assert given.u_data.grad is not None
    assert given.u_model.grad is not None
    torch.testing.assert_close(4 * given.u_data.grad, 2 * 0.3 * e_data / 5)
    torch.testing.assert_close(4 * given.u_model.grad, 2 * 0.3 * e_model / 3)


@pytest.mark.parametrize("strength", [0.0, -1.0])
def test_strength_must_be_positive(strength: float) -> None:
    with pytest.raises(ValueError, match="strength must be > 0"):
        EnergyL2(strength)
