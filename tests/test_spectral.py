"""Spectral normalisation: sigma is right, fixed along chains, and follows training once a step."""

from __future__ import annotations

import copy
import logging
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from torch.nn.utils.parametrizations import spectral_norm

from coldness.chains import DataStart, Source
from coldness.data import Digits
from coldness.energies import ScalarEnergy, Sum, check_uncoupled
from coldness.kernels import Langevin, run
from coldness.nets import MLP, ResidualNet
from coldness.nets.spectral import SpectralConv2d
from coldness.precision import Precision
from coldness.training import Settings, Training, build, loop
from coldness.training.result import model_of
from laws import generator, normal
from small import same


def layer(inputs: int = 5, outputs: int = 7, side: int = 3, seed: int = 0) -> SpectralConv2d:
    torch.manual_seed(seed)
    return SpectralConv2d(nn.Conv2d(inputs, outputs, side, padding=side // 2))


def exact(of: SpectralConv2d) -> Tensor:
    return torch.linalg.matrix_norm(of.conv.weight.flatten(1), 2)


def residual(seed: int = 0, **arguments: Any) -> ResidualNet:
    torch.manual_seed(seed)
    net = ResidualNet(**{"widths": (8, 12), "hidden": 16, "linear_std": None, **arguments})
    net.build((1, 8, 8))
    return net


def layers(net: nn.Module) -> list[SpectralConv2d]:
    return [part for part in net.modules() if isinstance(part, SpectralConv2d)]


# Sigma


@pytest.mark.parametrize(
    ("inputs", "outputs", "side"), [(3, 64, 3), (64, 64, 3), (64, 128, 1), (1, 1, 1)]
)
def test_sigma_is_right_from_the_beginning(inputs: int, outputs: int, side: int) -> None:
    new = layer(inputs, outputs, side)
    assert float((new.sigma() / exact(new)).detach()) == pytest.approx(1, abs=0.01)
    assert float(new.u.norm()) == pytest.approx(1)
    assert float(new.v.norm()) == pytest.approx(1)


def test_the_convolution_has_gain_one_on_patches() -> None:
    of, x = layer(2, 4).double(), normal(3, 2, 6, 6)
    of.updated(500)
    weight = of.conv.weight / exact(of)
    torch.testing.assert_close(of(x), conv2d(x, weight, of.conv.bias, padding=1))
    used = of.conv.weight / of.sigma()
    assert float(torch.linalg.matrix_norm(used.detach().flatten(1), 2)) == pytest.approx(1)


def test_sigma_its_gradient_and_a_power_iteration_are_those_of_torch() -> None:
    """The same u and v; torch makes one power iteration in each forward pass in train mode."""
    own, x = layer().double(), normal(3, 5, 6, 6)
    other = spectral_norm(copy.deepcopy(own.conv))
    theirs = other.parametrizations.weight[0]
    theirs._u.copy_(own.u)
    theirs._v.copy_(own.v)
    for train in (False, True):
        other.train(train)
        if train:
            own.updated()
        assert torch.allclose(other(x), own(x), rtol=1e-12, atol=0)
        torch.testing.assert_close(theirs._u, own.u, rtol=1e-12, atol=0)
        torch.testing.assert_close(theirs._v, own.v, rtol=1e-12, atol=0)
    other.eval()
    weights = normal(3, 7, 6, 6, seed=1)
    (wanted,) = torch.autograd.grad(
        (weights * other(x)).sum(), other.parametrizations.weight.original
    )
    (found,) = torch.autograd.grad((weights * own(x)).sum(), own.conv.weight)
    torch.testing.assert_close(found, wanted)


def test_gradients_have_no_part_along_the_weight() -> None:
    """W_SN does not change with the scale of W, so the gradient is orthogonal to W (Eq. 11)."""
    of = layer().double()
    (of(normal(2, 5, 4, 4)) * normal(2, 7, 4, 4, seed=2)).sum().backward()
    gradient = of.conv.weight.grad
    assert gradient is not None
    assert abs(float((gradient * of.conv.weight.detach()).sum())) < 1e-12 * float(gradient.norm())
    assert float(gradient.norm()) > 0.1


def test_power_iterations_converge() -> None:
    of = layer().double()
    with torch.no_grad():
        of.conv.weight.add_(normal(*of.conv.weight.shape, seed=3) / 20)
    errors = []
    for _ in range(60):
        errors.append(float((1 - of.sigma() / exact(of)).detach()))
        of.updated()
    assert all(later <= earlier for earlier, later in pairwise(errors))
    assert 0 <= errors[-1] < errors[0] / 100


def test_sigma_is_in_float32_under_autocast() -> None:
    of = layer()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(of.sigma(), layer().sigma())
        assert of(torch.zeros(1, 5, 4, 4)).dtype == torch.bfloat16


def test_memory_layout_is_not_seen() -> None:
    of, x = layer(8, 8), normal(2, 8, 4, 4).float()
    last = copy.deepcopy(of).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert last.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last.sigma(), of.sigma())
    torch.testing.assert_close(last(x), of(x))
    of.updated()
    last.updated()
    torch.testing.assert_close(last.v, of.v)


def test_a_loaded_layer_is_the_saved_one_to_the_bit() -> None:
    saved, other, x = layer(seed=0), layer(seed=1), normal(2, 5, 4, 4).float()
    other.load_state_dict(saved.state_dict())
    for of in (saved, other):
        of.updated()
    assert torch.equal(saved(x), other(x))
    assert torch.equal(saved(x), copy.deepcopy(saved)(x))


# Chains and training


def test_nothing_changes_along_a_chain() -> None:
    net = residual()
    energy, x = ScalarEnergy(net, 10.0), normal(4, 1, 8, 8).float()
    before = copy.deepcopy(net.state_dict())
    energy.train()
    chains = run(Langevin(0.01), energy, x, steps=5, generator=generator(1))
    assert not torch.equal(chains.x, x)
    assert same(dict(net.state_dict()), dict(before))
    assert torch.equal(energy(x), energy(x))
    assert torch.equal(energy.eval()(x), energy.train()(x))
    check_uncoupled(energy, x)
    assert same(dict(net.state_dict()), dict(before))


@pytest.mark.filterwarnings("ignore")
def test_compiled_chains_are_eager_ones_and_follow_updates(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "coldness")
    torch.manual_seed(0)
    net = nn.Sequential(layer(1, 2), nn.SiLU(), nn.Flatten(), nn.Linear(32, 1))
    energy, x = ScalarEnergy(net, 5.0), normal(4, 1, 4, 4).float()

    def ends(compiled: bool) -> Tensor:
        kernel = Langevin(0.05)
        return run(kernel, energy, x, steps=2, generator=generator(1), compiled=compiled).x

    first = ends(True)
    assert "compiled in" in caplog.text
    assert "eagerly" not in caplog.text
    torch.testing.assert_close(first, ends(False), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        net[0].conv.weight.mul_(3.0)
    net[0].u.neg_()  # sigma has the other sign
    caplog.clear()
    torch.testing.assert_close(ends(True), ends(False), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ends(True), first)
    assert not caplog.records


def training(net: nn.Module, precision: Precision = "float32", **settings: Any) -> Training:
    return build(
        Settings(
            data=Digits(),
            energy=ScalarEnergy(net, 50.0),
            sources=[Source(DataStart(), Langevin(1e-4), steps=3)],
            optimiser=lambda parameters: torch.optim.Adam(parameters, lr=2e-3),
            iterations=4,
            batch_size=16,
            compile="never",
            precision=precision,
            **settings,
        )
    )


def unbuilt() -> ResidualNet:
    return ResidualNet((8, 12), hidden=16, linear_std=None)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_one_power_iteration_per_training_iteration(precision: Precision) -> None:
    run = training(net := unbuilt(), precision)
    for _ in range(2):
        expected = [copy.deepcopy(part) for part in layers(net)]
        run.iterate()
        for before, after in zip(expected, layers(net), strict=True):
            assert not torch.equal(before.conv.weight, after.conv.weight)
            before.conv.weight.data.copy_(after.conv.weight)
            before.updated()
            assert torch.equal(before.u, after.u)
            assert torch.equal(before.v, after.v)


def test_skipped_steps_make_no_power_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_grad_scale", lambda metrics: 0.0)
    run = training(net := unbuilt(), least_grad_scale=0.5)
    before = copy.deepcopy(net.state_dict())
    assert run.iterate()["left_out"] == 1
    assert same(dict(net.state_dict()), dict(before))


def test_resumed_training_is_the_same_to_the_bit() -> None:
    whole, part = training(unbuilt(), ema=0.9), training(unbuilt(), ema=0.9)
    for _ in range(4):
        whole.iterate()
    for _ in range(2):
        part.iterate()
    state = copy.deepcopy(part.state_dict())
    part.iterate()
    resumed = training(unbuilt(), ema=0.9)
    resumed.load_state_dict(state)
    for _ in range(2):
        resumed.iterate()
    assert same(whole.state_dict()["energy"], resumed.state_dict()["energy"])
    assert same(whole.state_dict()["ema"], resumed.state_dict()["ema"])


def test_averaged_weights_go_with_the_vectors_of_the_network() -> None:
    """sigma of the averages is that of their weights, nearly: u and v change slowly."""
    run = training(net := unbuilt(), ema=0.9)
    for _ in range(30):
        run.iterate()
    own = [part.u.clone() for part in layers(net)]
    model = model_of(run)
    for part, averaged, u in zip(layers(net), layers(model.energy), own, strict=True):
        assert torch.equal(averaged.u, u)
        assert torch.equal(averaged.v, part.v)
        assert not torch.equal(averaged.conv.weight, part.conv.weight)
        for of in (part, averaged):
            assert float((of.sigma() / exact(of)).detach()) == pytest.approx(1, abs=0.02)


def test_layers_of_composed_energies_are_updated_once() -> None:
    nets = [residual(0), residual(1)]
    energy = Sum([ScalarEnergy(net) for net in nets])
    expected = [copy.deepcopy(part) for part in layers(energy)]
    for part in (*layers(energy), *expected):
        part.conv.weight.data.add_(0.01)
    energy.updated()
    for part, wanted in zip(layers(energy), expected, strict=True):
        wanted.updated()
        assert torch.equal(part.u, wanted.u)
        assert torch.equal(part.v, wanted.v)


def test_networks_without_such_layers_are_left_alone() -> None:
    torch.manual_seed(0)
    energy = ScalarEnergy(MLP(2, (8,)))
    before = copy.deepcopy(energy.state_dict())
    energy.updated()
    assert same(dict(energy.state_dict()), dict(before))
