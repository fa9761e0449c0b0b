"""run: what it owns besides the kernel's mathematics."""

from __future__ import annotations

import importlib
import logging
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from coldness.energies import ClassifierEnergy, Coordinates, Energy, Gaussian, ScalarEnergy
from coldness.kernels import (
    HMC,
    MALA,
    Chains,
    DualAveraging,
    GeometricSteps,
    Kernel,
    Langevin,
    run,
    worth_compiling,
)
from coldness.nets import MLP
from laws import (
    KINDS,
    assert_mean,
    banana,
    coordinates,
    field_of,
    generator,
    gumbel,
    gumbel_draws,
    normal,
)

module = importlib.import_module("coldness.kernels.run")

KERNELS = [Langevin(0.05), MALA(0.1), HMC(0.2, 3)]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)


def network(dtype: torch.dtype = torch.float64) -> ScalarEnergy:
    torch.manual_seed(0)
    return ScalarEnergy(MLP(2, (8, 8), "silu"), coldness=3.0, reference_std=1.0).to(dtype)


# Chunks


@dataclass(frozen=True)
class Given(Kernel):
    """Langevin with the noise of `tape`, so that how draws are grouped makes no difference."""

    adjusted: ClassVar[bool] = False
    tape: ClassVar[list[Tensor]] = []
    sizes: ClassVar[list[int]] = []

    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        self.sizes.append(steps)
        return (torch.stack([self.tape.pop(0) for _ in range(steps)]),)

    def init(self, field: Any, x: Tensor) -> Any:
        return (x,)

    def step(self, *arguments: Any) -> Any:
        return Langevin(self.step_size).step(*arguments)


@pytest.mark.parametrize(
    ("unroll", "sizes"), [(1, [1] * 11), (3, [3, 3, 3, 2]), (6, [6, 5]), (10, [10, 1]), (11, [11])]
)
def test_chunks_make_no_difference(
    monkeypatch: pytest.MonkeyPatch, unroll: int, sizes: list[int]
) -> None:
    """One chain of 11 steps, whatever the chunks, is the plain loop with every row of the noise."""
    monkeypatch.setattr(module, "LARGEST_UNROLL", unroll)
    noise = normal(11, 5, 2, seed=1)
    Given.tape[:], Given.sizes[:] = list(noise), []
    x0, schedule = normal(5, 2, seed=2), GeometricSteps(3.0, 0.5)
    chains = run(
        Given(0.05), banana, x0, steps=11, generator=generator(), tempering=0.7,
        schedule=schedule, trace=True,
    )  # fmt: skip
    assert Given.sizes == sizes
    x, field, norms, potentials = x0, field_of(banana), [], []
    for xi, factor in zip(noise, schedule.factors(11), strict=True):
        u, gradient = field(x)
        norms.append(0.7 * gradient.norm(dim=1))
        potentials.append(0.7 * u)
        h = 0.05 * factor
        x = x - h * 0.7 * gradient + (2 * h).sqrt() * xi
    torch.testing.assert_close(chains.x, x)
    torch.testing.assert_close(chains.gradient_norm, torch.stack(norms).mean())
    torch.testing.assert_close(chains.potentials, torch.stack(potentials))


def test_chunks_are_bounded_by_noise_and_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def draw(self: Kernel, steps: int, x: Tensor, generator: torch.Generator) -> Any:
        seen.append(steps)
        return (torch.zeros(steps, *x.shape, dtype=x.dtype),)

    monkeypatch.setattr(Langevin, "draw", draw)
    monkeypatch.setattr(module, "NOISE_PER_CHUNK", 4 * 10)
    run(Langevin(0.1), banana, torch.zeros(5, 2), steps=8, generator=generator())
    assert seen == [4, 4]
    seen.clear()
    monkeypatch.setattr(module, "LAYERS_PER_CHUNK", 130)
    deep = ScalarEnergy(MLP(2, (3,) * 20))
    run(Langevin(0.1), deep, torch.zeros(1, 2), steps=9, generator=generator())
    assert seen == [3, 3, 3]  # 130 // 42: 41 layers and the coordinates


# The network


class Spy(nn.Module):
    """A potential that notes the state it is called in."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 4).double(), nn.Linear(4, 1).double()
        self.dropout = nn.Dropout(0.5)
        self.seen: list[tuple[bool, ...]] = []
        self.fail = False

    def forward(self, x: Tensor) -> Tensor:
        if self.fail:
            raise ArithmeticError("as asked")
        flags = tuple(m.training for m in self.modules())
        self.seen.append(flags + tuple(p.requires_grad for p in self.parameters()))
        return self.last(self.dropout(torch.tanh(self.first(x))))[:, 0]


@every_kernel
@pytest.mark.parametrize("fail", [False, True])
def test_the_network_is_frozen_in_eval_mode_and_put_back(kernel: Kernel, fail: bool) -> None:
    spy = Spy()
    spy.train()
    spy.last.eval()
    spy.first.bias.requires_grad_(False)
    spy.first.weight.grad = torch.full_like(spy.first.weight, 7.0)
    before = {name: value.clone() for name, value in spy.state_dict().items()}
    spy.fail = fail
    if fail:
        with pytest.raises(ArithmeticError, match="as asked"):
            run(kernel, spy, normal(4, 2), steps=3, generator=generator())
    else:
        run(kernel, spy, normal(4, 2), steps=3, generator=generator())
        assert len(spy.seen) >= 3
        assert not any(flag for call in spy.seen for flag in call)
    assert [m.training for m in (spy, spy.first, spy.last, spy.dropout)] == [
        True,
        True,
        False,
        True,
    ]
    assert [p.requires_grad for p in spy.parameters()] == [True, False, True, True]
    assert torch.equal(spy.first.weight.grad, torch.full_like(spy.first.weight, 7.0))
    assert spy.last.weight.grad is None
    assert all(torch.equal(value, before[name]) for name, value in spy.state_dict().items())


@every_kernel
@pytest.mark.parametrize("shape", [(5, 1), (3, 2), (4, 1, 3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_dtype_are_those_of_the_start(
    kernel: Kernel, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    start = normal(*shape).to(dtype).requires_grad_(True)
    copy = start.detach().clone()
    chains = run(kernel, gumbel, start, steps=12, generator=generator(), trace=True)
    assert chains.x.shape == shape
    assert chains.x.dtype == chains.gradient_norm.dtype == chains.acceptance.dtype == dtype
    assert not chains.x.requires_grad
    assert torch.equal(start.detach(), copy)
    assert start.grad is None
    assert chains.potentials is not None
    assert chains.potentials.shape == (12, shape[0])
    assert chains.gradient_norm.shape == chains.acceptance.shape == ()
    assert chains.step_size is None


@every_kernel
def test_the_same_generator_gives_the_same_bits(kernel: Kernel) -> None:
    start, source = normal(4, 2), generator(5)
    first = run(kernel, network(), start, steps=13, generator=source)
    second = run(kernel, network(), start, steps=13, generator=source)
    again = run(kernel, network(), start, steps=13, generator=generator(5))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, second.x)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    run(kernel, gumbel, start, steps=3, generator=source)
    assert torch.equal(torch.get_rng_state(), state)  # the global generator is not used


@every_kernel
def test_zero_steps_give_the_start_back(kernel: Kernel) -> None:
    start, source = normal(4, 2), generator(5)
    before = source.get_state()
    chains = run(kernel, network(), start, steps=0, generator=source, trace=True)
    assert torch.equal(chains.x, start)
    assert torch.equal(source.get_state(), before)
    assert float(chains.gradient_norm) == 0
    assert chains.potentials is None


def test_senseless_arguments_raise() -> None:
    with pytest.raises(ValueError, match="steps must be >= 0"):
        run(MALA(0.1), gumbel, normal(2, 1), steps=-1, generator=generator())
    with pytest.raises(ValueError, match="Langevin rejects no moves"):
        run(
            Langevin(0.1), gumbel, normal(2, 1), steps=3, generator=generator(),
            adaptation=DualAveraging(),
        )  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=["MALA", "HMC"])
def test_trace_and_means_of_adjusted_kernels(kernel: Kernel) -> None:
    """Against the kernel's own steps, one after the other with the same noise."""
    start, t = normal(6, 2, seed=3), 0.5
    chains = run(
        kernel, banana, start, steps=5, generator=generator(4), tempering=t, trace=True,
        step_size=3 * kernel.step_size,
    )  # fmt: skip
    field = field_of(lambda x: t * banana(x))
    state = kernel.init(field, start)
    noise = kernel.draw(5, start, generator(4))
    potentials, norms, accepted = [], [], []
    for k in range(5):
        potentials.append(t * banana(state[0]))
        norms.append(field(state[0])[1].norm(dim=1))
        step = torch.tensor(3 * kernel.step_size, dtype=torch.float64)
        state, info = kernel.step(field, state, tuple(n[k] for n in noise), step, Coordinates())
        accepted.append(info.acceptance)
    torch.testing.assert_close(chains.x, state[0])
    torch.testing.assert_close(chains.potentials, torch.stack(potentials))
    torch.testing.assert_close(chains.gradient_norm, torch.stack(norms).mean())
    torch.testing.assert_close(chains.acceptance, torch.stack(accepted).mean())
    assert float(chains.acceptance) < 1


@every_kernel
def test_tempering_is_a_multiple_of_the_potential(kernel: Kernel) -> None:
    start = normal(6, 2)
    one = run(kernel, banana, start, steps=4, generator=generator(6), tempering=0.3)
    other = run(kernel, lambda x: 0.3 * banana(x), start, steps=4, generator=generator(6))
    plain = run(kernel, banana, start, steps=4, generator=generator(6))
    torch.testing.assert_close(one.x, other.x)
    torch.testing.assert_close(one.gradient_norm, other.gradient_norm)
    assert not torch.allclose(one.x, plain.x)


@every_kernel
@pytest.mark.parametrize("shape", [(4, 2), (4, 1, 3, 3)])
def test_a_step_for_each_chain(kernel: Kernel, shape: tuple[int, ...]) -> None:
    """Equal steps are the one step; and each chain follows its own."""
    start = normal(*shape)
    h = kernel.step_size

    def chains(step: Tensor | float | None) -> Tensor:
        return run(kernel, gumbel, start, steps=3, generator=generator(7), step_size=step).x

    torch.testing.assert_close(chains(torch.full((4,), h, dtype=torch.float64)), chains(None))
    mixed = chains(torch.tensor([h, 2 * h, h, 3 * h], dtype=torch.float64))
    for row, factor in enumerate([1, 2, 1, 3]):
        torch.testing.assert_close(mixed[row], chains(factor * h)[row])
    assert not torch.allclose(mixed[1], chains(h)[1])


def test_a_step_size_given_as_a_number_keeps_double_precision() -> None:
    """0.1 has no exact single-precision value: off by 1.5e-8 of itself."""
    start, h = normal(4, 2), 0.1
    chains = run(Langevin(h), gumbel, start, steps=1, generator=generator(7))
    (xi,) = Langevin(h).draw(1, start, generator(7))
    expected = start - h * (1 - (-start).exp()) + math.sqrt(2 * h) * xi[0]
    torch.testing.assert_close(chains.x, expected, rtol=1e-13, atol=1e-14)


# Coordinates


@every_kernel
@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_are_the_plain_chain_in_whitened_space(kernel: Kernel, kind: str) -> None:
    at, start = coordinates(kind), normal(8, 2)

    def whitened(y: Tensor) -> Tensor:
        return banana(at.unwhiten(y))

    one = run(kernel, banana, start, steps=6, generator=generator(8), coordinates=at)
    other = run(kernel, whitened, at.whiten(start), steps=6, generator=generator(8))
    torch.testing.assert_close(one.x, at.unwhiten(other.x), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(one.acceptance, other.acceptance)


def test_the_potentials_own_coordinates_are_used_unless_others_are_given() -> None:
    energy, start = network(), normal(4, 2)

    def end(at: Coordinates | None) -> Tensor:
        return run(Langevin(0.1), energy, start, steps=3, generator=generator(9), coordinates=at).x

    plain = end(None)
    energy.coordinates = coordinates("full")
    torch.testing.assert_close(end(None), end(coordinates("full")))  # moves in y, and in x
    assert not torch.allclose(end(None), end(Coordinates()))
    assert not torch.allclose(end(None), plain)


@every_kernel
@pytest.mark.parametrize("kind", ["scalar", "classifier", "class"])
def test_chains_in_full_coordinates_are_those_in_x(kernel: Kernel, kind: str) -> None:
    """Moves in y, and L at both ends, against moves in x with L at every step."""
    energy: Energy = network()
    if kind != "scalar":
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 3))
        energy = ClassifierEnergy(net, coldness=3.0).double()
    energy.coordinates = coordinates("full")
    if kind == "class":
        assert isinstance(energy, ClassifierEnergy)
        energy = energy.given(torch.tensor([0, 1, 2, 0, 1]))
    at, x0 = energy.coordinates, normal(5, 2, seed=2)
    found = run(kernel, energy, x0, steps=7, generator=generator(), tempering=0.7, trace=True)
    plain = run(
        kernel, lambda x: energy(x), x0, steps=7, generator=generator(), tempering=0.7,
        trace=True, coordinates=at,
    )  # fmt: skip
    torch.testing.assert_close(found.x, plain.x)
    torch.testing.assert_close(found.potentials, plain.potentials)
    torch.testing.assert_close(found.acceptance, plain.acceptance)
    once = run(kernel, energy, x0, steps=1, generator=generator())
    by_y = at.pull(field_of(energy)(x0)[1]).norm(dim=1).mean()
    if kernel == KERNELS[0]:  # others look at the gradient at the proposal
        torch.testing.assert_close(once.gradient_norm, by_y)


@dataclass(frozen=True)
class Fenced(Kernel):
    """Langevin with a step of its own, which says nothing about `affine`."""

    adjusted: ClassVar[bool] = False

    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        return Langevin(self.step_size).draw(steps, x, generator)

    def init(self, field: Any, x: Tensor) -> Any:
        return (x,)

    def step(self, *arguments: Any) -> Any:
        (x,), info = Langevin(self.step_size).step(*arguments)
        return (x.clamp(-0.2, 0.1),), info


@pytest.mark.parametrize("kernel", [Langevin(0.5, clamp=(-0.2, 0.1)), Fenced(0.5)])
def test_in_full_coordinates_pixels_are_clamped_and_not_coordinates(kernel: Kernel) -> None:
    energy = network()
    energy.coordinates = coordinates("full")
    x = run(kernel, energy, normal(50, 2), steps=3, generator=generator()).x
    assert float(x.min()) == -0.2
    assert float(x.max()) == 0.1


def test_gradient_norms_in_full_coordinates_are_by_y_wherever_chains_move() -> None:
    energy, x0 = network(), normal(5, 2)
    energy.coordinates = coordinates("full")
    kernels = Langevin(0.05), Langevin(0.05, clamp=(-1e9, 1e9))  # in y, and in x
    in_y, in_x = (run(k, energy, x0, steps=3, generator=generator()) for k in kernels)
    torch.testing.assert_close(in_y.gradient_norm, in_x.gradient_norm)


# Adaptation


def acceptance_at(kernel: Kernel, step: Tensor, chains: int = 20_000) -> Tensor:
    """Probabilities of acceptance of independent moves in exact stationarity."""
    x = gumbel_draws(chains, 3, seed=11)
    state = kernel.init(field_of(gumbel), x)
    noise = tuple(n[0] for n in kernel.draw(1, x, generator(12)))
    return kernel.step(field_of(gumbel), state, noise, step, Coordinates())[1].acceptance


@pytest.mark.parametrize(
    ("kernel", "target"), [(MALA(0.02), 0.57), (HMC(0.1, 3), 0.8)], ids=["MALA", "HMC"]
)
def test_adaptation_reaches_the_target(kernel: Kernel, target: float) -> None:
    """Within 5 standard errors, and what holds log h away from mu: gamma |mu - log h| / sqrt(T)."""
    steps, rule = 400, DualAveraging(target)
    chains = run(
        kernel, gumbel, gumbel_draws(500, 3), steps=steps, generator=generator(10), adaptation=rule
    )
    assert chains.step_size is not None
    assert chains.step_size.shape == ()
    seen = acceptance_at(kernel, chains.step_size)
    error = 5 * float(seen.std()) / math.sqrt(len(seen))
    pull = abs(math.log(10 * kernel.step_size) - float(chains.step_size.log()))
    bound = error + rule.gamma * pull / math.sqrt(steps)
    assert bound < 0.025
    assert abs(float(seen.mean()) - target) < bound
    assert float(acceptance_at(kernel, torch.tensor(kernel.step_size)).mean()) > target + 0.1


def test_a_step_is_adapted_for_each_chain() -> None:
    """Chains on a potential 4 times as wide, from 16 times the step, arrive at 16 times the step.

    Every number is the other's times a power of two, so that they agree up to rounding.
    """
    rule = DualAveraging(0.6, per_chain=True)

    def adapted(scale: float) -> Chains:
        return run(
            MALA(0.1 * scale**2),
            lambda x: gumbel(x / scale),
            scale * gumbel_draws(6, 2),
            steps=60,
            generator=generator(13),
            adaptation=rule,
        )

    one, four = adapted(1.0), adapted(4.0)
    assert one.step_size is not None
    assert four.step_size is not None
    assert one.step_size.shape == (6,)
    assert len(set(one.step_size.tolist())) == 6
    torch.testing.assert_close(four.step_size, 16 * one.step_size, rtol=1e-8, atol=0)
    torch.testing.assert_close(four.x, 4 * one.x, rtol=1e-8, atol=1e-8)


def test_adapted_steps_follow_the_rule() -> None:
    """Chunk by chunk: the step of each move is exp(log h_t) of the state before it."""
    start, rule, kernel = gumbel_draws(5, 2), DualAveraging(0.6), MALA(0.3)
    chains = run(kernel, gumbel, start, steps=4, generator=generator(14), adaptation=rule)
    field = field_of(gumbel)
    state, adapting = (
        kernel.init(field, start),
        rule.init(torch.tensor(0.3, dtype=torch.float64), 5),
    )
    noise = kernel.draw(4, start, generator(14))
    for k in range(4):
        state, info = kernel.step(
            field, state, tuple(n[k] for n in noise), adapting[2].exp(), Coordinates()
        )
        adapting = rule.update(adapting, info.acceptance)
    torch.testing.assert_close(chains.x, state[0])
    torch.testing.assert_close(chains.step_size, adapting[3].exp())


# Compilation: what happens around it (what it computes is in test_compiled.py)


def refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("no compiler here\nand a long trace")


@pytest.mark.parametrize("when", ["called", "made"])
def test_without_a_compiler_the_chain_runs_eagerly_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, when: str
) -> None:
    """Both where calling the compiled function fails and where torch.compile itself does."""
    monkeypatch.setattr(torch, "compile", refuse if when == "made" else lambda *_, **__: refuse)
    caplog.set_level(logging.INFO, "coldness")
    energy, start = network(), normal(4, 2)
    chains = [
        run(MALA(0.1), energy, start, steps=20, generator=generator(15), compiled=True)
        for _ in range(2)
    ]
    eager = run(MALA(0.1), energy, start, steps=20, generator=generator(15))
    assert torch.equal(chains[0].x, eager.x)
    assert torch.equal(chains[1].x, eager.x)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert warnings == [
        "the chain could not be compiled (RuntimeError: no compiler here); running it eagerly"
    ]


@pytest.mark.parametrize("steps", [1, 3, 5, 7, 20, 23])
def test_short_chains_are_compiled_too(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Contrastive divergence has one step, the beta paper's stress test three."""
    made: list[int] = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: made.append(1) or function)
    start = normal(4, 2)
    run(Langevin(0.1), network(), start, steps=steps, generator=generator(), compiled=True)
    assert made


def test_compiled_chunks_are_kept_per_potential_kernel_and_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: made.append(1) or function)
    energy, other = network(), network()

    def count(kernel: Kernel, potential: nn.Module, chains: int, **options: Any) -> int:
        before = len(made)
        run(
            kernel, potential, normal(chains, 2), steps=20, generator=generator(), compiled=True,
            **options,
        )  # fmt: skip
        return len(made) - before

    assert count(MALA(0.1), energy, 4) == 1
    assert count(MALA(0.1), energy, 4) == 0
    assert count(MALA(0.1), energy, 4, tempering=0.5, step_size=0.2) == 0
    assert count(MALA(0.1), energy, 5) == 1
    assert count(Langevin(0.1), energy, 4) == 1
    assert count(MALA(0.1), other, 4) == 1
    assert count(MALA(0.1), energy, 4, trace=True) == 1
    assert count(MALA(0.1), energy, 4, adaptation=DualAveraging()) == 1
    assert count(MALA(0.1), energy, 4, step_size=torch.full((4,), 0.1)) == 1


def test_what_is_worth_compiling() -> None:
    assert not worth_compiling(1000)
    assert worth_compiling(1_000_000)


def test_a_known_energy_can_be_sampled_in_single_precision() -> None:
    """Known energies are float64 inside; chains keep their own precision."""
    energy = Gaussian([1.0, -1.0], [[0.5, 0.2], [0.2, 0.4]])
    for kernel in KERNELS:
        start = energy.mean + normal(2000, 2) @ energy.factor.T
        chains = run(kernel, energy, start.float(), steps=5, generator=generator(16))
        assert chains.x.dtype == torch.float32
        assert_mean(chains.x[:, 0].double(), 1.0)
        assert_mean(chains.x[:, 1].double(), -1.0)
