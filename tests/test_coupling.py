"""Networks that couple the examples of a batch are refused, and no others."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from coldness.energies import ClassifierEnergy, Gaussian, ScalarEnergy, Sum, check_uncoupled
from coldness.nets import MLP
from laws import normal


class OverBatch(nn.Module):
    """Attention among the examples of a batch; each to those before it where causal."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.layer, self.out = nn.Linear(12, 12), nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x.flatten(1))
        scores = y @ y.T
        if self.causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        return self.out(scores.softmax(1) @ y)


class WithinExample(nn.Module):
    """Attention among the positions of an example."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)
        self.out = nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = x.flatten(2).transpose(1, 2)
        return self.out(self.attention(y, y, y, need_weights=False)[0].flatten(1))


class CentredByBatch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)).square().flatten(1).sum(1)


class AlwaysEval(nn.BatchNorm2d):
    """Batch norm whose statistics are fixed."""

    def train(self, mode: bool = True) -> AlwaysEval:
        return super().train(False)


def net(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 1), layer, nn.SiLU(), nn.Flatten(), nn.Linear(16, 1))


def images() -> Tensor:
    return normal(8, 3, 2, 2).float()


COUPLED = {
    "batch norm": lambda: net(nn.BatchNorm2d(4)),
    "batch norm without statistics": lambda: net(nn.BatchNorm2d(4, track_running_stats=False)),
    "deep in another": lambda: nn.Sequential(net(nn.Sequential(nn.BatchNorm2d(4)))),
    "attention over the batch": OverBatch,
    "attention to those before": lambda: OverBatch(causal=True),
    "centred": CentredByBatch,
}

SINGLE = {
    "layer norm": lambda: net(nn.LayerNorm([4, 2, 2])),
    "group norm": lambda: net(nn.GroupNorm(2, 4)),
    "instance norm": lambda: net(nn.InstanceNorm2d(4)),
    "attention within": WithinExample,
    "spectral norm": lambda: net(spectral_norm(nn.Conv2d(4, 4, 1))),
    "fixed batch norm": lambda: net(AlwaysEval(4)),
    "mlp": lambda: MLP(12, (8,)),
    "constant": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 1).requires_grad_(False)),
}


RANDOM = {"dropout": lambda: net(nn.Dropout(0.5))}


@pytest.mark.parametrize("name", COUPLED)
@pytest.mark.parametrize("count", [2, 8])
def test_coupled_examples_are_refused_in_one_line(name: str, count: int) -> None:
    torch.manual_seed(0)
    energy = ScalarEnergy(COUPLED[name](), 20_000.0)
    with pytest.raises(ValueError, match="couples the examples of a batch") as refusal:
        check_uncoupled(energy, images()[:count])
    assert "\n" not in str(refusal.value)
    assert ("BatchNorm2d" in str(refusal.value)) is ("norm" in name or "deep" in name)


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("coldness", [1.0, 20_000.0])
def test_energies_of_one_example_pass(name: str, coldness: float) -> None:
    torch.manual_seed(0)
    check_uncoupled(ScalarEnergy(SINGLE[name](), coldness), images())


@pytest.mark.parametrize("coldness", [1.0, 20_000.0])
def test_energies_that_change_by_chance_are_refused(coldness: float) -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="as with dropout") as refusal:
        check_uncoupled(ScalarEnergy(RANDOM["dropout"](), coldness), images())
    assert "\n" not in str(refusal.value)
    check_uncoupled(ScalarEnergy(net(nn.Dropout(0.0)), coldness), images())


def test_composed_energies_and_classifiers_are_looked_into() -> None:
    bad = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.BatchNorm1d(5))
    with pytest.raises(ValueError, match=r"net\.2, BatchNorm1d"):
        check_uncoupled(ClassifierEnergy(bad), images())
    plane = normal(5, 2).float()
    known = Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]]).float()
    check_uncoupled(Sum([known, ScalarEnergy(MLP(2, (8,)))]), plane)
    with pytest.raises(ValueError, match="couples"):
        check_uncoupled(Sum([known, ScalarEnergy(CentredByBatch())]), plane)


@pytest.mark.parametrize("name", ["spectral norm", "dropout", "batch norm", "centred"])
@pytest.mark.parametrize("training", [True, False])
def test_everything_is_as_it_was_afterwards(name: str, training: bool) -> None:
    energy = ScalarEnergy({**SINGLE, **COUPLED, **RANDOM}[name]()).train(training)
    before, state = copy.deepcopy(energy.state_dict()), torch.get_rng_state()
    try:
        check_uncoupled(energy, images())
    except ValueError:
        assert name in {**COUPLED, **RANDOM}
    for key, value in energy.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training is training for part in energy.modules())
    assert all(p.grad is None for p in energy.parameters())


def test_one_example_is_not_enough() -> None:
    with pytest.raises(ValueError, match="two examples"):
        check_uncoupled(ScalarEnergy(MLP(12)), images()[:1])
