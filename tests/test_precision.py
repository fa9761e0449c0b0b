"""Precision of networks: bfloat16 inside, float32 in chains, weights and losses."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from coldness import precision
from coldness.chains import DataStart, Source
from coldness.data import Digits
from coldness.energies import ScalarEnergy
from coldness.kernels import Langevin
from coldness.nets import WideResNet
from coldness.training import Settings, Training, build


def training(of: precision.Precision) -> Training:
    torch.manual_seed(0)
    return build(
        Settings(
            data=Digits(),
            energy=ScalarEnergy(WideResNet(10, 1, "silu"), 50.0),
            sources=[Source(DataStart(), Langevin(1e-4), steps=3)],
            optimiser=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
            iterations=2,
            batch_size=16,
            compile="never",
            precision=of,
        )
    )


def test_in_bf16_chains_and_gradients_stay_in_float32_and_near_those_of_float32() -> None:
    exact, rounded = training("float32"), training("bf16")
    figures = [run.iterate() for run in (exact, rounded)]
    assert rounded.x_model.dtype == torch.float32
    assert not torch.equal(exact.x_model, rounded.x_model)
    torch.testing.assert_close(exact.x_model, rounded.x_model, atol=1e-3, rtol=0)
    for p in rounded.parameters:
        assert p.dtype == torch.float32
        assert p.grad is not None
        assert p.grad.dtype == torch.float32
    r_exact, r_rounded = (float(f["r"]) for f in figures)
    assert r_rounded == pytest.approx(r_exact, rel=0.05)


def test_auto_is_bf16_where_it_is_fast_and_float32_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = torch.device("cpu")
    for fast in (True, False):
        monkeypatch.setattr(precision, "has_fast_bf16", lambda device, fast=fast: fast)
        assert isinstance(precision.autocast("auto", cpu), nullcontext) is not fast
        assert isinstance(precision.autocast("float32", cpu), nullcontext)
        assert not isinstance(precision.autocast("bf16", cpu), nullcontext)
