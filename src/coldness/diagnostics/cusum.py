"""Whether a figure has left its own running law: a CUSUM of robust z-scores.

    z_t = min((x_t - median) / max(1.48 MAD, least_spread), cap)
    C_t = max(0, C_{t-1} + z_t - slack),     alarm where C_t > limit

with median and median absolute deviation over a window of values that ends `lag` values ago. Since
is where C last left 0: the estimate of when the change began.

Why this and not a threshold. The law of a gap or a gradient norm is not known beforehand, differs
between models by orders of magnitude, has heavy tails, and moves slowly while a model learns. So
the reference is the figure's own recent past, by medians, which a few wild values do not move; the
lag keeps the beginning of a change out of its own reference; the cap and the sum let one wild batch
pass, and not several in a row; a rise too small for a single z to be large adds up. Of metrics on a
logarithmic scale the least spread is a factor: what stays within it is no change at all.

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
    """Of one figure, upwards; its state is all in its fields.

    Args:
        window: values that the law is taken from.
        lag: newest values that are left out of it.
        least: fewest values that make a law; nothing is said before.
        least_spread: smallest standard deviation that is believed.
        slack: z-score that counts as nothing; 3 is one in 700 for a normal law.
        cap: largest z-score that counts.
        limit: of the sum; with the defaults at least five values in a row.
        renew: new values after which the law is taken anew.
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
        """Takes new values in; gives the index of the first that raises an alarm."""
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
        """Median and spread of the reference, or None while there are too few values."""
        if len(self.values) - self.lag < self.least:
            return None
        reference = np.asarray(self.values[: -self.lag] if self.lag else self.values)
        middle = float(np.median(reference))
        spread = NORMAL * float(np.median(np.abs(reference - middle)))
        return middle, max(spread, self.least_spread)
