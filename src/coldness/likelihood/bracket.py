"""log Z from both sides: what each one-sided estimate bounds, and the bracket that they make.

    forward   from a Gaussian to the model        log mean w is below log Z on average, always
    wide      the same from a far wider Gaussian  likewise; it sees mass far from the data
    reverse   from data to the Gaussian           above log Z on average only if data is distributed
                                                  as the model is

Several lower bounds: the highest one counts, and where they agree the more accurate one. If `wide`
is significantly above `forward`, the model has mass that the narrow Gaussian does not reach.

A crossed pair. Let A be the modes that data visits, with fractions p_A of the model's mass and q_A
of the forward chains. Chains that stay in their mode give a reverse estimate of log Z + log p_A/q_A
(on average over w), and with several modes of model weights p_k and data weights d_k one that is
biased by -log sum_k d_k q_k / p_k. So a reverse estimate that lies significantly *below* the
forward one is evidence that the model's mode weights differ from the data's, or that the model has
mass where there is no data. The two are never swapped: the estimate is then that of the forward
side alone, with its standard error.

Where they are not crossed, Bennett's acceptance ratio of forward and reverse is the estimate.

References:
    Sandwiching the marginal likelihood using bidirectional Monte Carlo (Grosse, Ghahramani, Adams,
    2015), section 3.
    Efficient Estimation of Free Energy Differences from Monte Carlo Data (Bennett, 1976), Eq. 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from scipy.optimize import brentq
from torch import Tensor

STANDARD_ERRORS = 2.0
"""By how many standard errors the bracket extends beyond the two estimates, on each side."""

SIGNIFICANT = 3.0
"""Standard errors of a difference between two estimates beyond which it is not chance."""

NEGLIGIBLE = 0.02
"""Nats. Smaller differences between two estimates are no finding, however small their errors: the
examples that reverse chains start from are themselves a sample."""

LOOSE = 0.2
"""Nats. A wider bracket is too loose for a log-likelihood."""

LEAST_ESS = 0.01
"""Effective fraction of chains. Below it, one or two chains dominate the estimate, and its standard
error is meaningless."""

ENDS = ("estimate", "low", "high", "forward", "reverse", "wide")


def _nothing() -> Tensor:
    return torch.empty(0)


@dataclass(frozen=True)
class LogZ:
    """The estimate of log Z and its bracket [low, high]; see the limits above.

    forward, reverse, wide: the one-sided estimates; error_*: their standard errors; ess_*:
    effective fraction of chains; NaN where `wide` was not run. log_w_forward, log_w_reverse: log
    weights (N,). x, log_w: ends (N, ...) of the chains of the better forward estimate and their
    log weights, which are weighted samples of the model; empty for a model that was loaded.
    """

    estimate: float
    low: float
    high: float
    forward: float
    reverse: float
    ess_forward: float
    ess_reverse: float
    error_forward: float = 0.0
    error_reverse: float = 0.0
    wide: float = math.nan
    error_wide: float = math.nan
    ess_wide: float = math.nan
    log_w_forward: Tensor = field(default_factory=_nothing, repr=False, compare=False)
    log_w_reverse: Tensor = field(default_factory=_nothing, repr=False, compare=False)
    x: Tensor = field(default_factory=_nothing, repr=False, compare=False)
    log_w: Tensor = field(default_factory=_nothing, repr=False, compare=False)

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def wide_is_better(self) -> bool:
        """Whether the wide side counts: significantly higher, or as high and more accurate."""
        if not self.ess_wide >= LEAST_ESS:
            return False
        pair = self.wide, self.forward, self.error_wide, self.error_forward
        lower = _above(self.forward, self.wide, self.error_forward, self.error_wide)
        return _above(*pair) or (self.error_wide < self.error_forward and not lower)

    @property
    def crossing(self) -> float:
        """Nats by which the reverse estimate lies below the better forward one; negative if not."""
        return self._best()[0] - self.reverse

    @property
    def crossed(self) -> bool:
        """Whether that is significant: evidence that mode weights of model and data differ."""
        best, error = self._best()
        return _above(best, self.reverse, error, self.error_reverse)

    @property
    def searched(self) -> bool:
        """Whether chains from the wide Gaussian saw at least what those from the narrow one saw."""
        lower = _above(self.forward - LOOSE, self.wide, self.error_forward, self.error_wide)
        return self.ess_wide >= LEAST_ESS and not lower

    @property
    def tight(self) -> bool:
        """Whether the bracket is narrow and its weights are reliable; False for NaN."""
        weakest = self.ess_wide if self.wide_is_better else self.ess_forward
        if not self.crossed:
            weakest = min(weakest, self.ess_reverse)
        return self.width <= LOOSE and weakest >= LEAST_ESS

    def _best(self) -> tuple[float, float]:
        """The better forward estimate and its standard error."""
        if self.wide_is_better:
            return self.wide, self.error_wide
        return self.forward, self.error_forward

    def shifted(self, by: float) -> LogZ:
        """The same for a density in other units: log Z + by."""
        moved = {name: getattr(self, name) + by for name in ENDS}
        return replace(self, **moved)

    def metrics(self) -> dict[str, float]:
        """For metrics.json."""
        found = {
            "log_z_low": self.low,
            "log_z_high": self.high,
            "log_z_forward": self.forward,
            "log_z_forward_error": self.error_forward,
            "log_z_reverse": self.reverse,
            "log_z_reverse_error": self.error_reverse,
            "log_z_ess_forward": self.ess_forward,
            "log_z_ess_reverse": self.ess_reverse,
            "log_z_crossed": self.crossing if self.crossed else 0.0,
        }
        if not math.isnan(self.wide):
            found |= {
                "log_z_wide": self.wide,
                "log_z_wide_error": self.error_wide,
                "log_z_ess_wide": self.ess_wide,
            }
        return found


NUMBERS = (
    *ENDS, "ess_forward", "ess_reverse", "ess_wide", "error_forward", "error_reverse", "error_wide",
)  # fmt: skip
"""The numbers of a LogZ, which a saved model keeps."""


def _above(a: float, b: float, error_a: float, error_b: float) -> bool:
    """Whether a is significantly above b; False for NaN."""
    return a - b > NEGLIGIBLE + SIGNIFICANT * math.hypot(error_a, error_b)


@dataclass(frozen=True)
class Side:
    """Log weights (N,) of one direction, log Z_0 of its Gaussian, and the ends of its chains."""

    log_w: Tensor
    log_z0: float
    x: Tensor = field(default_factory=_nothing)


def bracket(forward: Side, reverse: Side, wide: Side | None = None) -> LogZ:
    """The estimate and its bracket; `reverse` has the weights of Z_0 / Z."""
    up, ess_up, error_up = log_mean(forward.log_w)
    down, ess_down, error_down = log_mean(reverse.log_w)
    far, ess_far, error_far = (math.nan,) * 3
    if wide is not None:
        far, ess_far, error_far = log_mean(wide.log_w)
        far += wide.log_z0
    between = forward.log_z0 + _bennett(forward.log_w, reverse.log_w)
    sides = LogZ(
        between, between, between,
        forward=forward.log_z0 + up, ess_forward=ess_up, error_forward=error_up,
        reverse=reverse.log_z0 - down, ess_reverse=ess_down, error_reverse=error_down,
        wide=far, ess_wide=ess_far, error_wide=error_far,
        log_w_forward=forward.log_w, log_w_reverse=reverse.log_w,
    )  # fmt: skip
    best, error = sides._best()
    chosen = wide if wide is not None and sides.wide_is_better else forward
    sides = replace(sides, x=chosen.x, log_w=chosen.log_w)
    ends = [best - STANDARD_ERRORS * error, best + STANDARD_ERRORS * error]
    if not sides.crossed:
        above = STANDARD_ERRORS * error_down
        ends += [sides.reverse - above, sides.reverse + above]
        if not sides.wide_is_better:
            ends.append(between)
    estimate = best if sides.crossed or sides.wide_is_better else between
    return replace(sides, estimate=estimate, low=min(ends), high=max(ends))


def log_mean(log_w: Tensor) -> tuple[float, float, float]:
    """log mean w, the effective fraction of chains, and the standard error of log mean w."""
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
