"""log Z of any energy: annealed importance sampling (AIS), forward and reverse.

Chains pass through levels 0 = b_0 < ... < b_T = 1 from a Gaussian to the model,

    V_b(y) = (1 - b) |y|^2 / (2 s^2) + b U(m + L y),

by transitions that leave exp(-V_b) invariant. With D = V_1 - V_0,

    forward   y_0 from the Gaussian:  log w = -sum_k (b_k - b_{k-1}) D(y_{k-1}),   E w = Z / Z_0
    reverse   y_T from the model:     log w =  sum_k (b_k - b_{k-1}) D(y_k),       E w = Z_0 / Z

so log mean w of forward chains is below log Z on average. The negative log mean w of reverse chains
is above log Z on average if they start at samples of the model. bracket.py says what follows from
the two. The ends of forward chains, with their weights, are weighted samples of the model.

Limits. Reverse chains start at data, which is first moved towards the model by `settling`
transitions. Data is no sample of the model if, for example, its modes have other weights; the
reverse side is then no bound. Mass that no chain visits is missing from both sides. So forward
chains also start from a far wider Gaussian (`wide_std`), which finds broad modes away from the
data. A narrow mode far from all data may still be missed: no finite search finds every mode.

m and L are the model's own coordinates if these are full, else the mean of the data and the root of
its covariance (its standard deviations if there are many dimensions or the covariance is singular).
A pilot run chooses levels, such that each changes D by the same fraction of a nat, and step sizes
for a target acceptance. The main chains then use these unchanged, so that E w is exact.

References:
    Annealed Importance Sampling (Neal, 2001), Eqs. 3 to 11.
    Sandwiching the marginal likelihood using bidirectional Monte Carlo (Grosse, Ghahramani, Adams,
    2015), section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from coldness.batching import at_once, parts
from coldness.energies import Coordinates, Energy
from coldness.kernels import HMC, Kernel, run, worth_compiling
from coldness.kernels.base import Field, State
from coldness.kernels.compilation import compiled_for
from coldness.kernels.run import frozen, tempered_field
from coldness.likelihood.bracket import LogZ, Side, bracket

FULL_DIMENSIONS = 200
"""Up to this many dimensions, the full covariance of the data is used."""

PILOT_CHAINS = 128
"""Number of pilot chains; fewer if they do not fit in memory."""

PILOT_LEVELS = 2
"""Largest number of pilot levels, as a multiple of the levels of the path."""

PILOT_WARM_UP = 30
"""Transitions on the Gaussian alone that adapt the first step size to its width."""

PILOT_TRANSITIONS = 2
PILOT_SPREAD = 0.2
"""Nats; half the range of the middle two thirds of the log weights of one pilot level."""

STEP_FACTORS = (1.0, 0.6)
"""Factors on the step sizes of successive levels. A trajectory of constant length can be half a
period of the potential, after which the distance to the mode is what it was: weights then spread by
nats in 50 dimensions."""

LEVELS_PER_CHUNK = 8

MOST_LEVELS, MOST_CHAINS = 1_000_000, 1_000_000
"""A thousand times as many as any model here needed; more would take days."""

MOST_STD, MOST_GRADIENTS = 1e6, 10_000
"""Largest standard deviation of the Gaussians, in units of the data's scale, and most gradients per
transition. Far beyond, energies leave single precision, or one level takes hours."""


class NotFinite(ValueError):
    """The energy is NaN or infinite where AIS evaluates it."""


@dataclass(frozen=True)
class AIS:
    """Settings of the estimate of log Z.

    Args:
        chains: number of chains in each direction.
        levels: number of levels of the path; the more, the tighter the bracket.
        kernel: transitions, of a kernel with a Metropolis test (HMC or MALA); its step size is
            adapted.
        target: acceptance rate to which step sizes are adapted.
        reference_std: s of the Gaussian, in units of the data's scale.
        settling: transitions that move data towards the model before the reverse chains start.
        wide_std: standard deviation of a second, wider Gaussian, in the same units, whose chains
            look for mass away from the data; None for no such search.
    """

    chains: int = 1024
    levels: int = 700
    kernel: Kernel = field(default_factory=lambda: HMC(0.2, leapfrog_steps=3))
    target: float = 0.75
    reference_std: float = 1.2
    settling: int = 100
    wide_std: float | None = 6.0

    def __post_init__(self) -> None:
        if self.levels > MOST_LEVELS or self.settling > MOST_LEVELS:
            raise ValueError(
                f"levels and settling of AIS must be <= {MOST_LEVELS:,}, got {self.levels:,} and "
                f"{self.settling:,}"
            )
        if self.chains > MOST_CHAINS:
            raise ValueError(f"chains of AIS must be <= {MOST_CHAINS:,}, got {self.chains:,}")
        if self.chains < 2 or self.levels < 2 or self.settling < 0:
            raise ValueError(
                "chains and levels of AIS must be >= 2 and settling >= 0, got "
                f"{self.chains}, {self.levels} and {self.settling}"
            )
        if not self.kernel.adjusted:
            name = type(self.kernel).__name__
            raise ValueError(f"kernel of AIS must have a Metropolis test (HMC or MALA), got {name}")
        if self.kernel.gradients_per_step > MOST_GRADIENTS:
            raise ValueError(
                f"the kernel of AIS must take <= {MOST_GRADIENTS:,} gradients per step, got "
                f"{self.kernel.gradients_per_step:,}"
            )
        if self.wide_std is not None and self.wide_std > MOST_STD:
            raise ValueError(f"wide_std of AIS must be <= {MOST_STD:,.0f}, got {self.wide_std:g}")
        if not 0 < self.target < 1 or not 0 < self.reference_std <= MOST_STD:
            raise ValueError(
                "target of AIS must be between 0 and 1 and reference_std > 0 and <= "
                f"{MOST_STD:,.0f}, got {self.target} and {self.reference_std}"
            )
        if self.wide_std is not None and not self.wide_std > self.reference_std:
            raise ValueError(
                "wide_std of AIS must be above reference_std, got "
                f"{self.wide_std} and {self.reference_std}"
            )


class Path(nn.Module):
    """The potentials between the Gaussian and the model, in coordinates y.

    Args:
        energy: the model.
        at: the coordinates x = m + L y.
        std: s of the Gaussian, a scalar; a buffer, so that one compilation serves all widths.
    """

    std: Tensor

    def __init__(self, energy: Energy, at: Coordinates, std: float | Tensor) -> None:
        super().__init__()
        self.energy, self.at = energy, at
        self.register_buffer("std", torch.as_tensor(std))

    def draw(self, count: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Independent samples of the Gaussian, (count, ...)."""
        size, dtype = (count, *shape), self.std.dtype
        y = torch.randn(size, generator=generator, dtype=dtype, device=generator.device)
        return self.std * y

    def reference(self, y: Tensor) -> Tensor:
        """V_0, (B,)."""
        return y.flatten(1).square().sum(1) / (2 * self.std**2)

    def field(self, b: Tensor) -> Field:
        """y -> (V_b, dV_b)."""

        def potential(y: Tensor) -> Tensor:
            return (1 - b) * self.reference(y) + b * self.at_model(y)

        return tempered_field(potential, b.new_ones(()))

    def at_model(self, y: Tensor) -> Tensor:
        """V_1, (B,)."""
        if self.at is self.energy.coordinates:
            return self.energy.white(y)
        return self.energy(self.at.unwhiten(y))

    def difference(self, state: State, b: Tensor) -> Tensor:
        """D at a state of level b > 0, without evaluating the energy again."""
        return (state[1] - self.reference(state[0])) / b

    def moved(self, state: State, b: Tensor, to: Tensor) -> State:
        """A state of level b, converted to another level: V_to = V_0 + (to / b) (V_b - V_0)."""
        y, potential, gradient = state
        reference, pull = self.reference(y), y / self.std**2
        return (
            y,
            reference + to / b * (potential - reference),
            pull + to / b * (gradient - pull),
        )

    def log_z0(self, dimension: int) -> float:
        """log Z_0 of the Gaussian, in the coordinates of x."""
        return dimension * (math.log(2 * math.pi) / 2 + math.log(float(self.std))) + self.at.log_det


class TiltedPath(Path):
    """The potentials between the reference q of an energy and the model, in its coordinates.

        V_b(y) = -log q(y) + b c F(y),     D = c F,     Z_0 = |det L|

    Samples of q are exact and F is small, so a few levels replace the hundreds that a Gaussian
    needs.

    Args:
        energy: the model, with a reference.
    """

    def __init__(self, energy: Energy) -> None:
        assert energy.reference is not None
        super().__init__(energy, energy.coordinates, 1.0)
        self.q = energy.reference

    def draw(self, count: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return self.q.sample(count, generator)

    def reference(self, y: Tensor) -> Tensor:
        return self.q(y)

    def field(self, b: Tensor) -> Field:
        def potential(y: Tensor) -> Tensor:
            return self.q(y) + b * self.energy.tilt_at(y)

        return tempered_field(potential, b.new_ones(()))

    def difference(self, state: State, b: Tensor) -> Tensor:
        return self.energy.tilt_at(state[0])

    def moved(self, state: State, b: Tensor, to: Tensor) -> State:
        y, potential, gradient = state
        tilt, slope = tempered_field(self.energy.tilt_at, b.new_ones(()))(y)
        return y, potential + (to - b) * tilt, gradient + (to - b) * slope

    def log_z0(self, dimension: int) -> float:
        return self.at.log_det


def path_of(energy: Energy, at: Coordinates, std: float | Tensor) -> Path:
    """From the reference of the energy to the model, or from a Gaussian where there is none."""
    return Path(energy, at, std) if energy.reference is None else TiltedPath(energy)


def log_z(
    energy: Energy,
    x_data: Tensor,
    generator: torch.Generator,
    how: AIS | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    compiled: bool | None = None,
) -> LogZ:
    """The log of the integral of exp(-U), as an estimate with a bracket.

    Args:
        energy: the model.
        x_data: examples (N, ...), for the scales of the Gaussian and the starts of reverse chains.
        generator: of the random numbers, on the device of x_data.
        how: settings of AIS.
        on_stage: called with the name of each stage, for a progress display.
        compiled: whether to compile the transitions; None to compile if it is worth the time.
    """
    how = how or AIS()
    shape, dimension = tuple(x_data.shape[1:]), x_data[0].numel()
    path = path_of(energy, coordinates_of(energy, x_data), x_data.new_tensor(how.reference_std))
    at = path.at
    if compiled is None:
        compiled = worth_compiling(2 * how.levels * how.kernel.gradients_per_step)

    def levels_and_steps(path: Path) -> tuple[Tensor, Tensor]:
        on_stage("log Z: choosing levels and step sizes")
        pilots = path.draw(min(PILOT_CHAINS, at_once(shape)), shape, generator)
        return _pilot(path, how, pilots, generator)

    def upwards(path: Path, b: Tensor, h: Tensor) -> Side:
        ends = [
            _anneal(path, how.kernel, y, b, h, generator, compiled)
            for y in parts(path.draw(how.chains, shape, generator))
        ]
        states, log_w = (torch.cat(each) for each in zip(*ends, strict=True))
        return Side(log_w, path.log_z0(dimension), path.at.unwhiten(states).cpu())

    with frozen(list(energy.modules())), torch.no_grad():
        b, h = levels_and_steps(path)
        on_stage("log Z: from the reference to the model")
        forward = upwards(path, b, h)
        on_stage("log Z: from the data to the reference")
        pick = torch.randint(len(x_data), (how.chains,), generator=generator, device=x_data.device)
        weights = []
        for y in parts(at.whiten(x_data[pick])):
            settled = run(
                how.kernel, path.at_model, y, steps=how.settling, generator=generator,
                step_size=float(h[-1]), compiled=False,
            )  # fmt: skip
            down = b.flip(0), h.flip(0)
            weights.append(_anneal(path, how.kernel, settled.x, *down, generator, compiled)[1])
        reverse = Side(torch.cat(weights), path.log_z0(dimension))
        wide = None
        if how.wide_std is not None:
            far = path  # what is compiled for it serves all widths
            if energy.reference is not None:
                far = Path(energy, coordinates_of(energy, x_data), torch.ones_like(x_data[0, 0]))
            far.std.fill_(how.wide_std)
            on_stage("log Z: from a wide Gaussian to the model")
            wide = upwards(far, *levels_and_steps(far))
    if not bool(forward.log_w.isfinite().all() & reverse.log_w.isfinite().all()):
        raise NotFinite("the weights of AIS chains became NaN or infinite")
    return bracket(forward, reverse, wide)


def from_the_gaussian(
    path: Path, how: AIS, y: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, float]:
    """Forward chains: final states (N, ...), log w (N,), and the step size at the model.

    The states with weights w are a weighted sample of the model.

    Args:
        path: from the Gaussian to the model.
        how: settings of AIS.
        y: independent samples of the Gaussian (N, ...), where the chains begin.
        generator: of the random numbers, on the device of y.
    """
    with frozen(list(path.energy.modules())), torch.no_grad():
        count = min(PILOT_CHAINS, at_once(tuple(y.shape[1:])))
        pilots = path.draw(count, tuple(y.shape[1:]), generator).to(y)
        b, h = _pilot(path, how, pilots, generator)
        found = [_anneal(path, how.kernel, p, b, h, generator, compiled=False) for p in parts(y)]
    states, log_w = (torch.cat(each) for each in zip(*found, strict=True))
    if not bool(log_w.isfinite().all()):
        raise NotFinite("the weights of AIS chains became NaN or infinite")
    return states, log_w, float(h[-1])


def coordinates_of(energy: Energy, x: Tensor) -> Coordinates:
    """The model's own coordinates if these are full, else those of the data x (N, ...).

    Dimensions in which the data is constant get the mean scale of the others.
    """
    if energy.coordinates.kind == "full":
        return energy.coordinates
    dimension = x[0].numel()
    if x.dim() == 2 and dimension <= FULL_DIMENSIONS and len(x) > 2 * dimension:
        try:
            return Coordinates.estimate(x, "full").to(x)
        except ValueError:  # singular
            pass
    scale = x.std(0)
    varies = scale > 0
    others = scale[varies].mean() if bool(varies.any()) else scale.new_ones(())
    return Coordinates("diagonal", x.mean(0), torch.where(varies, scale, others)).to(x)


def _pilot(path: Path, how: AIS, y: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Levels b_0 to b_T and the step size at each, (T + 1,) in float64 on the CPU."""
    kernel, at = how.kernel, Coordinates()
    log_h = math.log(kernel.step_size)
    zero, one = y.new_zeros(()), y.new_ones(())

    def moved(b: Tensor, transitions: int) -> State:
        """Chains from y after some transitions at level b, with an adapted step size."""
        nonlocal log_h
        state = kernel.init(path.field(b), y)
        for noise in zip(*kernel.draw(transitions, y, generator), strict=True):
            h = y.new_tensor(math.exp(log_h))
            state, info = kernel.step(path.field(b), state, noise, h, at)
            log_h += 0.5 * (float(info.acceptance.mean()) - how.target)
        return state

    y = moved(zero, PILOT_WARM_UP)[0]
    levels, steps = [0.0], [math.exp(log_h)]
    difference = path.difference(kernel.init(path.field(one), y), one)
    while levels[-1] < 1:
        spread = _spread(difference)
        rest = 1 - levels[-1]
        # The number of levels is limited: the rest is then one jump, which widens the bracket.
        last = len(levels) >= PILOT_LEVELS * how.levels or not spread > 0
        far = rest if last else PILOT_SPREAD / spread
        b = y.new_tensor(min(1.0, levels[-1] + max(far, 1e-7)))
        state = moved(b, PILOT_TRANSITIONS)
        y, difference = state[0], path.difference(state, b)
        levels.append(float(b))
        steps.append(math.exp(log_h))
    index = np.linspace(0, len(levels) - 1, how.levels + 1)
    main = np.interp(index, np.arange(len(levels)), levels)
    sizes = np.exp(np.interp(index, np.arange(len(levels)), _running_mean(np.log(steps))))
    sizes *= np.resize(STEP_FACTORS, len(sizes))
    return torch.from_numpy(main), torch.from_numpy(sizes)


def _spread(values: Tensor) -> float:
    """Half the distance between the quantiles at 1/6 and 5/6, which ignores outliers."""
    low, high = torch.quantile(values.double(), values.new_tensor([1 / 6, 5 / 6]).double()).tolist()
    if not math.isfinite(high - low):
        raise NotFinite("the energy is NaN or infinite at samples of the Gaussian of AIS")
    return (high - low) / 2


def _running_mean(values: np.ndarray[Any, Any], width: int = 9) -> np.ndarray[Any, Any]:
    padded = np.pad(values, width // 2, mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), mode="valid")


def _anneal(
    path: Path,
    kernel: Kernel,
    y: Tensor,
    b: Tensor,
    h: Tensor,
    generator: torch.Generator,
    compiled: bool,
) -> tuple[Tensor, Tensor]:
    """Final states and log w (N,) of chains from y through levels b, upwards or downwards."""
    inner, increments = b[1:-1].to(y), b.diff().to(y)
    steps = h[1:-1].to(y)
    state = kernel.init(path.field(inner[0]), y)
    log_w = y.new_zeros(len(y), dtype=torch.float64)
    ahead, plain = torch.cat([inner[1:], inner[-1:]]), Coordinates()
    for first in range(0, len(inner), LEVELS_PER_CHUNK):
        part = slice(first, min(first + LEVELS_PER_CHUNK, len(inner)))
        noise = kernel.draw(len(inner[part]), y, generator)
        chunk: Callable[..., Any] = _chunk
        if compiled:
            key = (kernel, path.at.kind, len(inner[part]))
            chunk = compiled_for(path, _chunk, key, y)
        state, change = chunk(
            kernel, path, plain, state, noise,
            inner[part], ahead[part], increments[part], steps[part],
        )  # fmt: skip
        log_w += change.double()
    log_w = log_w - increments[-1] * path.difference(state, inner[-1])
    return state[0], log_w.cpu()


def _chunk(
    kernel: Kernel,
    path: Path,
    at: Coordinates,
    state: State,
    noise: tuple[Tensor, ...],
    b: Tensor,
    ahead: Tensor,
    increments: Tensor,
    h: Tensor,
) -> tuple[State, Tensor]:
    """For each level, a weight and then a transition; the state ends at the next level."""
    log_w = torch.zeros_like(state[1])
    for k in range(len(b)):
        log_w = log_w - increments[k] * path.difference(state, b[k])
        of_step = tuple(n[k] for n in noise)
        state, _ = kernel.step(path.field(b[k]), state, of_step, h[k], at)
        state = path.moved(state, b[k], ahead[k])
    return state, log_w
