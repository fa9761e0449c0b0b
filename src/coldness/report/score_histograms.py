"""Histograms of out-of-distribution (OOD) scores: data and every OOD set, one row per set.

Potentials of images are large, and so are their differences: a set may lie hundreds of the data's
standard deviations away. So the axis of all scores but class probabilities is

    asinh((score - median of data) / spread of data),

linear near the data and logarithmic far from it, with ticks in spreads; the spread is half the
distance between the quantiles 0.16 and 0.84, which is the standard deviation of a Gaussian. Largest
class probabilities are shown as they are. Every row has the data behind it, pale, and the AUROC of
the set at its right end.

References:
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), Fig. 5 and Table 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from coldness.metrics import SETS
from coldness.report import figures
from coldness.report.figures import ASPECT, Array, Columns, Curve, Theme, shortened

BINS = 60
OUTERMOST = 0.005
"""Fraction of every set that the outermost bin on either side may hold."""

HEIGHT = 0.85
"""Height of the highest bin, where rows are 1 apart."""

LETTERS = 22
"""Most letters of a name."""

WIDTH = 4.4
COLOURED = 6
"""Colours before the grey, which is that of data."""

PROBABILITIES = (0, 0.2, 0.4, 0.6, 0.8, 1)

SPREAD = (
    "Values are relative to the median of data, in spreads: half the range of the middle 68% of "
    "data. Far from the data the axis is logarithmic."
)


@dataclass(frozen=True)
class Score:
    """What one score is called: in arrays, in metrics, and on the page.

    Arrays are KEY_data and KEY_ood_NAME, metrics auroc_METRIC_NAME. For all scores but U, higher
    means more like data.
    """

    key: str
    metric: str
    title: str
    caption: str
    axis: str
    by_spread: bool = True

    def sets(self, arrays: Mapping[str, Array]) -> list[str]:
        """Names of the sets that can be drawn."""
        start = f"{self.key}_ood_"
        if not np.isfinite(arrays.get(f"{self.key}_data", np.nan)).any():
            return []
        return [
            key.removeprefix(start)
            for key, values in arrays.items()
            if key.startswith(start) and np.isfinite(values).any()
        ]


SCORES = (
    Score(
        "u",
        "logp",
        "Potential U of out-of-distribution sets",
        "A set that the model tells from data lies to the right of it.",
        "U, relative to data (spreads)",
    ),
    Score(
        "maxp",
        "maxp",
        "Largest class probability",
        "A set that the model tells from data lies to the left of it.",
        "largest class probability",
        by_spread=False,
    ),
    Score(
        "grad",
        "grad",
        "Gradient norm",
        "Negative norm of the gradient of log p. A set that the model tells from data lies to the "
        "left of it.",
        "\u2212|gradient|, relative to data (spreads)",
    ),
    Score(
        "typical",
        "typical",
        "Typicality",
        "Negative distance of U from its mean over training examples: an example that is much more "
        "likely than data is not typical of it either. A set that the model tells from data lies "
        "to the left of it.",
        "\u2212|U \u2212 mean|, relative to data (spreads)",
    ),
    Score(
        "joint",
        "joint",
        "Energy and latent",
        "Negative energy plus the weighted cosine between the model's direction and the encoder's "
        "latent (CLEL, Eq. 14). A set that the model tells from data lies to the left of it.",
        "score, relative to data (spreads)",
    ),
)


def curves(arrays: Mapping[str, Array], metrics: Mapping[str, float]) -> list[Curve]:
    """A picture for each score that was measured, as high as its number of sets needs."""
    drawn = []
    for score in SCORES:
        if sets := score.sets(arrays):
            caption = (
                "Histograms of out-of-distribution sets, each over that of data in grey, with the "
                f"AUROC at the right (0.5 is chance, 1 is best). {score.caption}"
            )
            caption += f" {SPREAD}" if score.by_spread else ""
            aspect = max(ASPECT, (0.75 + 0.42 * len(sets)) / WIDTH)
            drawn.append(Curve(score.title, caption, _draw(score, sets, metrics), WIDTH, aspect))
    return drawn


def draw_hardest(
    arrays: Mapping[str, Array], metrics: Mapping[str, float], most: int
) -> figures.Draw:
    """Draws potentials of at most `most` sets, those of the lowest AUROC."""
    score = SCORES[0]
    sets = sorted(score.sets(arrays), key=lambda s: metrics.get(f"auroc_logp_{s}", np.inf))
    return _draw(score, sets[:most], metrics, small=True)


def _draw(
    score: Score, sets: list[str], metrics: Mapping[str, float], small: bool = False
) -> figures.Draw:
    letters, apart = (13, 0.25) if small else (LETTERS, 0.18)

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        (arrays,) = runs
        place, ends = _axis(score, sets, arrays)
        edges = np.linspace(*ends, BINS + 1)
        data = _heights(place(arrays[f"{score.key}_data"]), edges)
        for k, name in enumerate(sets):
            row, colour = len(sets) - 1 - k, theme.runs[k % COLOURED]
            found = _heights(place(arrays[f"{score.key}_ood_{name}"]), edges)
            for heights, fill, alpha in ((data, theme.ink, 0.28), (found, colour, 0.3)):
                axes.stairs(
                    row + heights,
                    edges,
                    baseline=row,
                    fill=True,
                    color=fill,
                    alpha=alpha,
                    linewidth=0,
                )
            axes.stairs(row + found, edges, baseline=row, color=colour, linewidth=1.1)
            auroc = metrics.get(f"auroc_{score.metric}_{name}")
            if auroc is not None:
                axes.annotate(
                    f"{auroc:.{2 if small else 3}f}",
                    (1, row),
                    (4, 3),
                    xycoords=axes.get_yaxis_transform(),
                    textcoords="offset points",
                )
        axes.set_yticks(
            range(len(sets)), [shortened(SETS.get(name, name), letters) for name in reversed(sets)]
        )
        for label in axes.get_yticklabels():
            label.set_parse_math(False)
            label.set_verticalalignment("bottom")
        axes.tick_params("y", length=0)
        axes.set_ylim(-0.05, len(sets))
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xticks(*_ticks(ends, apart) if score.by_spread else (PROBABILITIES,))
        axes.set_xlim(*ends)
        axes.set_xlabel(score.axis)

    return draw


def _axis(
    score: Score, sets: list[str], arrays: Columns
) -> tuple[Callable[[Array], Array], tuple[float, float]]:
    """The map from scores to places on the axis, and the ends of the axis."""
    if not score.by_spread:
        return lambda values: values, (0.0, 1.0)
    data = arrays[f"{score.key}_data"]
    low, middle, high = np.quantile(data[np.isfinite(data)], [0.16, 0.5, 0.84])
    spread = float(high - low) / 2 or 1.0

    def place(values: Array) -> Array:
        return np.arcsinh((values - middle) / spread)

    all_sets = [data, *(arrays[f"{score.key}_ood_{name}"] for name in sets)]
    placed = [place(u[np.isfinite(u)]) for u in all_sets]
    outer = [np.quantile(u, [OUTERMOST, 1 - OUTERMOST]) for u in placed]
    return place, (min(float(a) for a, _ in outer) - 0.1, max(float(b) for _, b in outer) + 0.1)


def _ticks(ends: tuple[float, float], apart: float) -> tuple[list[float], list[str]]:
    """At 0 and powers of ten on both sides, at least this fraction of the axis apart."""
    low, high = ends
    found = {0.0: 0.0}
    for value in (sign * 10.0**k for k in range(12) for sign in (1, -1)):
        at = float(np.arcsinh(value))
        if all(abs(at - other) >= apart * (high - low) for other in found.values()):
            found[value] = at
    shown = {value: at for value, at in found.items() if low <= at <= high}
    signs = [f"{v:,.0f}" if abs(v) < 1e5 else f"{v:.0e}".replace("e+0", "e") for v in shown]
    return list(shown.values()), [s.replace("-", "\u2212") for s in signs]


def _heights(placed: Array, edges: Array) -> Array:
    """Counts in every bin, the highest scaled to HEIGHT; values beyond count in the outermost."""
    inside = np.clip(placed[~np.isnan(placed)], edges[0], edges[-1])
    counts = np.histogram(inside, edges)[0].astype(np.float64)
    return HEIGHT * counts / max(float(counts.max(initial=0)), 1.0)
