"""The four diagnostic pictures of the Anatomy paper.

    d_t, r_t                                      the last 200, where single updates can be seen
    cross-correlation, lags -15 to 15             of the last 2,000
    auto-correlations, lags 1 to 15               likewise

with the paper's normalisation (diagnostics/oscillation.py): d is not centred where beta is 0, since
it is around 0 there; elsewhere it is. The band holds 95% of the correlations of series that are
independent in time, 1.96 / sqrt(n) on either side.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix, Figs. 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from coldness.diagnostics.oscillation import LAGS, WINDOW, autocorrelation, cross_correlation
from coldness.report.figures import Array, Columns, Curve, Theme, cycle, limits

LEAST = 100
"""Iterations; the band of fewer is wider than 0.2 and hides all but the strongest."""

SHOWN = 200

BARS = 0.8
"""Of the distance between two lags, that bars of all runs take together."""

WIDTH = 3.7


def pictures(runs: Sequence[Columns]) -> list[Curve]:
    """The four, where every run has d and r and enough iterations; else none."""
    there = all(len(run.get(name, ())) >= LEAST for run in runs for name in ("d", "r"))
    return list(CURVES) if runs and there else []


def _series(name: str) -> Callable[[Axes, Sequence[Columns], Theme], None]:
    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        shown = []
        for run, colour in zip(runs, cycle(theme, len(runs)), strict=True):
            values = run[name][-SHOWN:]
            axes.plot(np.arange(-len(values), 0), values, color=colour, linewidth=0.8)
            shown.append(values)
        limits(axes, np.concatenate(shown), log=False)
        axes.set_xlabel("iterations from the end")
        if name == "d":
            axes.axhline(0, color=theme.ink, linewidth=0.8)
        axes.set_ylabel(name)

    return draw


def _cross(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    shown = []
    for d, r, centred, colour, place in _windows(runs, theme):
        c = cross_correlation(d, r, LAGS, centred_x=centred)
        axes.bar(np.arange(-LAGS, LAGS + 1) + place, c, BARS / len(runs), color=colour)
        shown.append(c)
    _finish(axes, runs, theme, np.concatenate(shown), "lag: iterations by which d is later than r")
    axes.set_xticks(range(-LAGS, LAGS + 1, 5))
    axes.set_xlim(-LAGS - 0.7, LAGS + 0.7)


def _auto(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Bars of d filled, of r beside them pale."""
    shown, width = [], BARS / (2 * len(runs))
    for d, r, centred, colour, place in _windows(runs, theme):
        of_d, of_r = autocorrelation(d, LAGS, centred)[1:], autocorrelation(r, LAGS)[1:]
        lags = np.arange(1, LAGS + 1) + place
        axes.bar(lags - width / 2, of_d, width, color=colour)
        axes.bar(lags + width / 2, of_r, width, color=colour, alpha=0.35)
        shown += [of_d, of_r]
    _finish(axes, runs, theme, np.concatenate(shown), "lag")
    hue = theme.runs[0] if len(runs) == 1 else theme.ink
    patches = [Patch(color=hue, label="d"), Patch(color=hue, alpha=0.35, label="r")]
    axes.legend(
        handles=patches, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0)
    )
    axes.set_xticks([1, 5, 10, 15])
    axes.set_xlim(0.3, LAGS + 0.7)


def _windows(
    runs: Sequence[Columns], theme: Theme
) -> Iterator[tuple[Array, Array, bool, str, float]]:
    """Of every run d, r, whether d is centred, the colour, and where its bars stand at a lag."""
    for k, (run, colour) in enumerate(zip(runs, cycle(theme, len(runs)), strict=True)):
        centred = bool((run.get("beta", np.zeros(1))[-WINDOW:] != 0).any())
        place = BARS * ((k + 0.5) / len(runs) - 0.5)
        yield run["d"][-WINDOW:], run["r"][-WINDOW:], centred, colour, place


def _finish(axes: Axes, runs: Sequence[Columns], theme: Theme, values: Array, label: str) -> None:
    """The band of the shortest run, the axis of correlations, and the name of that of lags."""
    band = 1.96 / np.sqrt(min(len(run["d"][-WINDOW:]) for run in runs))
    axes.axhspan(-band, band, color=theme.ink, alpha=0.14, linewidth=0)
    axes.axhline(0, color=theme.ink, linewidth=0.8)
    finite = np.abs(values[np.isfinite(values)])
    reach = 1.1 * max(float(finite.max(initial=0.0)), 2 * band)
    axes.set_ylim(-min(reach, 1.05), min(reach, 1.05))
    axes.set_xlabel(label)
    axes.set_ylabel("correlation")


CURVES = (
    Curve(
        "Energy difference d at the end",
        "In the last 200 iterations: with beta 0 as often above 0 (contraction) as below "
        "(expansion) in a steady run.",
        _series("d"),
        WIDTH,
    ),
    Curve(
        "Gradient strength r at the end",
        "In the last 200 iterations: how strongly the energy drives the chains.",
        _series("r"),
        WIDTH,
    ),
    Curve(
        "Correlation of d and r",
        "To the left of 0, how r follows d; to the right, how d follows r. In strong oscillation "
        "bars next to 0 stand out of the band: below on its left, for contraction flattens the "
        "energy, and above from 0 on, for steep energies carry chains below the data.",
        _cross,
        WIDTH,
    ),
    Curve(
        "Autocorrelation of d and r",
        "Bars of d, and pale ones of r. Weak oscillation: those of d stay in the band of values "
        "that are independent in time. Strong: they fall out of it below, for an update is taken "
        "back by those that follow. Bars of r that stay high are a slow trend.",
        _auto,
        WIDTH,
    ),
)
