"""log Z of any energy: annealed importance sampling, forward and in reverse.

Chains are carried through levels 0 = b_0 < ... < b_T = 1 from a Gaussian to the model,

    V_b(y) = (1 - b) |y|^2 / (2 s^2) + b U(m + L y),

by transitions that leave exp(-V_b) invariant. With D = V_1 - V_0,

    forward   y_0 from the Gaussian:  log w = -sum_k (b_k - b_{k-1}) D(y_{k-1}),   E w = Z / Z_0
    reverse   y_T from the model:     log w =  sum_k (b_k - b_{k-1}) D(y_k),       E w = Z_0 / Z

so log mean w of forward chains is below log Z on average, and its negative for reverse chains above
it. The two are a bracket, Bennett's acceptance ratio of both is the estimate between them. Reverse
chains start at data, which is first carried towards the model by some transitions.

What no chain visits is not seen. Where the model has mass that the Gaussian reaches and data does
not, the two sides disagree and the bracket is wide. Mass that neither reaches, such as a mode far
from all data, is missing from both, and the bracket is narrow around log Z of the rest: whoever
reads it must also ask where long chains end (report/density_answer.py does).

m and L are the model's own coordinates where these are full, and else the data's mean and the root
of its covariance (its standard deviations where there are many dimensions or the covariance is
singular). Levels and step sizes are found by a
pilot: each level is as far from the next as changes D by the same share of a nat, and steps follow
a target acceptance. The chains that count then use them as they are, so that E w is exact.

References:
    Annealed Importance Sampling (Neal, 2001), Eqs. 3 to 11.
    Sandwiching the marginal likelihood using bidirectional Monte Carlo (Grosse, Ghahramani, Adams,
    2015), section 3.
    Efficient Estimation of Free Energy Differences from Monte Carlo Data (Bennett, 1976), Eq. 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor, nn

from coldness.batching import at_once, parts
from coldness.energies import Coordinates, Energy
from coldness.kernels import HMC, Kernel, run, worth_compiling
from coldness.kernels.base import Field, State
from coldness.kernels.compilation import compiled_for
from coldness.kernels.run import frozen, tempered_field

FULL_DIMENSIONS = 200
"""Up to so many, the data's whole covariance is used."""

PILOT_CHAINS = 128
"""Of the pilot, or as many as may be in memory at a time."""

PILOT_LEVELS = 2
"""So many times the levels of the path, at most."""

PILOT_TRANSITIONS = 2
PILOT_SPREAD = 0.5
"""Nats by which the middle two thirds of the chains differ in a level's weight, in the pilot."""

LEVELS_PER_CHUNK = 8

STANDARD_ERRORS = 2.0
"""By which the bracket is wider than the two estimates, on each side."""

LOOSE = 0.2
"""Nats. A bracket that is wider pins no log-likelihood down."""

LEAST_ESS = 0.01
"""Share of chains. Below it one or two chains make the estimate, and its standard error is void."""


ENDS = ("estimate", "low", "high", "forward", "reverse")


class NotFinite(ValueError):
    """The energy is not finite where it would have to be evaluated."""


@dataclass(frozen=True)
class AIS:
    """How log Z is estimated.

    Args:
        chains: in each direction.
        levels: of the path; the more, the tighter.
        kernel: transitions, of a kernel that refuses moves (HMC or MALA); its step is adapted.
        target: acceptance that steps are adapted to.
        reference_std: s of the Gaussian, in units of the data's scale.
        settling: transitions that carry data towards the model before it goes in reverse.
    """

    chains: int = 1024
    levels: int = 700
    kernel: Kernel = field(default_factory=lambda: HMC(0.2, leapfrog_steps=3))
    target: float = 0.75
    reference_std: float = 1.2
    settling: int = 100

    def __post_init__(self) -> None:
        if self.chains < 2 or self.levels < 2 or self.settling < 0:
            raise ValueError("AIS needs chains >= 2, levels >= 2, settling >= 0")
        if not self.kernel.adjusted:
            name = type(self.kernel).__name__
            raise ValueError(f"AIS needs transitions that leave each level invariant, not {name}")
        if not 0 < self.target < 1 or not self.reference_std > 0:
            raise ValueError("AIS needs a target between 0 and 1 and reference_std > 0")


def _nothing() -> Tensor:
    return torch.empty(0)


@dataclass(frozen=True)
class LogZ:
    """What came of it; log Z of what chains reach is between low and high where it is tight.

    estimate: Bennett's. forward, reverse: the two bounds on average, before standard errors are
    added. ess_forward, ess_reverse: effective share of chains. log_w_forward, log_w_reverse: (N,).
    """

    estimate: float
    low: float
    high: float
    forward: float
    reverse: float
    ess_forward: float
    ess_reverse: float
    log_w_forward: Tensor = field(default_factory=_nothing, repr=False, compare=False)
    log_w_reverse: Tensor = field(default_factory=_nothing, repr=False, compare=False)

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def tight(self) -> bool:
        """NaN is not."""
        return self.width <= LOOSE and min(self.ess_forward, self.ess_reverse) >= LEAST_ESS

    def shifted(self, by: float) -> LogZ:
        """The same for a density in other units: log Z + by."""
        moved = {name: getattr(self, name) + by for name in ENDS}
        return replace(self, **moved)

    def metrics(self) -> dict[str, float]:
        """For metrics.json."""
        return {
            "log_z_low": self.low,
            "log_z_high": self.high,
            "log_z_ess_forward": self.ess_forward,
            "log_z_ess_reverse": self.ess_reverse,
        }


class Path(nn.Module):
    """The potentials between Gaussian and model, in coordinates y.

    Args:
        energy: the model.
        at: the coordinates x = m + L y.
        std: s of the Gaussian.
    """

    def __init__(self, energy: Energy, at: Coordinates, std: float) -> None:
        super().__init__()
        self.energy, self.at, self.std = energy, at, std

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
        """The state of level b at another level: V_to = V_0 + (to / b) (V_b - V_0)."""
        y, potential, gradient = state
        reference, pull = self.reference(y), y / self.std**2
        return (
            y,
            reference + to / b * (potential - reference),
            pull + to / b * (gradient - pull),
        )

    def log_z0(self, dimension: int) -> float:
        """Of the Gaussian, in the coordinates of x."""
        return dimension * (math.log(2 * math.pi) / 2 + math.log(self.std)) + self.at.log_det


def log_z(
    energy: Energy,
    x_data: Tensor,
    generator: torch.Generator,
    how: AIS | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    compiled: bool | None = None,
) -> LogZ:
    """log of the integral of exp(-U), as a bracket.

    Args:
        energy: the model.
        x_data: examples (N, ...), for the scales of the Gaussian and the starts of reverse chains.
        generator: of the random numbers, on x_data's device.
        how: the settings of AIS.
        on_stage: called with what goes on, for a progress display.
        compiled: compile the transitions; null where it is worth it.
    """
    how = how or AIS()
    shape, dimension = x_data.shape[1:], x_data[0].numel()
    own = energy.coordinates
    at = own if own.kind == "full" else _coordinates(x_data)
    path = Path(energy, at, how.reference_std)
    if compiled is None:
        compiled = worth_compiling(2 * how.levels * how.kernel.gradients_per_step)

    def normal(count: int) -> Tensor:
        size = (count, *shape)
        return how.reference_std * torch.randn(
            size, generator=generator, dtype=x_data.dtype, device=x_data.device
        )

    modules = list(energy.modules())
    with frozen(modules), torch.no_grad():
        on_stage("log Z: finding levels and steps")
        pilots = normal(min(PILOT_CHAINS, at_once(tuple(shape))))
        b, h = _pilot(path, how, pilots, generator)
        on_stage("log Z: from the Gaussian to the model")
        forward = torch.cat(
            [
                _anneal(path, how.kernel, y, b, h, generator, compiled)
                for y in parts(normal(how.chains))
            ]
        )
        on_stage("log Z: from the data to the Gaussian")
        pick = torch.randint(len(x_data), (how.chains,), generator=generator, device=x_data.device)
        weights = []
        for y in parts(at.whiten(x_data[pick])):
            settled = run(
                how.kernel, path.at_model, y, steps=how.settling, generator=generator,
                step_size=float(h[-1]), compiled=False,
            )  # fmt: skip
            down = b.flip(0), h.flip(0)
            weights.append(_anneal(path, how.kernel, settled.x, *down, generator, compiled))
        reverse = torch.cat(weights)
    if not bool(forward.isfinite().all() & reverse.isfinite().all()):
        raise NotFinite("chains of AIS met numbers that are not finite")
    return _bracket(forward, reverse, path.log_z0(dimension))


def _coordinates(x: Tensor) -> Coordinates:
    """Scales of the Gaussian; any positive one serves for a dimension in which data is constant."""
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
    levels, steps = [0.0], [kernel.step_size]
    one = y.new_ones(())
    difference = path.difference(kernel.init(path.field(one), y), one)
    while levels[-1] < 1:
        spread = _spread(difference)
        rest = 1 - levels[-1]
        # Not past the number of levels: what is left then is one jump, and the bracket shows it.
        last = len(levels) >= PILOT_LEVELS * how.levels or not spread > 0
        far = rest if last else PILOT_SPREAD / spread
        b = y.new_tensor(min(1.0, levels[-1] + max(far, 1e-7)))
        state = kernel.init(path.field(b), y)
        for noise in zip(*kernel.draw(PILOT_TRANSITIONS, y, generator), strict=True):
            h = y.new_tensor(math.exp(log_h))
            state, info = kernel.step(path.field(b), state, noise, h, at)
            log_h += 0.5 * (float(info.acceptance.mean()) - how.target)
        y, difference = state[0], path.difference(state, b)
        levels.append(float(b))
        steps.append(math.exp(log_h))
    index = np.linspace(0, len(levels) - 1, how.levels + 1)
    main = np.interp(index, np.arange(len(levels)), levels)
    # The first steps of the pilot are still finding their size.
    smooth = _running_mean(np.log(steps[1:]))
    sizes = np.exp(np.interp(index, np.arange(1, len(levels)), smooth))
    return torch.from_numpy(main), torch.from_numpy(sizes)


def _spread(values: Tensor) -> float:
    """Half the distance between the quantiles at 1/6 and 5/6: outliers do not count."""
    low, high = torch.quantile(values.double(), values.new_tensor([1 / 6, 5 / 6]).double()).tolist()
    if not math.isfinite(high - low):
        raise NotFinite("the energy is not finite where the Gaussian of AIS has its mass")
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
) -> Tensor:
    """log w (N,) of chains from y through levels b, upwards or downwards."""
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
            key = (kernel, path.at.kind, path.std, len(inner[part]))
            chunk = compiled_for(path, _chunk, key, y)
        state, change = chunk(
            kernel, path, plain, state, noise,
            inner[part], ahead[part], increments[part], steps[part],
        )  # fmt: skip
        log_w += change.double()
    return (log_w - increments[-1] * path.difference(state, inner[-1])).cpu()


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
    """Weight, then a transition, for each level; the state is left at the level after."""
    log_w = torch.zeros_like(state[1])
    for k in range(len(b)):
        log_w = log_w - increments[k] * path.difference(state, b[k])
        of_step = tuple(n[k] for n in noise)
        state, _ = kernel.step(path.field(b[k]), state, of_step, h[k], at)
        state = path.moved(state, b[k], ahead[k])
    return state, log_w


def _bracket(forward: Tensor, reverse: Tensor, log_z0: float) -> LogZ:
    up, ess_up, error_up = _log_mean(forward)
    down, ess_down, error_down = _log_mean(reverse)
    low, high, between = up, -down, _bennett(forward, reverse)
    ends = [
        between,
        *(low - STANDARD_ERRORS * error_up, low + STANDARD_ERRORS * error_up),
        *(high - STANDARD_ERRORS * error_down, high + STANDARD_ERRORS * error_down),
    ]
    return LogZ(
        estimate=log_z0 + between,
        low=log_z0 + min(ends),
        high=log_z0 + max(ends),
        forward=log_z0 + low,
        reverse=log_z0 + high,
        ess_forward=ess_up,
        ess_reverse=ess_down,
        log_w_forward=forward,
        log_w_reverse=reverse,
    )


def _log_mean(log_w: Tensor) -> tuple[float, float, float]:
    """log mean w, effective share of chains, and standard error of the first."""
    n = len(log_w)
    total = torch.logsumexp(log_w, 0)
    share = (log_w - total).exp()
    ess = float(1 / (share.square().sum() * n))
    return float(total) - math.log(n), ess, math.sqrt(max(0.0, (1 / ess - 1) / (n - 1)))


def _bennett(forward: Tensor, reverse: Tensor) -> float:
    """c with sum sigmoid(log w - c) over forward = sum sigmoid(log w + c) over reverse chains."""

    def excess(c: float) -> float:
        return float(torch.sigmoid(forward - c).sum() - torch.sigmoid(reverse + c).sum())

    ends = torch.cat([forward, -reverse])
    low, high = float(ends.min()) - 50, float(ends.max()) + 50
    return float(brentq(excess, low, high, xtol=1e-9))
