"""Alarms of the guard: signs of divergence in the metrics of the iterations.

    not_finite   any metric that is NaN or infinite
    gap          |d|, the largest of all sources, compared with its own running statistics (a CUSUM
                 of robust z-scores; diagnostics/cusum.py explains why). Also, whatever these
                 statistics are, a gap that stays above RUNAWAY units and grows: twofold in 30
                 iterations, or at all in 50.
    gradient     norm of the parameters' gradient and mean norm r of the energy's gradient, in the
                 same way. They rise fortyfold in healthy runs too, within some hundred iterations,
                 so a standard deviation counts as at least a factor of e^1.5.
    saturation   more than SATURATED of a replay buffer's (bank's) chains lie far outside the data
    starvation   mean GradScale below STARVED over RECENT iterations: no negative competes with
                 the data, so the objective nearly vanishes and what is left of the gradient is
                 noise. Where a term teaches the energy too (labels, an encoder), the gradient is
                 never noise alone, and negatives may fall behind for a while. There the effect
                 counts: the mean is below STARVED over EFFECT iterations, and |d| does not close.
                 That is, its median over the last half of them is at least CLOSING times that over
                 the first half. Then the energy learns from the other term only, and nothing brings
                 its negatives back to the data.

U is dimensionless, so gaps have natural units. For D-dimensional Gaussian data under its own model,
U has mean D / 2 above its lowest value and standard deviation sqrt(D / 2). Changes are measured in
units of the latter. A runaway gap is measured in units of the former, because errors add up over
dimensions. Some energies have larger ordinary gaps: those of a classifier are gaps of logits, which
the coldness of its density multiplies.

References:
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendix M and Fig. 16
    (the gap as the sign of divergence), Appendix H (starvation).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coldness.diagnostics.cusum import Cusum
from coldness.guard.remedies import Cause
from coldness.metrics import of_sources
from coldness.tensor_files import EVERY, Maybe, check_form

Row = Mapping[str, float]

RUNAWAY = 80.0
"""A gap that stays above this many times D / 2 nats is a runaway gap. The running statistics alone
would miss it: they are unknown at the beginning, and they follow slow growth. Growing gaps of
healthy runs stay below 10 in two dimensions; persistent chains on rings10d, whose scales differ by
a factor of 150, reach 60."""

GROWTH, GROWTH_TIME, STAY = 2.0, 30, 10
"""Growth factor, iterations in which it must be reached, iterations that the gap stays above."""

STAY_LONG = 50
"""Iterations after which a gap that stays above RUNAWAY raises an alarm unless it falls."""

STARVED = 0.01
"""Limit of the mean GradScale over RECENT iterations. Healthy runs have 0.2 or more, also with
three negatives; with a single negative that makes no steps, at least 0.02."""

RECENT = 20

EFFECT = 100
"""Iterations of starvation without recovery, where something else than negatives teaches."""

CLOSING = 0.9
"""A gap that falls below this fraction of its earlier value closes."""

SATURATED = 0.2
"""Limit of the median fraction of a bank's chains far outside the data, over as many iterations."""

SMALLEST = 1e-30

KEPT = ("unseen", "gaps", "scales", "starved_gaps", "outside")
"""Series that the checkpoint holds."""

FORM = {
    **{name: [0.0] for name in KEPT},
    "unseen": [{EVERY: 0.0}],
    "laws": {EVERY: {**asdict(Cusum()), "values": [0.0], "reference": Maybe([0.0])}},
}
"""Of the state."""


@dataclass(frozen=True)
class Alarm:
    """A problem that was detected.

    Args:
        cause: kind of alarm.
        iteration: at which it was detected.
        since: iteration at which it began.
        figure: name of the metric, a column of metrics.csv.
        value: of the metric at that iteration.
        usual: its value before, where running statistics are kept; else None.
    """

    cause: Cause
    iteration: int
    since: int
    figure: str
    value: float
    usual: float | None = None

    @property
    def text(self) -> str:
        """Such as: gap |d| of 5.2e+03 nats, usually 12, since iteration 310."""
        what = {
            "not_finite": f"{self.figure} became NaN or infinite",
            "gap": f"gap |d| of {self.value:.3g} nats",
            "gradient": f"{self.figure} of {self.value:.3g}",
            "saturation": f"{self.value:.0%} of the bank's chains are far outside the data",
            "starvation": f"GradScale of {self.value:.2g}: no negative is competitive with data",
        }[self.cause]
        usual = "" if self.usual is None else f", usually {self.usual:.3g}"
        return f"{what}{usual}, since iteration {self.since}"


class Watch:
    """Collects rows of metrics and checks them on request.

    Args:
        dimension: D of the data.
        ordinary_gap: in nats; smaller gaps are never runaway gaps, whatever D is.
        taught: whether the energy learns from something else than negatives too.
    """

    def __init__(self, dimension: int, ordinary_gap: float = 0.0, taught: bool = False) -> None:
        self.taught = taught
        self.unit = math.sqrt(dimension / 2)
        self.limit = max(RUNAWAY * dimension / 2, ordinary_gap)
        self.unseen: list[dict[str, float]] = []
        self.gaps: list[float] = []
        self.scales: list[float] = []
        self.starved_gaps: list[float] = []
        self.outside: list[float] = []
        self.laws = _laws()
        self.last_row: Row = {}
        self._columns: dict[str, list[str]] = {}

    def add(self, rows: Sequence[Row]) -> None:
        self.unseen += [dict(row) for row in rows]

    @property
    def finite(self) -> bool:
        """Whether all rows that were not checked yet are finite."""
        return all(math.isfinite(value) for row in self.unseen for value in row.values())

    def look(self) -> Alarm | None:
        """Checks all rows since the last call; returns the first alarm, or None."""
        rows, self.unseen = self.unseen, []
        if not rows:
            return None
        self.last_row = rows[-1]
        for row in rows:
            for name, value in row.items():
                if not math.isfinite(value):
                    self.last_row = row
                    t = int(row["iteration"])
                    return Alarm("not_finite", t, t, name, value)
        gaps = [max(abs(row[name]) for name in self._named("d", rows)) for row in rows]
        last = int(rows[-1]["iteration"])
        self.gaps = [*self.gaps, *gaps][-STAY_LONG:]
        return (
            self._left_law("gap", "d", [math.log1p(gap / self.unit) for gap in gaps], gaps, rows)
            or self._runaway(last)
            or self._of_column("parameter_gradient", rows)
            or self._of_column("r", rows)
            or self._starved(rows, gaps, last)
            or self._saturated(rows, last)
        )

    def forget(self) -> None:
        """Drops the running statistics, which do not hold after a change of settings."""
        self.gaps, self.scales, self.starved_gaps, self.outside = [], [], [], []
        self.laws = _laws()

    def state_dict(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in KEPT}
        return {**kept, "laws": {name: asdict(law) for name, law in self.laws.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        check_form(state, FORM, "the watch of the guard")
        for name in KEPT:
            setattr(self, name, list(state.get(name, [])))  # runs of 0.7 had fewer
        self.laws = _laws() | {name: _restored(law) for name, law in state["laws"].items()}

    def _of_column(self, name: str, rows: Sequence[Row]) -> Alarm | None:
        values = self._largest(name, rows)
        return self._left_law(
            "gradient", name, [math.log(max(v, SMALLEST)) for v in values], values, rows
        )

    def _left_law(
        self,
        cause: Cause,
        name: str,
        x: Sequence[float],
        values: Sequence[float],
        rows: Sequence[Row],
    ) -> Alarm | None:
        law = self.laws[name]
        k = law.push(x)
        if k is None:
            return None
        middle = (law.reference or (math.nan, 0.0))[0]
        usual = math.expm1(middle) * self.unit if cause == "gap" else math.exp(middle)
        t = int(rows[k]["iteration"])
        return Alarm(cause, t, t - law.run + 1, name, values[k], usual)

    def _runaway(self, last: int) -> Alarm | None:
        """A gap that stays high and grows; needs no running statistics."""
        gaps, limit = self.gaps, self.limit
        if len(gaps) < GROWTH_TIME + STAY or min(gaps[-STAY:]) < limit:
            return None
        recent = gaps[-(GROWTH_TIME + STAY) :]
        before = float(np.median(recent[:STAY]))
        if min(gaps[-STAY:]) >= GROWTH * before:
            return Alarm("gap", last, last - GROWTH_TIME, "d", gaps[-1], before)
        if len(gaps) < STAY_LONG or min(gaps) < limit:
            return None
        before = float(np.median(gaps[:STAY]))
        if np.median(gaps[-STAY:]) >= before:
            return Alarm("gap", last, last - STAY_LONG + 1, "d", gaps[-1], before)
        return None

    def _starved(self, rows: Sequence[Row], gaps: Sequence[float], last: int) -> Alarm | None:
        window = EFFECT if self.taught else RECENT
        self.scales = [*self.scales, *self._largest("grad_scale", rows)][-window:]
        self.starved_gaps = [*self.starved_gaps, *gaps][-window:]
        mean = sum(self.scales) / len(self.scales)
        if len(self.scales) < window or mean >= STARVED or (self.taught and self._closes()):
            return None
        return Alarm("starvation", last, last - window + 1, "grad_scale", mean)

    def _closes(self) -> bool:
        """Whether the gap falls over the window."""
        half = len(self.starved_gaps) // 2
        before, after = self.starved_gaps[:half], self.starved_gaps[half:]
        return float(np.median(after)) < CLOSING * float(np.median(before))

    def _saturated(self, rows: Sequence[Row], last: int) -> Alarm | None:
        if not self._named("bank_outside", rows):
            return None
        self.outside = [*self.outside, *self._largest("bank_outside", rows)][-RECENT:]
        middle = float(np.median(self.outside))
        if len(self.outside) < RECENT or middle < SATURATED:
            return None
        return Alarm("saturation", last, last - RECENT + 1, "bank_outside", middle)

    def _named(self, name: str, rows: Sequence[Row]) -> list[str]:
        """Columns of this metric, for all sources; the same in every row of a run."""
        if name not in self._columns:
            self._columns[name] = list(of_sources(rows[0], name).values())
        return self._columns[name]

    def _largest(self, name: str, rows: Sequence[Row]) -> list[float]:
        names = self._named(name, rows)
        return [max(row[column] for column in names) for row in rows]


def _laws() -> dict[str, Cusum]:
    return {
        "d": Cusum(),
        "parameter_gradient": Cusum(least_spread=1.5),
        "r": Cusum(least_spread=1.5),
    }


def _restored(law: dict[str, Any]) -> Cusum:
    if law["reference"] is None:
        return Cusum(**law)
    middle, spread = law["reference"]
    return Cusum(**{**law, "reference": (middle, spread)})
