"""Compiled chains are the eager ones, up to rounding. One small shape for each kernel."""

from __future__ import annotations

import importlib
import logging

import pytest
import torch

from coldness.energies import ClassifierEnergy, Coordinates, ScalarEnergy
from coldness.kernels import HMC, MALA, Chains, Kernel, Langevin, run
from coldness.nets import MLP
from laws import generator

module = importlib.import_module("coldness.kernels.run")

# Warnings of torch's own compiler are not ours to fail on.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "kernel", [Langevin(0.05), MALA(0.3), HMC(0.4, 2)], ids=lambda k: type(k).__name__
)
def test_compiled_equals_eager(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two chunks of two steps, tempered, in full coordinates, with a step size for each chain."""
    monkeypatch.setattr(module, "LARGEST_UNROLL", 2)
    caplog.set_level(logging.INFO, "coldness")
    torch.manual_seed(0)
    energy = ScalarEnergy(MLP(2, (6,), "silu"), coldness=4.0, reference_std=1.0)
    energy.coordinates = Coordinates(
        "full", torch.tensor([0.5, -0.5]), torch.tensor([[0.8, 0.0], [0.4, 1.2]])
    )
    start = torch.randn(16, 2, generator=generator(1))

    def chains(compiled: bool, seed: int = 2) -> Chains:
        return run(
            kernel, energy, start, steps=4, generator=generator(seed), tempering=0.7, trace=True,
            step_size=torch.linspace(0.5, 1.0, 16) * kernel.step_size, compiled=compiled,
        )  # fmt: skip

    eager, compiled = chains(False), chains(True)
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "compiled in" in said, said
    assert "eagerly" not in said
    torch.testing.assert_close(compiled.x, eager.x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(compiled.potentials, eager.potentials, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(compiled.gradient_norm, eager.gradient_norm, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(compiled.acceptance, eager.acceptance, rtol=1e-4, atol=1e-5)
    assert all(p.requires_grad and p.grad is None for p in energy.parameters())
    assert energy.training

    # The network moves; the compiled chunk moves with it and is not made again.
    with torch.no_grad():
        for parameter in energy.parameters():
            parameter.mul_(-2.0)
    caplog.clear()
    torch.testing.assert_close(chains(True, 3).x, chains(False, 3).x, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(chains(True).x, compiled.x)
    assert not caplog.records


def test_another_class_is_an_input_and_no_reason_to_compile_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "coldness")
    torch.manual_seed(0)
    net = MLP(2, (6,), "silu")
    net.build((2,), 3)
    energy = ClassifierEnergy(net, coldness=2.0, classes=3)
    start = torch.randn(4, 2, generator=generator(1))

    def ends(labels: list[int], compiled: bool) -> torch.Tensor:
        given = energy.given(torch.tensor(labels))
        return run(
            Langevin(0.05), given, start, steps=2, generator=generator(2), compiled=compiled
        ).x

    first = ends([0, 1, 2, 0], True)
    assert sum("compiled in" in record.getMessage() for record in caplog.records) == 1
    second = ends([2, 2, 1, 0], True)
    assert sum("compiling" in record.getMessage() for record in caplog.records) == 1
    assert not torch.equal(first[0], second[0])
    torch.testing.assert_close(first, ends([0, 1, 2, 0], False), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(second, ends([2, 2, 1, 0], False), rtol=1e-4, atol=1e-5)
