"""Pictures of densities on the line: data, model, short-run and long-run samples in one.

Data is a filled histogram, samples are histograms drawn as steps, the model is its density on the
grid. The second picture has a logarithmic axis, on which tails and gaps show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from coldness.report.figures import DARK, LIGHT, Array, Columns, Curve, Draw, Theme

BINS = 60

SAMPLES = {"x_short": (1, "short-run"), "x_long": (2, "long-run")}


def pictures(arrays: Mapping[str, Array]) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of each, from the arrays of an evaluation."""
    return [
        (c.title, c.caption, c.render([arrays], LIGHT), c.render([arrays], DARK)) for c in CURVES
    ]


def draw_line(
    log: bool, samples: Sequence[str] = ("x_short", "x_long"), model: bool = True
) -> Draw:
    """Data, and beside it these samples and the model's density.

    Args:
        log: scale of the vertical axis.
        samples: which of x_short and x_long.
        model: whether its density is drawn, where it is known.
    """

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        (arrays,) = runs
        box = float(arrays["box"])
        edges = np.linspace(-box, box, BINS + 1)
        data = _heights(arrays["x_data"], edges)
        axes.stairs(data, edges, fill=True, color=theme.ink, alpha=0.25, label="data")
        for key in samples:
            colour, label = SAMPLES[key]
            heights = _heights(arrays[key], edges)
            axes.stairs(heights, edges, color=theme.runs[colour], linewidth=1.1, label=label)
        if model and "log_p_model" in arrays:
            near = np.abs(arrays["side"]) <= box
            density = np.exp(arrays["log_p_model"][near])
            axes.plot(arrays["side"][near], density, color=theme.runs[0], label="model")
        axes.set_xlabel("x in the model's coordinates")
        if log:
            axes.set_yscale("log")
            axes.set_ylim(_lowest(data) / 30, 3 * float(data.max(initial=1e-9)))
        axes.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    return draw


def _heights(x: Array, edges: Array) -> Array:
    """Density of the samples (n, 1) in each bin; those outside count in n."""
    counts, _ = np.histogram(x[np.isfinite(x)], edges)
    return counts / (len(x) * (edges[1] - edges[0]))


def _lowest(heights: Array) -> float:
    return float(heights[heights > 0].min(initial=1.0))


CURVES = (
    Curve("Density", "Held-out or fresh data, the model, and its samples.", draw_line(log=False)),
    Curve(
        "Log density",
        "The same on a logarithmic axis, down to a thirtieth of a point a bin.",
        draw_line(log=True),
    ),
)
