"""The function that runs chains. It is responsible for looping, freezing, compilation and noise.

Chains advance in chunks of K steps. The noise of a chunk is drawn outside the chunk, from the
caller's generator, and passed in; the chunk itself is a pure function of tensors. The same function
runs compiled or eagerly, so compiled and eager chains agree up to rounding, and nothing is copied
back to the host before the caller asks for it.

In full coordinates, x = m + L y with a matrix L, the chains of an energy run in y: L is applied at
the start and at the end instead of at every step, where it takes a third of the time of a step
through a small convolutional network on images of 16 x 16.

compilation.py decides whether a chain is worth compiling, and handles chains that cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from coldness.energies.coordinates import Coordinates
from coldness.kernels.base import Kernel, State
from coldness.kernels.compilation import compiled_for
from coldness.kernels.step_size import ConstantSteps, DualAveraging, StepSchedule

Potential = Callable[..., Tensor]
"""x -> U(x), or (x, *conditions) -> U(x | conditions) where an energy is bound to conditions."""

LARGEST_UNROLL = 20
LAYERS_PER_CHUNK = 200
NOISE_PER_CHUNK = 2**24
"""Calling a chunk costs 0.15 ms on top of its steps, and each step in it takes a second to compile.
A step through convolutions takes far longer than the call and a minute to compile: one step per
chunk."""


@dataclass
class Chains:
    """The final states of chains, and metrics of their path.

    x: final states (B, ...), detached. gradient_norm: mean over steps and chains of |dU| of the
    tempered potential; dU is the gradient with respect to x, and to y in full coordinates.
    acceptance: mean probability of acceptance (1 if the kernel never rejects). potentials: tempered
    U before each step, (steps, B), if a trace was requested. step_size: result of the adaptation,
    () or (B,), if it was requested. first, last: tempered U at the start and at the end, (B,), if
    states of the kernel carry it. log_weights: of the chains, (B,) in float64, if their start keeps
    weights. given: their conditions (B,) or (B, d), if they are conditional.
    """

    x: Tensor
    gradient_norm: Tensor
    acceptance: Tensor
    potentials: Tensor | None = None
    step_size: Tensor | None = None
    first: Tensor | None = None
    last: Tensor | None = None
    log_weights: Tensor | None = None
    given: Tensor | None = None


def run(
    kernel: Kernel,
    potential: Potential,
    x: Tensor,
    *,
    steps: int,
    generator: torch.Generator,
    tempering: float = 1.0,
    step_size: Tensor | float | None = None,
    schedule: StepSchedule | None = None,
    adaptation: DualAveraging | None = None,
    coordinates: Coordinates | None = None,
    trace: bool = False,
    compiled: bool = False,
) -> Chains:
    """Advance chains from x by a number of steps of the kernel on tempering * potential.

    Args:
        kernel: the transition.
        potential: x -> U(x). During the run, parameters are frozen and the network is in eval mode.
        x: starts (B, ...).
        steps: number of transitions; 0 returns x.
        generator: source of all random numbers, on the device of x.
        tempering: t; the chain follows t * U.
        step_size: () or one per chain (B,), instead of the step size of the kernel.
        schedule: how the step size changes along the chain.
        adaptation: adapts the step size to a target acceptance; needs an adjusted kernel.
        coordinates: the preconditioner; by default that of the potential, if it has one.
        trace: record the potential at every step.
        compiled: compile the chunks (see `worth_compiling`).
    """
    schedule = schedule or ConstantSteps()
    _check(kernel, steps, schedule, adaptation)
    at = coordinates or getattr(potential, "coordinates", None) or Coordinates()
    # What lasts is compiled for; conditions, such as classes, are inputs of the chain.
    bound = getattr(potential, "bound", None)
    potential, condition = bound() if bound is not None else (potential, ())
    white: Potential | None = getattr(potential, "white", None)
    own = at is getattr(potential, "coordinates", None)
    if white is not None and own and at.kind == "full" and kernel.affine and steps > 0:
        chains = run(
            kernel, Bound(white, condition) if condition else white, at.whiten(x), steps=steps,
            generator=generator, tempering=tempering, step_size=step_size, schedule=schedule,
            adaptation=adaptation, trace=trace, compiled=compiled,
        )  # fmt: skip
        return replace(chains, x=at.unwhiten(chains.x))
    h_of_step = _along_chain(kernel, schedule, steps, step_size, x)
    t = x.new_full((), tempering)
    modules = list(potential.modules()) if isinstance(potential, nn.Module) else []
    length = _chunk_length(kernel, modules, x, steps)
    adapting = adaptation.init(h_of_step[0], len(x)) if adaptation and steps else ()
    norms, accepted, traces = list[Tensor](), list[Tensor](), list[Tensor]()
    with frozen(modules), torch.no_grad():
        state = kernel.init(tempered_field(potential, t, condition), x.detach())
        before = kernel.potential_in(state)
        for first in range(0, steps, length):
            noise = kernel.draw(size := min(length, steps - first), x, generator)
            chunk: Callable[..., Any] = _chunk
            if compiled:
                kinds = [(c.shape, c.dtype) for c in condition]
                key = (kernel, adaptation, trace, size, h_of_step.dim(), *kinds)
                chunk = compiled_for(potential, _chunk, key, x)
            state, adapting, norm, acceptance, trail = chunk(
                kernel, potential, condition, at, adaptation, trace,
                state, noise, h_of_step[first : first + size], t, adapting,
            )  # fmt: skip
            norms.append(norm)
            accepted.append(acceptance)
            traces.append(trail)
    moves = steps * len(x)
    return Chains(
        x=state[0],
        gradient_norm=_total(norms) / moves if moves else x.new_zeros(()),
        acceptance=_total(accepted) / moves if kernel.adjusted and moves else x.new_ones(()),
        potentials=torch.cat(traces) if trace and steps else None,
        step_size=adapting[3].exp() if adapting else None,
        first=before,
        last=kernel.potential_in(state),
    )


def _chunk(
    kernel: Kernel,
    potential: Potential,
    condition: tuple[Tensor, ...],
    at: Coordinates,
    adaptation: DualAveraging | None,
    trace: bool,
    state: State,
    noise: tuple[Tensor, ...],
    h: Tensor,
    t: Tensor,
    adapting: tuple[Tensor, ...],
) -> tuple[State, tuple[Tensor, ...], Tensor, Tensor | None, Tensor | None]:
    """One step per row of h; gradient norms and acceptances are summed over steps and chains."""
    field = tempered_field(potential, t, condition)
    norms, accepted, potentials = [], [], []
    extra = [1] * (state[0].dim() - 1)
    for k in range(len(h)):
        h_k = adapting[2].exp() if adaptation is not None else h[k]
        h_k = h_k.reshape(-1, *extra) if h_k.dim() else h_k
        state, info = kernel.step(field, state, tuple(n[k] for n in noise), h_k, at)
        gradient = at.pull(info.gradient) if at.kind == "full" else info.gradient
        norms.append(gradient.flatten(1).norm(dim=1))
        if kernel.adjusted:
            accepted.append(info.acceptance)
        if adaptation is not None:
            adapting = adaptation.update(adapting, info.acceptance)
        if trace:
            potentials.append(info.potential)
    accepted_sum = torch.stack(accepted).sum() if kernel.adjusted else None
    trail = torch.stack(potentials) if trace else None
    return state, adapting, torch.stack(norms).sum(), accepted_sum, trail


@dataclass(frozen=True)
class Bound:
    """A potential and the conditions that it is called with."""

    potential: Potential
    condition: tuple[Tensor, ...]

    def bound(self) -> tuple[Potential, tuple[Tensor, ...]]:
        return self.potential, self.condition

    def __call__(self, x: Tensor) -> Tensor:
        return self.potential(x, *self.condition)


def _check(
    kernel: Kernel, steps: int, schedule: StepSchedule, adaptation: DualAveraging | None
) -> None:
    if steps < 0:
        raise ValueError(f"steps must be >= 0, got {steps}")
    if adaptation is not None and not kernel.adjusted:
        raise ValueError(
            f"{type(kernel).__name__} rejects no moves, so its step size cannot be adapted"
        )
    if adaptation is not None and not schedule.is_constant:
        raise ValueError("the step size can follow either an adaptation or a schedule, not both")


def _along_chain(
    kernel: Kernel, schedule: StepSchedule, steps: int, step_size: Tensor | float | None, x: Tensor
) -> Tensor:
    """(steps,) or (steps, B): one row per step, so that the chunk never branches on it."""
    h = kernel.step_size if step_size is None else step_size
    if isinstance(h, Tensor):
        return schedule.factors(steps).to(x).reshape(-1, *[1] * h.dim()) * h.to(x)
    return _steps_of(schedule, steps, h, x.dtype, x.device)


@lru_cache(maxsize=256)
def _steps_of(
    schedule: StepSchedule, steps: int, h: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Step sizes (steps,). They are the same for every call of a source, so they are cached."""
    return (schedule.factors(steps) * h).to(device, dtype)


def _total(sums: list[Tensor]) -> Tensor:
    return sums[0] if len(sums) == 1 else torch.stack(sums).sum()


def tempered_field(
    potential: Potential, t: Tensor, condition: tuple[Tensor, ...] = ()
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """x -> (t U(x), t dU(x)), with one forward and one backward pass."""

    def scaled(x: Tensor) -> tuple[Tensor, Tensor]:
        u = t * potential(x, *condition)
        return u.sum(), u

    def field(x: Tensor) -> tuple[Tensor, Tensor]:
        if torch.compiler.is_compiling():
            gradient, (_, u) = torch.func.grad_and_value(scaled, has_aux=True)(x)
            return u, gradient
        # Outside of compiled code, plain autograd is 1.7 times as fast as torch.func.
        with torch.enable_grad():
            leaf = x.detach().requires_grad_(True)
            total, u = scaled(leaf)
            (gradient,) = torch.autograd.grad(total, leaf)
        return u.detach(), gradient

    return field


@contextmanager
def frozen(modules: list[nn.Module]) -> Iterator[None]:
    """Switch off gradients of parameters and set eval mode; restore both afterwards."""
    training = [m for m in modules if m.training]
    trainable = [p for m in modules for p in m._parameters.values() if p is not None]
    trainable = [p for p in trainable if p.requires_grad]
    # Bypasses nn.Module.__setattr__, which takes longer than the rest of this function.
    for module in training:
        module.__dict__["training"] = False
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for module in training:
            module.__dict__["training"] = True
        for parameter in trainable:
            parameter.requires_grad_(True)


def _chunk_length(kernel: Kernel, modules: list[nn.Module], x: Tensor, steps: int) -> int:
    """Steps per chunk: bounded by unrolled layers and stored noise; a divisor of steps if near."""
    layers = max(1, sum(1 for m in modules if not m._modules))
    unroll = LAYERS_PER_CHUNK // (layers * kernel.gradients_per_step)
    if any(isinstance(m, _ConvNd) for m in modules):
        unroll = 1
    longest = max(1, min(LARGEST_UNROLL, unroll, NOISE_PER_CHUNK // max(x.numel(), 1), steps))
    near = range(longest, max(longest // 2 - 1, 1), -1)
    return next((k for k in near if steps % k == 0), longest)
