"""Change detection for one metric: a CUSUM of robust z-scores against its own recent past.

    z_t = min((x_t - median) / max(1.48 MAD, least_spread), cap)
    C_t = max(0, C_{t-1} + z_t - slack),     alarm where C_t > limit

with the median and the median absolute deviation (MAD) of a window of values that ends `lag` values
ago. The time at which C last left 0 is the estimate of when the change began.

Why this and not a threshold: the distribution of a gap or a gradient norm is not known beforehand,
differs between models by orders of magnitude, has heavy tails, and moves slowly while a model
learns. So the reference is the metric's own recent past, summarised by medians, which a few
outliers do not move. The lag keeps the beginning of a change out of its own reference. The cap and
the sum ignore a single outlying batch, but not several in a row; a rise that is too small for a
large z adds up. For metrics on a logarithmic scale the least spread is a factor: variation within
it counts as no change.

References:
    Continuous Inspection Schemes (Page, 1954), section 2.
    The use of medians and MADs: Alternatives to the Median Absolute Deviation (Rousseeuw, Croux,
    1993), section 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

NORMAL = 1.4826
"""A normal standard deviation over its median absolute deviation."""


@dataclass
class Cusum:
    """Detects an upward change of one metric; its fields are its whole state.

    Args:
        window: number of values in the reference.
        lag: number of newest values that are left out of the reference.
        least: fewest values for a reference; before that there is no alarm.
        least_spread: lower bound on the standard deviation of the reference.
        slack: z-score that adds nothing to the sum; a normal variable exceeds 3 once in 700 times.
        cap: largest z-score that is added.
        limit: of the sum; with the defaults, an alarm takes at least five values in a row.
        renew: number of new values after which the reference is updated.
    """

    window: int = 500
    lag: int = 50
    least: int = 100
    least_spread: float = 0.25
    slack: float = 3.0
    cap: float = 8.0
    limit: float = 20.0
    renew: int = 50
    values: list[float] = field(default_factory=list)
    reference: tuple[float, float] | None = None
    fresh: int = 0
    total: float = 0.0
    run: int = 0

    def push(self, x: Sequence[float]) -> int | None:
        """Add new values; returns the index of the first that raises an alarm, or None."""
        if self.reference is None or self.fresh >= self.renew:
            self.reference, self.fresh = self.law(), 0
        self.values += x
        self.fresh += len(x)
        del self.values[: -(self.window + self.lag)]
        if self.reference is None:
            return None
        middle, spread = self.reference
        for k, value in enumerate(x):
            z = min((value - middle) / spread, self.cap)
            self.total = max(0.0, self.total + z - self.slack)
            self.run = self.run + 1 if self.total > 0 else 0
            if self.total > self.limit:
                return k
        return None

    def law(self) -> tuple[float, float] | None:
        """Median and standard deviation of the reference; None while there are too few values."""
        if len(self.values) - self.lag < self.least:
            return None
        reference = np.asarray(self.values[: -self.lag] if self.lag else self.values)
        middle = float(np.median(reference))
        spread = NORMAL * float(np.median(np.abs(reference - middle)))
        return middle, max(spread, self.least_spread)
