"""Pictures of chains of a trained model: potential and energy distance over the steps.

Chains start from noise and from data; the axis of steps is logarithmic, with step 0 at its left
end. The data's own potentials are drawn beside those of the chains. Below all energy distances is
the floor, the distance between two samples of the data, with a band up to what is graded "yes".

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Figs. 5 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from coldness.report.figures import DARK, LIGHT, THIRD, Array, Columns, Curve, Theme
from coldness.trust.chain_answers import limits

BINS = 50
OUTERMOST = 0.01
"""Fraction of potentials on either side that a histogram may leave out."""

FAR = 1.0
"""The start of chains is shown up to this many times the height of all the rest."""

ENDS = {"u_long": ("long-run chains", 0), "u_short": ("short-run chains", 2)}
"""Label and colour of potentials at the end of chains."""

TRAILS = (("long", "from noise", 0), ("data", "from data", 1))


def pictures(
    arrays: Mapping[str, Array], metrics: Mapping[str, float]
) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of each that an evaluation can fill."""
    columns = with_floor(arrays, metrics)
    chosen = [CURVES[name] for name, needs in NEEDS.items() if needs <= set(arrays)]
    return [
        (c.title, c.caption, c.render([columns], LIGHT), c.render([columns], DARK)) for c in chosen
    ]


def with_floor(arrays: Mapping[str, Array], metrics: Mapping[str, float]) -> Columns:
    """The arrays, the floor of distances, and the largest distance that is graded "yes"."""
    floor = metrics.get("energy_distance_floor", np.nan)
    return {**arrays, "floor": np.array(floor), "good": np.array(floor * limits(metrics)[0])}


def _over_steps(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Quantiles of U of chains, and of data."""
    (arrays,) = runs
    u_data = _finite(arrays["u_data"])
    shown = [np.quantile(u_data, [0.1, 0.9])] if len(u_data) else []
    if shown:
        axes.axhspan(*shown[0], color=theme.ink, alpha=0.16, linewidth=0, label="data")
    first, last = _axis(axes, arrays)
    begun = []
    for name, label, k in _trails(arrays):
        x, u = _places(arrays[f"trail_{name}_steps"], first), arrays[f"trail_{name}_u"]
        axes.fill_between(x, u[:, 0], u[:, 2], color=theme.runs[k], alpha=0.18, linewidth=0)
        axes.plot(x, u[:, 1], ".-", color=theme.runs[k], linewidth=1.5, markersize=4, label=label)
        later = arrays[f"trail_{name}_steps"] > 0
        shown.append(_finite(u[later]))
        begun.append(_finite(u[~later]))
    _show(axes, np.concatenate(shown), np.concatenate(begun))
    axes.set_xlim(first / 1.1, last * 1.1)
    axes.set_ylabel("U, nats")
    _legend(axes)


def _histograms(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Of U of data, and of long-run and short-run chains, on common bins."""
    (arrays,) = runs
    chains = [key for key in ENDS if key in arrays]
    sides = {key: _finite(arrays[key]) for key in ("u_data", *chains)}
    edges = common_edges(list(sides.values()))
    width = edges[1] - edges[0]
    heights = {
        key: np.histogram(u, edges)[0] / (max(len(u), 1) * width) for key, u in sides.items()
    }
    axes.stairs(heights["u_data"], edges, fill=True, color=theme.ink, alpha=0.25, label="data")
    for key in chains:
        label, colour = ENDS[key]
        axes.stairs(heights[key], edges, color=theme.runs[colour], linewidth=1.3, label=label)
    axes.set_xlabel("U, nats")
    axes.set_ylabel("density, per nat")
    _legend(axes)


def common_edges(sides: Sequence[Array]) -> Array:
    """Of bins that leave out at most the outermost 1% of every sample (N,) on each side."""
    ends = [np.quantile(u, [OUTERMOST, 1 - OUTERMOST]) for u in sides if len(u)]
    low = min((float(a) for a, _ in ends), default=0.0)
    high = max((float(b) for _, b in ends), default=0.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, BINS + 1)


def _distances(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Energy distance to data, and its floor."""
    (arrays,) = runs
    first, last = _axis(axes, arrays)
    floor, good = float(arrays["floor"]), float(arrays["good"])
    if np.isfinite(floor) and floor > 0:
        axes.axhline(floor, color=theme.ink, linestyle="--", label="floor")
        axes.axhspan(floor, good, color=theme.good, alpha=0.13, linewidth=0)
    for name, label, k in _trails(arrays):
        x, y = _places(arrays[f"trail_{name}_steps"], first), arrays[f"trail_{name}_distance"]
        there = np.isfinite(y) & (y > 0)
        axes.plot(x[there], y[there], ".-", color=theme.runs[k], markersize=4, label=label)
    axes.set_yscale("log")
    axes.set_xlim(first / 1.1, last * 1.1)
    axes.set_ylabel("energy distance")
    _legend(axes)


# Axes.


def _trails(arrays: Columns) -> Iterator[tuple[str, str, int]]:
    """Name, label and colour of those that were recorded."""
    return (trail for trail in TRAILS if f"trail_{trail[0]}_steps" in arrays)


def _axis(axes: Axes, arrays: Columns) -> tuple[float, float]:
    """Makes the axis of steps; returns the place of step 0, and the last step."""
    steps = np.concatenate([arrays[f"trail_{name}_steps"] for name, *_ in _trails(arrays)])
    later = steps[steps > 0]
    first = float(later.min()) / 2 if len(later) else 1.0
    last = max(float(steps.max()), 2 * first)
    axes.set_xscale("log")
    powers = [10.0**k for k in range(12) if 2 * first < 10.0**k < last / 3]
    ticks = [first, *powers, last]
    axes.set_xticks(ticks, ["0", *(f"{tick:,.0f}" for tick in ticks[1:])])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("steps of the chain")
    return first, last


def _places(steps: Array, first: float) -> Array:
    """On the axis: step 0 at its left end."""
    return np.maximum(steps, first)


def _show(axes: Axes, values: Array, begun: Array) -> None:
    """All values, and those of the start unless they would flatten all others."""
    if not len(values):
        return
    low, high = float(values.min()), float(values.max())
    reach = FAR * ((high - low) or 1.0)
    both = np.concatenate([values, begun])
    low, high = max(float(both.min()), low - reach), min(float(both.max()), high + reach)
    margin = 0.06 * (high - low) or 0.5
    axes.set_ylim(low - margin, high + margin)


def _legend(axes: Axes) -> None:
    axes.legend(
        frameon=False,
        ncols=3,
        loc="lower right",  # of the axes: at their left are labels, and room
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.0,
    )


def _finite(values: Array) -> Array:
    return values[np.isfinite(values)]


NEEDS = {
    "steps": {"trail_long_steps", "u_data"},
    "histograms": {"u_data", "u_long"},
    "distances": {"trail_long_steps"},
}

CURVES = {
    "steps": Curve(
        "Potential U over steps",
        "Median of the chains with a band from the 10% to the 90% quantile, and the same band for "
        "data (grey). Chains that have converged stay within it. The start is cut off where it is "
        "far away.",
        _over_steps,
        THIRD,
    ),
    "histograms": Curve(
        "Potential U at the end",
        "Histograms for data and for chains after their last step: alike where the chains have "
        "converged. Chains far to the left of data have a higher density under the model than data "
        "has. The outermost 1% may be left out.",
        _histograms,
        THIRD,
    ),
    "distances": Curve(
        "Energy distance over steps",
        "Distance between chains and data, on logarithmic axes. The floor is the distance between "
        "two samples of the data; chains that end within the green band above it are graded "
        "yes.",
        _distances,
        THIRD,
    ),
}
