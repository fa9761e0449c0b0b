"""Kernels: the discretised law of Langevin, detailed balance, the leapfrog's invariants."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import MultivariateNormal

from coldness.energies import Coordinates
from coldness.kernels import HMC, MALA, Kernel, Langevin, run
from coldness.kernels.base import metropolis
from coldness.kernels.hmc import leapfrog
from laws import (
    KINDS,
    assert_law,
    assert_mean,
    assert_normal_law,
    banana,
    coordinates,
    field_of,
    generator,
    gumbel,
    gumbel_draws,
    langevin_law,
    matrix,
    normal,
)

CHAINS = 20_000
PLAIN = Coordinates()


def quadratic(variance: float):
    return lambda x: x.square().flatten(1).sum(1) / (2 * variance)


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


# Langevin


@pytest.mark.parametrize(("h", "variance"), [(0.05, 0.3), (0.5, 0.3), (0.55, 0.3), (2.0, 4.0)])
@pytest.mark.parametrize("steps", [1, 7])
def test_langevin_has_its_discretised_law(h: float, variance: float, steps: int) -> None:
    start = torch.full((CHAINS, 1), 1.5, dtype=torch.float64)
    chains = run(Langevin(h), quadratic(variance), start, steps=steps, generator=generator(1))
    a = 1 - h / variance
    expected = 2 * h * (1 - a ** (2 * steps)) / (1 - a**2)
    assert_normal_law(chains.x[:, 0], a**steps * 1.5, expected)


@pytest.mark.parametrize(("h", "variance"), [(0.05, 0.3), (0.4, 0.3), (0.9, 1.0)])
def test_langevin_keeps_its_biased_stationary_law(h: float, variance: float) -> None:
    stationary = variance / (1 - h / (2 * variance))
    start = math.sqrt(stationary) * normal(CHAINS, 1, seed=2)
    chains = run(Langevin(h), quadratic(variance), start, steps=5, generator=generator(3))
    assert_normal_law(chains.x[:, 0], 0.0, stationary)
    # The recursion's fixed point, which says the same without sampling.
    assert langevin_law(0.0, stationary, variance, [h])[1] == pytest.approx(stationary)


@pytest.mark.parametrize("kind", KINDS)
def test_one_langevin_step_is_its_equation(kind: str) -> None:
    """x' = x - h L L^T dU(x) + sqrt(2h) L xi, with a step size for each chain."""
    at = coordinates(kind)
    factor = matrix(at)
    x, xi = normal(2, 6, 2)
    h = torch.linspace(0.01, 0.3, 6, dtype=torch.float64)[:, None]
    field = field_of(banana)
    (moved,), info = Langevin(1.0).step(field, (x,), (xi,), h, at)
    u, gradient = field(x)
    expected = x - h * (gradient @ factor @ factor.T) + (2 * h).sqrt() * (xi @ factor.T)
    torch.testing.assert_close(moved, expected)
    torch.testing.assert_close(info.potential, u)
    torch.testing.assert_close(info.gradient, gradient)
    assert info.acceptance.tolist() == [1] * 6


def test_clamp_cuts_every_coordinate() -> None:
    x, xi = normal(2, 50, 3)
    h = number(0.5)
    free, _ = Langevin(0.5).step(field_of(quadratic(1.0)), (x,), (xi,), h, PLAIN)
    cut, _ = Langevin(0.5, clamp=(-0.2, 0.7)).step(field_of(quadratic(1.0)), (x,), (xi,), h, PLAIN)
    assert torch.equal(cut[0], free[0].clamp(-0.2, 0.7))
    assert not torch.equal(cut[0], free[0])


def test_clipping_bounds_the_norm_and_keeps_the_direction() -> None:
    x = torch.cat([5 * normal(20, 3), 0.01 * normal(20, 3), torch.zeros(1, 3)])
    kernel = Langevin(0.5, clip_gradient=2.0)
    zero = torch.zeros_like(x)
    (moved,), _ = kernel.step(field_of(quadratic(1.0)), (x,), (zero,), number(0.5), PLAIN)
    norm = x.norm(dim=1, keepdim=True)  # of dU = x
    clipped = torch.where(norm > 2, 2 * x / norm, x)
    torch.testing.assert_close(moved, x - 0.5 * clipped)
    assert (norm > 2).any()
    assert (norm < 2).any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_clipped_drift_is_bounded_in_every_coordinate_and_noise_is_not(kind: str) -> None:
    at = coordinates(kind)
    x, xi = 5 * normal(40, 2), normal(40, 2, seed=1)
    h, limit = number(0.5), 0.8
    field = field_of(quadratic(1.0))
    still = torch.zeros_like(x)
    (free,), _ = Langevin(0.5).step(field, (x,), (still,), h, at)
    (clipped,), info = Langevin(0.5, clip_drift=limit).step(field, (x,), (still,), h, at)
    torch.testing.assert_close(clipped - x, (free - x).clamp(-limit, limit))
    assert bool(((free - x).abs() > limit).any())
    assert bool(((free - x).abs() < limit).any())
    torch.testing.assert_close(info.gradient, field(x)[1])  # diagnostics are of dU itself
    (noisy,), _ = Langevin(0.5, clip_drift=limit).step(field, (x,), (xi,), h, at)
    torch.testing.assert_close(noisy - clipped, at.push(xi))  # sqrt(2h) = 1
    # It bounds nothing that is smaller, and goes with the other limits in their order.
    (same,), _ = Langevin(0.5, clip_drift=1e3).step(field, (x,), (xi,), h, at)
    (plain,), _ = Langevin(0.5).step(field, (x,), (xi,), h, at)
    torch.testing.assert_close(same, plain)
    (boxed,), _ = Langevin(0.5, (-1.0, 1.0), clip_drift=limit).step(field, (x,), (xi,), h, at)
    torch.testing.assert_close(boxed, noisy.clamp(-1, 1))


def test_the_reference_clip_of_clel_has_no_effect_in_its_box() -> None:
    """Drift 400, gradients of E clipped to +-50, in [-1, 1]: drifts up to 2e4 in a box of 2."""
    h, coldness = number(2e-6), 2e8
    field = field_of(quadratic(1 / coldness))
    x, xi = normal(2, 50, 3)
    x = torch.cat([x.clamp(-1, 1), 1e-3 * x, 1e-6 * x])
    kernels = (Langevin(2e-6, (-1.0, 1.0), clip_drift=clip) for clip in (None, 2e4, 2.1))
    ends = [k.step(field, (x,), (xi.repeat(3, 1),), h, PLAIN)[0][0] for k in kernels]
    assert float((h * field(x)[1]).abs().max()) > 100
    for clipped in ends[1:]:
        torch.testing.assert_close(clipped, ends[0])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Langevin(0.0),
        lambda: Langevin(float("nan")),
        lambda: Langevin(0.1, clamp=(1.0, 1.0)),
        lambda: Langevin(0.1, clip_gradient=0.0),
        lambda: Langevin(0.1, clip_drift=-1.0),
        lambda: MALA(-1.0),
        lambda: HMC(0.0),
        lambda: HMC(0.1, leapfrog_steps=0),
    ],
)
def test_senseless_arguments_raise(wrong) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()


# Metropolis kernels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("h", [0.03, 0.15])
def test_mala_is_in_detailed_balance(kind: str, h: float) -> None:
    """p(x) q(y|x) a(x,y) = p(y) q(x|y) a(y,x) for every pair, with q from torch.distributions."""
    at = coordinates(kind)
    factor = matrix(at)
    field, kernel, step = field_of(banana), MALA(h), number(h)
    x, xi = normal(2, 200, 2, seed=4)
    always = torch.full((200,), -torch.inf, dtype=torch.float64)
    (y, u_y, _), there = kernel.step(field, kernel.init(field, x), (xi, always), step, at)

    def move(a: Tensor) -> MultivariateNormal:
        mean = a - h * field(a)[1] @ factor @ factor.T
        return MultivariateNormal(mean, scale_tril=math.sqrt(2 * h) * factor)

    back_noise = torch.linalg.solve(factor, (x - move(y).mean).T).T / math.sqrt(2 * h)
    (x_back, _, _), back = kernel.step(field, kernel.init(field, y), (back_noise, always), step, at)
    torch.testing.assert_close(u_y, banana(y))
    forth = -banana(x) + move(x).log_prob(y) + there.acceptance.log()
    return_ = -banana(y) + move(y).log_prob(x) + back.acceptance.log()
    seen = torch.minimum(there.acceptance, back.acceptance) > 1e-6  # rounding is larger beyond
    assert seen.double().mean() > 0.7
    torch.testing.assert_close(x_back[seen], x[seen])
    torch.testing.assert_close(forth[seen], return_[seen])
    # One of the two is always accepted; the other is not, or nothing was tested.
    larger = torch.maximum(there.acceptance, back.acceptance)
    torch.testing.assert_close(larger, torch.ones_like(larger))
    assert float(torch.minimum(there.acceptance, back.acceptance)[seen].min()) < 0.95


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 4])
def test_hmc_is_in_detailed_balance(kind: str, n: int) -> None:
    """p(x) N(p) a(x,p) = p(y) N(p') a(y,-p'), where (y, -p') leads back to (x, -p)."""
    at = coordinates(kind)
    field, kernel, e = field_of(banana), HMC(0.3, n), number(0.3)
    x, p = normal(2, 200, 2, seed=5)
    always = torch.full((200,), -torch.inf, dtype=torch.float64)
    state = kernel.init(field, x)
    (y, _, _), there = kernel.step(field, state, (p, always), e, at)
    _, p_end = leapfrog(field, state, p, e, at, n)
    (x_back, _, _), back = kernel.step(field, kernel.init(field, y), (-p_end, always), e, at)
    forth = -banana(x) - p.square().sum(1) / 2 + there.acceptance.log()
    return_ = -banana(y) - p_end.square().sum(1) / 2 + back.acceptance.log()
    seen = torch.minimum(there.acceptance, back.acceptance) > 1e-6  # rounding is larger beyond
    assert seen.double().mean() > 0.7
    torch.testing.assert_close(x_back[seen], x[seen])
    torch.testing.assert_close(forth[seen], return_[seen])
    assert float(torch.minimum(there.acceptance, back.acceptance)[seen].min()) < 0.95


@pytest.mark.parametrize("kernel", [MALA(0.3), HMC(0.5, 3)], ids=["mala", "hmc"])
def test_moves_are_accepted_exactly_below_their_probability(kernel: Kernel) -> None:
    field, h = field_of(banana), number(kernel.step_size)
    x, xi = normal(2, 300, 2, seed=6)
    state = kernel.init(field, x)
    always = torch.full((300,), -torch.inf, dtype=torch.float64)
    proposal, info = kernel.step(field, state, (xi, always), h, PLAIN)
    doubtful = (info.acceptance < 0.999) & (info.acceptance > 1e-3)
    assert doubtful.sum() > 30
    just = info.acceptance.log()
    taken, _ = kernel.step(field, state, (xi, just - 1e-9), h, PLAIN)
    left, _ = kernel.step(field, state, (xi, just + 1e-9), h, PLAIN)
    for new, old, went, stayed in zip(proposal, state, taken, left, strict=True):
        assert torch.equal(went[doubtful], new[doubtful])
        assert torch.equal(stayed[doubtful], old[doubtful])


ADJUSTED = [MALA(0.8), HMC(1.1, 3), HMC(1.3, 1)]


@pytest.mark.parametrize("kernel", ADJUSTED, ids=["mala", "hmc", "hmc of one step"])
@pytest.mark.parametrize(
    "at", [PLAIN, Coordinates("diagonal", number(0.3)[None], number(0.8)[None])]
)
def test_metropolis_kernels_keep_a_skewed_law(kernel: Kernel, at: Coordinates) -> None:
    """From exact draws of a Gumbel law, any number of steps gives exact draws."""
    start = gumbel_draws(CHAINS, 1)
    chains = run(kernel, gumbel, start, steps=12, generator=generator(7), coordinates=at)
    x = chains.x[:, 0]
    assert 0.3 < float(chains.acceptance) < 0.97
    assert float((x - start[:, 0]).abs().mean()) > 0.5
    assert_law(x, stats.gumbel_r.cdf)
    assert_mean(x, 0.5772156649015329)
    assert_mean(x.square(), math.pi**2 / 6 + 0.5772156649015329**2)
    assert_mean((-x).exp(), 1.0)


def test_langevin_does_not_keep_it() -> None:
    """The same check catches a kernel with the bias of a step that large."""
    start = gumbel_draws(CHAINS, 1)
    chains = run(Langevin(0.2), gumbel, start, steps=12, generator=generator(7))
    with pytest.raises(AssertionError):
        assert_law(chains.x[:, 0], stats.gumbel_r.cdf)


@pytest.mark.parametrize("kernel", [MALA(0.3), HMC(0.6, 4)], ids=["mala", "hmc"])
def test_metropolis_kernels_keep_a_tempered_law_in_two_dimensions(kernel: Kernel) -> None:
    """exp(-t U) of a correlated Gaussian in full coordinates, with one step size a chain."""
    at, t = coordinates("full"), 0.4
    factor = torch.tensor([[1.0, 0.0], [0.8, 0.5]], dtype=torch.float64)

    def potential(x: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(factor, x.T, upper=False).square().sum(0) / 2

    start = normal(CHAINS, 2, seed=8) @ factor.T / math.sqrt(t)
    step = torch.linspace(0.5, 1.0, CHAINS, dtype=torch.float64) * kernel.step_size
    chains = run(
        kernel, potential, start, steps=8, generator=generator(9),
        tempering=t, step_size=step, coordinates=at,
    )  # fmt: skip
    white = torch.linalg.solve_triangular(factor, chains.x.T, upper=False).T * math.sqrt(t)
    assert float(chains.acceptance) < 0.99
    for k in range(2):
        assert_normal_law(white[:, k], 0.0, 1.0)
    assert_mean(white[:, 0] * white[:, 1], 0.0)


def test_the_state_carries_its_own_potential_and_gradient() -> None:
    """After refusals too: a stale gradient would spoil the next proposal."""
    field = field_of(banana)
    for kernel in (MALA(0.8), HMC(1.0, 3)):
        x = normal(100, 2, seed=10)
        state = kernel.init(field, x)
        noise = kernel.draw(6, x, generator(11))
        for k in range(6):
            state, info = kernel.step(
                field, state, tuple(n[k] for n in noise), number(kernel.step_size), PLAIN
            )
        assert float(info.acceptance.mean()) < 0.95
        u, gradient = field(state[0])
        torch.testing.assert_close(state[1], u)
        torch.testing.assert_close(state[2], gradient)


def test_metropolis_shows_what_is_not_a_number_and_refuses_the_impossible() -> None:
    old = (torch.zeros(4, 1), torch.zeros(4))
    new = (torch.ones(4, 1), torch.ones(4))
    log_ratio = torch.tensor([torch.nan, -torch.inf, torch.inf, -1.0])
    log_uniform = torch.tensor([-1.0, -5.0, -1e-9, -0.5])
    (x, u), acceptance = metropolis(old, new, log_ratio, log_uniform)
    assert x[:, 0].tolist() == u.tolist() == [1, 0, 1, 0]
    assert acceptance[0].isnan()
    assert acceptance[1:].tolist() == pytest.approx([0, 1, math.exp(-1)])


# Leapfrog


@pytest.mark.parametrize("h", [0.1, 1.0, 1.9])
@pytest.mark.parametrize("steps", [1, 2, 100])
def test_leapfrog_conserves_its_own_energy_on_the_oscillator(h: float, steps: int) -> None:
    q, p = normal(2, 20, 1, seed=12)
    field = field_of(quadratic(1.0))
    (q_end, _, _), p_end = leapfrog(field, (q, *field(q)), p, number(h), PLAIN, steps)
    before = (1 - h**2 / 4) * q.square() + p.square()
    after = (1 - h**2 / 4) * q_end.square() + p_end.square()
    torch.testing.assert_close(after, before, rtol=1e-12, atol=1e-13)
    assert not torch.allclose(q_end, q)


@pytest.mark.parametrize("kind", KINDS)
def test_leapfrog_is_reversible(kind: str) -> None:
    at, field, e = coordinates(kind), field_of(banana), number(0.2)
    x, p = normal(2, 20, 2, seed=13)
    (y, u, gradient), p_end = leapfrog(field, (x, *field(x)), p, e, at, 7)
    (back, _, _), p_back = leapfrog(field, (y, u, gradient), -p_end, e, at, 7)
    torch.testing.assert_close(back, x, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(-p_back, p, rtol=1e-9, atol=1e-9)
    assert float((y - x).abs().mean()) > 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_leapfrog_preserves_volume(kind: str) -> None:
    at, field = coordinates(kind), field_of(banana)

    def flow(z: Tensor) -> Tensor:
        x, p = z[None, :2], z[None, 2:]
        (y, _, _), p_end = leapfrog(field, (x, *field(x)), p, number(0.3), at, 3)
        return torch.cat([y, p_end], 1)[0]

    for z in normal(5, 4, seed=14):
        jacobian = torch.autograd.functional.jacobian(flow, z)
        assert float(torch.linalg.det(jacobian)) == pytest.approx(1, abs=1e-9)
        assert float((jacobian - torch.eye(4)).abs().max()) > 0.1


def test_leapfrog_error_shrinks_with_the_square_of_the_step() -> None:
    field = field_of(banana)
    x, p = normal(2, 50, 2, seed=15)

    def error(e: float, steps: int) -> float:
        (_, u, _), p_end = leapfrog(field, (x, *field(x)), p, number(e), PLAIN, steps)
        gain = u + p_end.square().sum(1) / 2 - banana(x) - p.square().sum(1) / 2
        return float(gain.abs().mean())

    order = math.log2(error(0.02, 10) / error(0.01, 20))
    assert order == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_mala_is_hmc_with_one_leapfrog_step(kind: str) -> None:
    at, field, e = coordinates(kind), field_of(banana), 0.7
    x = normal(200, 2, seed=16)
    mala, hmc = MALA(e**2 / 2), HMC(e, 1)
    noise = mala.draw(5, x, generator(17))
    one, other = mala.init(field, x), hmc.init(field, x)
    for k in range(5):
        here = tuple(n[k] for n in noise)
        one, info = mala.step(field, one, here, number(e**2 / 2), at)
        other, same = hmc.step(field, other, here, number(e), at)
        torch.testing.assert_close(one[0], other[0])
        torch.testing.assert_close(info.acceptance, same.acceptance)
    assert 0.1 < float(info.acceptance.mean()) < 0.95


def test_gradients_per_step() -> None:
    assert HMC(0.1, 7).gradients_per_step == 7
    assert MALA(0.1).gradients_per_step == Langevin(0.1).gradients_per_step == 1
