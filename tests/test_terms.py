"""Terms: what is added to the contrast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from coldness.configuration import ConfigurationError
from coldness.data import Data
from coldness.energies import Energy, Gaussian
from coldness.model import load
from coldness.nets import MLP
from coldness.objectives import Batch, EnergyL2, Term
from coldness.tensor_files import load_checkpoint, save_checkpoint
from coldness.training import Training, build
from coldness.training.result import model_of
from laws import normal
from small import same, settings


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


class Guide(Term):
    """A term that learns: a linear map of data to the energy's outputs, by an optimiser of its own.

    Args:
        rate: of its optimiser.
    """

    def __init__(self, rate: float = 0.1) -> None:
        self.rate = rate
        self.map = nn.Linear(1, 1)
        self.latent = torch.zeros(2)
        self.seen: list[int] = []

    def prepare(self, energy: Energy, data: Data, generator: torch.Generator) -> None:
        self.map = nn.Linear(data.domain.dimensions, 1)
        with torch.no_grad():
            for parameter in self.map.parameters():
                parameter.normal_(generator=generator)
        self.optimiser = torch.optim.SGD(self.map.parameters(), lr=self.rate, momentum=0.9)

    def __call__(self, batch: Batch) -> Tensor:
        assert batch.outputs_data is not None
        assert len(batch.chains) == len(batch.weights) == 1
        assert float(batch.weights[0].w.sum()) == pytest.approx(1, rel=1e-4)
        self.seen = [*self.seen, batch.iteration]
        self.latent = batch.x_data.mean(0)
        # The outputs are those of the contrast's forward pass.
        torch.testing.assert_close(
            batch.energy.coldness * batch.energy.read(batch.outputs_data), batch.u_data
        )
        error = self.map(batch.x_data).squeeze(1) - batch.outputs_data.detach()
        self.error = error.detach().abs().mean()
        return error.square().mean()

    def metrics(self) -> dict[str, Tensor | float]:
        return {"error": self.error}

    def update(self, t: int, n: int) -> None:
        self.optimiser.step()
        self.optimiser.zero_grad()

    def kept(self) -> dict[str, nn.Module | Tensor]:
        return {"latent": self.latent, "map": self.map}

    def state_dict(self) -> dict[str, Any]:
        return {"map": self.map.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.map.load_state_dict(state["map"])
        self.optimiser.load_state_dict(state["optimiser"])


def guided() -> Training:
    return build(replace(settings(), terms=[Guide(), Guide(0.01), EnergyL2(0.1)]))


def test_terms_learn_are_logged_apart_and_are_resumed_exactly(tmp_path: Path) -> None:
    whole = guided()
    whole.check()  # the trial iteration leaves nothing behind
    rows = [whole.iterate() for _ in range(6)]
    names = {"guide", "guide_error", "guide_1", "guide_1_error", "energy_l2"}
    assert names <= rows[0].keys()
    assert float(rows[0]["guide"]) != float(rows[0]["guide_1"])  # maps of their own
    assert whole.settings.terms[0].seen == list(range(6))
    half = guided()
    for _ in range(3):
        half.iterate()
    path = tmp_path / "half.ckpt"
    save_checkpoint(path, half.state_dict())
    resumed = guided()
    resumed.load_state_dict(load_checkpoint(path))
    later = [resumed.iterate() for _ in range(3)]
    for a, b in zip(rows[3:], later, strict=True):
        assert {k: float(v) for k, v in a.items()} == {k: float(v) for k, v in b.items()}
    assert same(whole.state_dict()["terms"], resumed.state_dict()["terms"])


def test_what_a_term_keeps_is_saved_with_the_model(tmp_path: Path) -> None:
    training = build(replace(settings(), terms=[Guide()]))
    training.iterate()
    model = model_of(training)
    with pytest.raises(ConfigurationError, match="Linear"):
        model.save(tmp_path / "a")  # torch's Linear does not say how it was made
    model.kept["map"] = MLP(2, (3,))
    model.save(tmp_path / "a")
    again = load(tmp_path / "a")
    assert torch.equal(again.kept["latent"], model.kept["latent"])
    x = normal(3, 2).float()
    torch.testing.assert_close(again.kept["map"](x), model.kept["map"](x))
