"""Step sizes: schedules along a chain, and dual averaging."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from coldness.kernels import ConstantSteps, DualAveraging, GeometricSteps, Langevin, run
from laws import assert_normal_law, generator, langevin_law


def test_constant_and_geometric_factors() -> None:
    assert ConstantSteps().factors(3).tolist() == [1, 1, 1]
    factors = GeometricSteps(8.0, 0.5).factors(5)
    assert factors.tolist() == pytest.approx([8, 4, 2, 1, 0.5])
    assert GeometricSteps(3.0).factors(4)[-1] == pytest.approx(1)
    assert factors.dtype == torch.float64


def test_senseless_arguments_raise() -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        GeometricSteps(0.0)
    with pytest.raises(ValueError, match="must be > 0"):
        GeometricSteps(1.0, -1.0)
    for target in (0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="target"):
            DualAveraging(target)


@pytest.mark.parametrize("per_chain", [False, True])
def test_langevin_law_with_tempering_schedule_and_steps(per_chain: bool) -> None:
    """The recursion m' = (1 - t h/s^2) m, v' = (..)^2 v + 2h, with h of every step and chain."""
    n, steps, variance, t = 20_000, 6, 0.5, 0.6
    schedule = GeometricSteps(4.0, 0.5)
    sizes = [0.03, 0.12] if per_chain else [0.05]
    group = n // len(sizes)
    step = torch.tensor(sizes, dtype=torch.float64).repeat_interleave(group)
    chains = run(
        Langevin(77.0),
        lambda x: x.square().sum(1) / (2 * variance),
        torch.full((n, 1), -1.2, dtype=torch.float64),
        steps=steps,
        generator=generator(1),
        tempering=t,
        step_size=step if per_chain else sizes[0],
        schedule=schedule,
    )
    ratio = (0.5 / 4.0) ** (1 / (steps - 1))
    for k, h in enumerate(sizes):
        along = [h * 4.0 * ratio**i for i in range(steps)]
        mean, spread = langevin_law(-1.2, 0.0, variance / t, along)
        assert_normal_law(chains.x[k * group : (k + 1) * group, 0], mean, spread)


def follow(rule: DualAveraging, h: Tensor, acceptance: list[Tensor]) -> list[tuple[Tensor, ...]]:
    states = [rule.init(h, len(acceptance[0]))]
    for a in acceptance:
        states.append(rule.update(states[-1], a))
    return states


@pytest.mark.parametrize("per_chain", [False, True])
def test_dual_averaging_is_its_equations(per_chain: bool) -> None:
    """Hoffman and Gelman (2014), Algorithm 5, written out in plain numbers."""
    rule = DualAveraging(0.65, per_chain, gamma=0.1, t0=5.0, kappa=0.6)
    seen = [torch.rand(3, generator=generator(k), dtype=torch.float64) for k in range(20)]
    states = follow(rule, torch.tensor(0.2, dtype=torch.float64), seen)
    error = average = 0.0
    mu = math.log(10 * 0.2)
    assert float(states[0][2].mean().exp()) == pytest.approx(0.2)
    for t, a in enumerate(seen, 1):
        value = float(a[1] if per_chain else a.mean())
        error = (1 - 1 / (t + 5.0)) * error + (0.65 - value) / (t + 5.0)
        log_h = mu - math.sqrt(t) / 0.1 * error
        average = t**-0.6 * log_h + (1 - t**-0.6) * average
        own = [s[1] if per_chain else s for s in states[t][1:4]]
        assert [float(v) for v in own] == pytest.approx([error, log_h, average])
    assert states[-1][3].shape == ((3,) if per_chain else ())


def test_the_first_average_forgets_where_it_began() -> None:
    first = follow(DualAveraging(), torch.tensor(0.2), [torch.tensor([0.3])])[1]
    assert torch.equal(first[3], first[2])


def test_dual_averaging_solves_for_the_target() -> None:
    """With acceptance exp(-h) the step must become -log(target), from far above and below.

    The mean error of the last steps is gamma (mu - log h) / (2 sqrt t): what it takes to hold
    log h away from mu.
    """
    for start in (1e-3, 30.0):
        rule = DualAveraging(0.7)
        state = rule.init(torch.tensor(start, dtype=torch.float64), 1)
        steps = 3000
        for _ in range(steps):
            state = rule.update(state, (-state[2].exp()).exp()[None])
        reached = math.exp(-float(state[3].exp()))
        bound = 0.05 * abs(math.log(10 * start) - float(state[3])) / math.sqrt(steps)
        assert bound < 0.02
        assert abs(reached - 0.7) < bound


def test_a_step_for_each_chain_becomes_one_for_all_as_their_geometric_mean() -> None:
    rule = DualAveraging(per_chain=False)
    state = rule.init(torch.tensor([0.1, 0.4], dtype=torch.float64), 2)
    assert float(state[2].exp()) == pytest.approx(0.2)
    own = DualAveraging(per_chain=True).init(torch.tensor([0.1, 0.4], dtype=torch.float64), 2)
    assert own[2].exp().tolist() == pytest.approx([0.1, 0.4])
