"""Pictures and rows for tables: directions, columns, pairs of columns, likelihoods, unusual rows.

Columns are in their own units, from the card of the model; evaluation/table_checks.py says how each
number is measured. Axes are between robust quantiles of the data, and captions count what lies
outside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from coldness.domain import Units
from coldness.evaluation.reasons import named_columns
from coldness.evaluation.table_checks import DIFFERS
from coldness.report.figures import THIRD, Array, Columns, Curve, Draw, Theme, shortened
from coldness.report.robust import outside, span
from coldness.trust.answers import number
from coldness.trust.density_answer import bracket

SHOWN_COLUMNS = 9
SHOWN_PAIRS = 3
LISTED_PAIRS = 10
MOST_POINTS = 1000
"""Points of a panel, as many of data as of samples."""

BINS = 40
LETTERS = 22
"""Most letters of a column's name on an axis."""

SQUARE = 0.8
MODELS = (
    ("log_likelihood_test", "this model"),
    ("log_likelihood_mixture", "Gaussian mixture, BIC"),
    ("log_likelihood_kde_cv", "kernel estimate, cross-validated"),
    ("log_likelihood_kde", "kernel estimate, Scott\u2019s rule"),
    ("log_likelihood_gaussian", "Gaussian"),
)


@dataclass(frozen=True)
class Reason:
    """A column behind an unusual row: its value, on which side it is, and the usual range."""

    name: str
    value: str
    side: str
    usual: str


@dataclass(frozen=True)
class TableReport:
    """What the page shows of a table.

    Args:
        likelihoods: name and log-likelihood of held-out rows, the best first.
        loose: whether log Z of the model is not known closely enough.
        directions: pictures of data, and below of samples, on pairs of leading directions.
        columns: pictures of the columns that differ most.
        total: number of columns.
        pairs: pictures of the pairs of columns that differ most.
        tested: names, energy distance and p-value of the most different pairs.
        about_directions: what each direction is made of.
        about_pairs: how many pairs differ.
        usual_distance: what distances of columns stay below for the right density; None if there
            are no samples.
        score: what the score of a row is called.
        rows: place, score, percentile and reasons of the most unusual rows.
        of: number of held-out rows.
        placed: whether the places of rows in their file are known.
    """

    likelihoods: Sequence[tuple[str, float]]
    loose: bool
    directions: Sequence[Curve]
    columns: Sequence[Curve]
    total: int
    pairs: Sequence[Curve]
    tested: Sequence[tuple[str, str, float, float]]
    about_directions: Sequence[str]
    about_pairs: str
    usual_distance: float | None
    score: str
    rows: Sequence[tuple[int, float, float, Sequence[Reason]]]
    of: int
    placed: bool


def table_report(
    arrays: Mapping[str, Array], metrics: Mapping[str, float], units: Units | None
) -> TableReport | None:
    """What the page shows; None where the evaluation is of no table."""
    if "unusual_x" not in arrays or units is None:
        return None
    found = _Table(arrays, metrics, units)
    return TableReport(
        sorted(
            ((label, metrics[key]) for key, label in MODELS if key in metrics), key=lambda x: -x[1]
        ),
        bracket(metrics) == "loose",
        found.directions(), found.columns(), len(arrays.get("table_columns", ())), found.pairs(),
        found.tested(), found.named_directions(), found.about_pairs(), found.usual_distance(),
        "log p, nats" if arrays["unusual_is_log_p"] else "\u2212U",
        found.rows(), int(arrays["unusual_of"]), bool((arrays["unusual_place"] >= 0).all()),
    )  # fmt: skip


class _Table:
    """The arrays of an evaluation with the units of its table."""

    def __init__(
        self, arrays: Mapping[str, Array], metrics: Mapping[str, float], units: Units
    ) -> None:
        self.arrays, self.metrics, self.units = arrays, metrics, units
        self.names = _spoken(units.names(arrays["x_data"].shape[1:]))
        self.parts = {
            key: units.original(torch.from_numpy(arrays[key])).numpy()
            for key in ("x_data", "x_short")
            if key in arrays
        }

    # Directions.

    def directions(self) -> list[Curve]:
        """Data on every pair of directions, then samples."""
        if "table_axes" not in self.arrays:
            return []
        axes, share = self.arrays["table_axes"], self.arrays["table_axes_share"]
        on = {
            key: (self.arrays[key] - self.arrays["table_centre"]) @ axes.T
            for key in ("x_data", "x_short")
            if key in self.arrays
        }
        labels = [f"direction {k + 1} ({s:.0%} of the variance)" for k, s in enumerate(share)]
        made = []
        for key, what in (("x_data", "Data"), ("x_short", "Samples")):
            for a, b in ((0, 1), (0, 2), (1, 2)):
                if key in on and b < len(axes):
                    ends = span(on["x_data"][:, a]), span(on["x_data"][:, b])
                    count = min(MOST_POINTS, *map(len, on.values()))
                    points = on[key][:count, [a, b]]
                    draw = _points({key: points}, ends, (labels[a], labels[b]))
                    caption = _left_out(points, ends)
                    made.append(Curve(f"{what}, directions {a + 1} and {b + 1}", caption, draw,
                                      THIRD, SQUARE))  # fmt: skip
        return made

    def named_directions(self) -> list[str]:
        """The columns that a direction has most of, each in one line."""
        if "table_axes" not in self.arrays:
            return []
        names = _spoken(self.units.inner_names(self.arrays["x_data"].shape[1:]))
        found = []
        for k, axis in enumerate(self.arrays["table_axes"]):
            most = np.argsort(-np.abs(axis))[:3]
            parts = [f"{names[j]} ({axis[j]:+.2f})".replace("(-", "(\u2212") for j in most]
            found.append(f"Direction {k + 1}: mostly {', '.join(parts)}.")
        return found

    # Columns.

    def columns(self) -> list[Curve]:
        """The columns with the largest distances, the largest first."""
        if "table_distances" not in self.arrays:
            return []
        order = np.argsort(-self.arrays["table_distances"], kind="stable")[:SHOWN_COLUMNS]
        return [
            self._column(int(self.arrays["table_columns"][k]), self.arrays["table_distances"][k])
            for k in order
        ]

    def usual_distance(self) -> float | None:
        """Distance that all columns of a sample of the right density stay below, at DIFFERS.

        By the limit law of Kolmogorov and Smirnov, with Bonferroni's correction.
        """
        columns = len(self.arrays.get("table_columns", ()))
        if not columns:
            return None
        n, m = (len(x) for x in self.parts.values())
        return math.sqrt(math.log(2 * columns / DIFFERS) / 2 * (n + m) / (n * m))

    def _column(self, j: int, distance: float) -> Curve:
        parts = {key: self.units.rounded(x)[:, j] for key, x in self.parts.items()}
        title = f"{self.names[j]}: distance {number(distance)}"
        if self.units.categories(j):
            return Curve(title, "", self._categories(j, parts), THIRD)
        ends = span(parts["x_data"])
        return Curve(title, _left_out(parts["x_data"], (ends,)), _histogram(parts, ends,
                     shortened(self.names[j], LETTERS)), THIRD)  # fmt: skip

    def _categories(self, j: int, parts: Mapping[str, Array]) -> Draw:
        known = self.units.categories(j)[:BINS]
        counts = {
            key: np.array([(np.round(x) == k).mean() for k in range(len(known))])
            for key, x in parts.items()
        }

        def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
            at = np.arange(len(known))
            axes.bar(at, counts["x_data"], 0.8, color=theme.ink, alpha=0.3, label="data")
            if "x_short" in counts:
                axes.plot(at, counts["x_short"], "_", color=theme.runs[1], markersize=14,
                          markeredgewidth=2, label="samples")  # fmt: skip
            short = [shortened(name or "missing", 10) for name in known]
            axes.set_xticks(at, short, rotation=30 if len(known) > 4 else 0, parse_math=False)
            axes.set_xlabel(shortened(self.names[j], LETTERS), parse_math=False)
            axes.set_ylabel("fraction of rows")
            axes.set_ylim(0, 1.3 * max(float(x.max(initial=0.01)) for x in counts.values()))
            axes.legend(frameon=False)

        return draw

    # Pairs.

    def _order(self) -> NDArray[np.int64]:
        """Pairs, the most different first."""
        p, distance = self.arrays["table_pair_p"], self.arrays["table_pair_distances"]
        return np.lexsort([-distance, p])

    def pairs(self) -> list[Curve]:
        """Data and samples of the most different pairs; none where no pair differs."""
        if "table_pairs" not in self.arrays:
            return []
        made = []
        for k in self._order()[:SHOWN_PAIRS]:
            if self.arrays["table_pair_p"][k] > DIFFERS:
                break
            a, b = map(int, self.arrays["table_pairs"][k])
            count = min(MOST_POINTS, *map(len, self.parts.values()))
            points = {key: x[:count, [a, b]] for key, x in self.parts.items()}
            data = self.parts["x_data"]
            ends = span(data[:, a]), span(data[:, b])
            names = [shortened(self.names[j], LETTERS) for j in (a, b)]
            title = f"{self.names[a]} and {self.names[b]}"
            caption = _left_out(points["x_data"], ends)
            made.append(Curve(title, caption, _points(points, ends, names), THIRD, SQUARE))
        return made

    def tested(self) -> list[tuple[str, str, float, float]]:
        if "table_pairs" not in self.arrays:
            return []
        found = []
        for k in self._order()[:LISTED_PAIRS]:
            a, b = map(int, self.arrays["table_pairs"][k])
            found.append((self.names[a], self.names[b],
                          float(self.arrays["table_pair_distances"][k]),
                          float(self.arrays["table_pair_p"][k])))  # fmt: skip
        return found

    def about_pairs(self) -> str:
        """How many pairs differ, in one sentence."""
        m = self.metrics
        if "pairs_tested" not in m:
            return ""
        differ = f"{m['pairs_differ']:.0f}" if m["pairs_differ"] else "None"
        verb = "differs" if m["pairs_differ"] == 1 else "differ"
        return (
            f"{differ} of {m['pairs_tested']:.0f} pairs {verb} between held-out "
            f"rows and samples (corrected p-value of at most {DIFFERS:g}, {m['pairs_rows']:.0f} "
            "rows on either side)."
        )

    # Rows.

    def rows(self) -> list[tuple[int, float, float, Sequence[Reason]]]:
        """Place, score, percentile and reasons, the most unusual first."""
        a = self.arrays
        told = named_columns(a["unusual_slopes"])
        of = float(a["unusual_of"])
        return [
            (
                int(a["unusual_place"][k]),
                float(a["unusual_score"][k]),
                100 * k / of,
                [self._reason(k, j) for j in columns],
            )
            for k, columns in enumerate(told)
        ]

    def _reason(self, k: int, j: int) -> Reason:
        a, written = self.arrays, self.units.written
        value = written(j, float(a["unusual_x"][k, j]))
        if self.units.categories(j):
            share = float((np.round(self.parts["x_data"][:, j]) == a["unusual_x"][k, j]).mean())
            return Reason(self.names[j], value, "unusual", f"{share:.0%} of the held-out rows")
        low, high = (written(j, float(a[f"table_{end}"][j])) for end in ("low", "high"))
        side = "too high" if a["unusual_slopes"][k, j] > 0 else "too low"
        return Reason(self.names[j], value, side, f"usually {low} to {high}")


def _spoken(names: Sequence[str]) -> list[str]:
    """Names of columns; those that are only numbers are called columns."""
    return [f"column {name}" if name.isdigit() else name for name in names]


# Drawing.


def _left_out(points: Array, ends: Sequence[tuple[float, float]]) -> str:
    """How many points lie outside of the axes, in one sentence; empty if none do."""
    out = outside(points, *ends)
    return f"{out} of {len(points)} points lie outside the axes." if out else ""


def _points(
    parts: Mapping[str, Array], ends: Sequence[tuple[float, float]], labels: Sequence[str]
) -> Draw:
    """Draws points (N, 2) of data, of samples, or of both."""

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        looks = {"x_data": (theme.runs[0], "data"), "x_short": (theme.runs[1], "samples")}
        for key, points in parts.items():
            colour, label = looks[key]
            axes.plot(points[:, 0], points[:, 1], ".", color=colour, markersize=3.5, alpha=0.6,
                      markeredgewidth=0, label=label, rasterized=True)  # fmt: skip
        axes.set_xlim(*ends[0])
        axes.set_ylim(*ends[1])
        axes.set_xlabel(labels[0], parse_math=False)
        axes.set_ylabel(labels[1], parse_math=False)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        if len(parts) > 1:
            axes.legend(frameon=False, markerscale=4, loc="lower center", ncols=2,
                        bbox_to_anchor=(0.5, 1.0), handletextpad=0.2)  # fmt: skip

    return draw


def _edges(x: Array, ends: tuple[float, float]) -> Array:
    """Edges of bins: around every integer where there are few of them, else BINS equal ones."""
    found = np.unique(x[(x >= ends[0]) & (x <= ends[1])])
    if 2 <= len(found) <= BINS and (found == np.round(found)).all():
        gap = float(np.diff(found).min())
        if (found[-1] - found[0]) / gap <= 2 * BINS:
            return np.arange(found[0] - gap / 2, found[-1] + gap, gap)
    return np.linspace(*ends, BINS + 1)


def _histogram(parts: Mapping[str, Array], ends: tuple[float, float], label: str) -> Draw:
    """Draws data filled and samples as a line, as fractions of rows per bin."""
    edges = _edges(parts["x_data"], ends)
    heights = {
        key: np.histogram(x[np.isfinite(x)], edges)[0] / max(len(x), 1) for key, x in parts.items()
    }

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        axes.stairs(heights["x_data"], edges, fill=True, color=theme.ink, alpha=0.3, label="data")
        if "x_short" in heights:
            axes.stairs(heights["x_short"], edges, color=theme.runs[1], linewidth=1.2,
                        label="samples")  # fmt: skip
        axes.set_xlabel(label, parse_math=False)
        axes.set_ylabel("fraction per bin")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.legend(frameon=False)

    return draw
