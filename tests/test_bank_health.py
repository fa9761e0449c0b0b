"""Health of banks whose state is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from coldness.diagnostics.bank import COMPARED, bank_health
from coldness.evaluation.bank_checks import bank_metrics, banks_of
from coldness.training import build
from laws import normal
from small import settings, untrained

N = 2 * COMPARED


def health(x: Tensor, u: Tensor | None = None, age: Tensor | None = None) -> dict[str, float]:
    """Data N(0, I) at U = |x|^2 / 2, starts N((10, 0), I)."""
    data, starts = normal(2 * COMPARED, 2, seed=1), normal(COMPARED, 2, seed=2)
    starts[:, 0] += 10

    def energy(y: Tensor) -> Tensor:
        return y.square().sum(1) / 2

    u = energy(x) if u is None else u
    return bank_health(x, torch.ones(len(x)) if age is None else age, starts, data, u, energy(data))


def test_a_bank_of_the_datas_law() -> None:
    figures = health(normal(N, 2, seed=3), age=torch.tensor([0, 100] * COMPARED))
    assert figures["bank_age"] == 50
    assert figures["bank_untouched"] == 0.5
    assert figures["bank_near_start"] == 0
    assert figures["bank_near_start_data"] == 0
    assert figures["bank_saturated"] == pytest.approx(0.01, abs=5 * math.sqrt(0.01 / N))
    assert figures["bank_duplicates"] == 0
    assert figures["bank_spacing"] == pytest.approx(1, abs=0.2)


def test_chains_that_stay_at_the_start() -> None:
    x = normal(N, 2, seed=3)
    x[: COMPARED // 4, 0] += 10
    assert health(x)["bank_near_start"] == pytest.approx(0.25, abs=0.005)


def test_starts_that_overlap_with_data_are_known_by_the_datas_own_share() -> None:
    data, starts, x = normal(N, 2, seed=1), normal(COMPARED, 2, seed=2), normal(N, 2, seed=3)
    u = torch.zeros(N)
    figures = bank_health(x, u, starts, data, u, u)
    both = figures["bank_near_start"], figures["bank_near_start_data"]
    assert both == pytest.approx((0.5, 0.5), abs=5 * 0.5 / math.sqrt(COMPARED))


def test_distances_are_in_units_of_the_datas_spread() -> None:
    scale = torch.tensor([1e6, 1e-3], dtype=torch.float64)
    data, x = normal(N, 2, seed=1), normal(N, 2, seed=3)
    starts = normal(COMPARED, 2, seed=2) + torch.tensor([0.0, 10.0])
    x[: COMPARED // 2, 1] += 10
    u = torch.zeros(N)
    figures = bank_health(x * scale, u, starts * scale, data * scale, u, u)
    assert figures["bank_near_start"] == pytest.approx(0.5, abs=0.01)


def test_saturated_collapsed_and_copied() -> None:
    collapsed = 1e-3 * normal(N, 2, seed=3)
    figures = health(collapsed)
    assert figures["bank_saturated"] == 1
    assert figures["bank_spacing"] < 0.01
    copied = normal(N, 2, seed=3)
    copied[N // 2 :] = copied[: N // 2]
    assert health(copied)["bank_duplicates"] == 0.5


def test_data_that_is_repeated_has_no_spacing() -> None:
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    twice = torch.cat([x[:50]] * 4)
    figures = bank_health(x, torch.ones(200), x, twice, x[:, 0], twice[:, 0])
    assert "bank_spacing" not in figures
    assert figures["bank_duplicates"] == 0


def test_slots_that_are_not_finite_are_counted() -> None:
    x = normal(N, 2, seed=3)
    x[:3, 1] = math.nan
    assert health(x, u=torch.zeros(N))["bank_lost"] == 3
    u = torch.zeros(N)
    u[5] = math.inf
    figures = health(normal(N, 2), u)
    assert figures["bank_lost"] == 1
    assert "bank_spacing" not in figures


def test_banks_of_a_run() -> None:
    """A bank of a run that has not begun holds starts; a second source has figures of its own."""
    bank = "{class_path: Bank, init_args: {capacity: 500, initial: {class_path: UniformNoise, "
    bank += "init_args: {low: 8.0, high: 9.0}}}}"
    one = f"{{start: {bank}, kernel: Langevin, steps: 2, count: 16}}"
    s = settings("mixture2d", f"--sources=[{one}, {{start: DataStart, kernel: Langevin}}, {one}]")
    training = build(s)
    model = untrained(s)

    def metrics() -> dict[str, float]:
        banks = banks_of(s.sources, training.state_dict()["sources"])
        return bank_metrics(model, s.data, banks, seed=0)

    first = metrics()
    assert first["bank_untouched"] == first["bank_near_start"] == first["bank_near_start_2"] == 1
    assert first["bank_near_start_data"] == 0
    assert not any(name.endswith("_1") for name in first)
    training.iterate()
    then = metrics()
    assert then["bank_age"] == 2 * 16 / 500
    assert then["bank_untouched"] == 1 - 16 / 500
    plain = settings("mixture2d")
    assert banks_of(plain.sources, build(plain).state_dict()["sources"]) == {}
