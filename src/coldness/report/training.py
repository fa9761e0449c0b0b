"""Pictures of a training: curves over the iterations, and diagnostics of single updates.

Curves are columns of metrics.csv against the iteration. Single updates have the four pictures of
the Anatomy paper:

    d_t, r_t                              the last 200, where single updates can be seen
    cross-correlation, lags -15 to 15     of the last 2,000
    autocorrelations, lags 1 to 15        likewise

with the paper's normalisation (diagnostics/oscillation.py): d is not centred where beta is 0, since
it is around 0 there; elsewhere it is. The band holds 95% of the correlations of series that are
independent in time, 1.96 / sqrt(n) on either side.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 3, for d and r; practical appendix, Figs. 1 and 2.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 3, for the
    weights.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Fig. 6, for the noise of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from coldness.diagnostics.oscillation import LAGS, WINDOW, autocorrelation, cross_correlation
from coldness.report.figures import (
    THIRD,
    Array,
    Columns,
    Curve,
    Theme,
    cycle,
    limits,
    log_ticks,
    sources,
    thin,
)

SMALL_FRACTION = 0.05
"""A fraction that falls below this is drawn on a logarithmic axis."""

LEAST = 100
"""Iterations that single updates need: the band of fewer is wider than 0.2 and hides all but the
strongest correlations."""

SHOWN = 200

BARS = 0.8
"""Of the distance between two lags, the part that the bars of all runs take together."""


# Over the iterations.


def curves(runs: Sequence[Columns]) -> list[Curve]:
    """Those that the runs' columns can fill; gradient scale and acceptance are left out where they
    are 1 throughout, as they are without beta and without a Metropolis test."""
    chosen = []
    for name, curve in CURVES.items():
        columns = [run[column] for run in runs for column, _ in sources(run, name)]
        dull = name in ("grad_scale", "acceptance") and all((c == 1).all() for c in columns)
        empty = name.startswith("live_") and not any(np.isfinite(c).any() for c in columns)
        if columns and not dull and not empty:
            chosen.append(curve)
    return chosen


def _lines(
    name: str, label: str, log: bool = False, fraction: bool = False
) -> Callable[[Axes, Sequence[Columns], Theme], None]:
    """Draws a column of every run, smoothed over 2% of the run, before the raw values.

    Args:
        name: of the column.
        label: of the vertical axis.
        log: whether the vertical axis is logarithmic.
        fraction: the column is a fraction of 1; the axis is logarithmic where it comes near 0.
    """

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        if not log and not fraction:
            axes.axhline(0, color=theme.ink, linewidth=0.8)
        shown = []
        for run, colour in zip(runs, cycle(theme, len(runs)), strict=True):
            for column, dash in sources(run, name):
                t, raw, smooth = thin(run["iteration"], run[column])
                axes.plot(t, raw, color=colour, alpha=0.22, linewidth=0.5)
                axes.plot(t, smooth, color=colour, linewidth=1.5, linestyle=dash)
                shown.append(run[column])
        values = np.concatenate(shown)
        small = fraction and float(np.nanquantile(values, 0.01)) < SMALL_FRACTION
        logarithmic = (log or small) and bool((values > 0).any())
        if logarithmic:
            axes.set_yscale("log")
        limits(axes, values, logarithmic)
        if fraction:
            axes.set_ylim(0 if not small else None, 1.05 if not small else 1.3)
        if logarithmic:
            log_ticks(axes)
        axes.set_ylabel(label)

    return draw


def _potentials(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Mean U of data (solid) and negatives (dashed) with bands of one standard deviation."""
    shown = []
    single = len(runs) == 1
    for run, colour in zip(runs, cycle(theme, len(runs)), strict=True):
        for side, dash in (("u_data", "-"), ("u_model", "--")):
            if f"{side}_mean" not in run or f"{side}_std" not in run:
                continue
            hue = theme.runs[1] if single and side == "u_model" else colour
            t, _, mean = thin(run["iteration"], run[f"{side}_mean"])
            _, _, std = thin(run["iteration"], run[f"{side}_std"])
            axes.fill_between(t, mean - std, mean + std, color=hue, alpha=0.15, linewidth=0)
            axes.plot(t, mean, color=hue, linewidth=1.5, linestyle=dash)
            shown += [mean - std, mean + std]
    colours = theme.runs[:2] if single else (theme.ink, theme.ink)
    for label, dash, hue in zip(("data", "negatives"), ("-", "--"), colours, strict=True):
        axes.plot([], [], color=hue, linestyle=dash, label=label)
    axes.legend(frameon=False, ncols=2, loc="best")
    axes.set_ylabel("U, nats")
    limits(axes, np.concatenate(shown), log=False)


def _likelihood(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Measurements only; at other iterations the columns are empty."""
    shown: list[Array] = []
    for run, colour in zip(runs, cycle(theme, len(runs)), strict=True):
        value = run.get("live_log_likelihood", np.zeros(0))
        there = np.isfinite(value)
        if not there.any():
            continue
        t, value = run["iteration"][there], value[there]
        error = run["live_log_likelihood_error"][there]
        axes.fill_between(t, value - error, value + error, color=colour, alpha=0.2, linewidth=0)
        axes.plot(t, value, color=colour, linewidth=1.2)
        least = np.nan_to_num(error).min()  # no axis shows changes that are within the error
        shown += [value - least, value + least]
    limits(axes, np.concatenate(shown), log=False)
    axes.set_ylabel("nats per point")


CURVES = {
    "live_log_likelihood": Curve(
        "Held-out log-likelihood",
        "Mean log density of validation points, which are never trained or tested on, by walkers "
        "that the gradient does not use. The band is one standard error.",
        _likelihood,
    ),
    "d": Curve(
        "Energy difference d",
        "Mean potential of data minus that of negatives. With beta = 0 it stays around zero in "
        "stable training; a positive beta makes the chains hotter, and it lies below zero.",
        _lines("d", "d, nats"),
    ),
    "r": Curve(
        "Gradient strength r",
        "Mean norm of the energy's gradient along the chains, per unit of x. It is steady in "
        "stable training.",
        _lines("r", "r = |\u2207E|, per unit of x", log=True),
    ),
    "u_data_mean": Curve(
        "Potential U of data and negatives",
        "Mean of U with a band of one standard deviation. With beta = 0 the two should overlap; "
        "with a positive beta negatives lie higher.",
        _potentials,
    ),
    "weight_ess": Curve(
        "Effective sample size of the weights",
        "Effective sample size of the negatives' weights, as a fraction of the number of "
        "negatives: 1 means equal weights; near 0 a single negative decides the update.",
        _lines("weight_ess", "effective fraction", fraction=True),
    ),
    "grad_scale": Curve(
        "Gradient scale",
        "Mean factor by which the weights shrink the gradient of a data point (GradScale): 1 "
        "without beta; near 0 training stalls.",
        _lines("grad_scale", "factor", fraction=True),
    ),
    "acceptance": Curve(
        "Acceptance rate",
        "Fraction of proposals that pass the Metropolis test.",
        _lines("acceptance", "fraction accepted", fraction=True),
    ),
    "d_std": Curve(
        "Noise of the loss",
        "Standard deviation of the difference in potential between a data point and a negative, "
        "over the pairs of a batch. Further sources of negatives are dashed or dotted.",
        _lines("d_std", "standard deviation, nats", log=True),
    ),
    "d_snr": Curve(
        "Signal-to-noise ratio of the loss",
        "Mean of these differences divided by their standard deviation, for a single pair. The "
        "average over a batch of n pairs is better by a factor of \u221an.",
        _lines("d_snr", "ratio, single pair"),
    ),
    "d_pairing": Curve(
        "Correlation within pairs",
        "Correlation of the two potentials of a pair, which lowers the noise: 1 where negatives "
        "stay similar to the data that they started from, 0 where they are independent of it.",
        _lines("d_pairing", "correlation"),
    ),
    "guidance_alignment": Curve(
        "Alignment with guiding latents",
        "Mean cosine between the model's direction and the latent that guides it, over training "
        "examples: 0 means unrelated, 1 means equal. It should rise; it may fall while an encoder "
        "that learns changes faster than the model follows.",
        _lines("guidance_alignment", "cosine"),
    ),
    "guidance_teacher": Curve(
        "Loss of the encoder",
        "Loss that the encoder itself learns with, beside the energy. It should fall and level "
        "off. Losses of different kinds of encoders do not compare.",
        _lines("guidance_teacher", "loss"),
    ),
}
"""By the column that they show."""


# Single updates.


def single_updates(runs: Sequence[Columns]) -> list[Curve]:
    """The four, where every run has d and r and enough iterations; else none."""
    there = all(len(run.get(name, ())) >= LEAST for run in runs for name in ("d", "r"))
    return list(SINGLE_UPDATES) if runs and there else []


def _series(name: str, label: str) -> Callable[[Axes, Sequence[Columns], Theme], None]:
    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        shown = []
        for run, colour in zip(runs, cycle(theme, len(runs)), strict=True):
            values = run[name][-SHOWN:]
            axes.plot(np.arange(-len(values), 0), values, color=colour, linewidth=0.8)
            shown.append(values)
        limits(axes, np.concatenate(shown), log=False)
        axes.set_xlabel("iteration, counted from the end")
        if name == "d":
            axes.axhline(0, color=theme.ink, linewidth=0.8)
        axes.set_ylabel(label)

    return draw


def _cross(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    shown = []
    for d, r, centred, colour, place in _windows(runs, theme):
        c = cross_correlation(d, r, LAGS, centred_x=centred)
        axes.bar(np.arange(-LAGS, LAGS + 1) + place, c, BARS / len(runs), color=colour)
        shown.append(c)
    _finish(axes, runs, theme, np.concatenate(shown), "lag of d behind r, iterations")
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
    _finish(axes, runs, theme, np.concatenate(shown), "lag, iterations")
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
    """The band of the shortest run, the axis of correlations, and the label of that of lags."""
    band = 1.96 / np.sqrt(min(len(run["d"][-WINDOW:]) for run in runs))
    axes.axhspan(-band, band, color=theme.ink, alpha=0.14, linewidth=0)
    axes.axhline(0, color=theme.ink, linewidth=0.8)
    finite = np.abs(values[np.isfinite(values)])
    reach = 1.1 * max(float(finite.max(initial=0.0)), 2 * band)
    axes.set_ylim(-min(reach, 1.05), min(reach, 1.05))
    axes.set_xlabel(label)
    axes.set_ylabel("correlation")


SINGLE_UPDATES = (
    Curve(
        "Energy difference d at the end",
        "The last 200 iterations. With beta = 0, a steady run is above 0 (contraction) as often as "
        "below (expansion).",
        _series("d", "d, nats"),
        THIRD,
    ),
    Curve(
        "Gradient strength r at the end",
        "The last 200 iterations: how strongly the energy drives the chains.",
        _series("r", "r = |\u2207E|, per unit of x"),
        THIRD,
    ),
    Curve(
        "Correlation of d and r",
        "Left of 0: how r follows d. Right of 0: how d follows r. In strong oscillation the bars "
        "next to 0 leave the band: downwards on the left, because contraction flattens the energy; "
        "upwards from 0 on, because steep energies carry chains below the data.",
        _cross,
        THIRD,
    ),
    Curve(
        "Autocorrelation of d and r",
        "Full bars: d; pale bars: r. In weak oscillation the bars of d stay within the band, which "
        "holds 95% of values that are independent in time. In strong oscillation they fall below "
        "it, because an update is undone by those that follow. Bars of r that stay high are a slow "
        "trend.",
        _auto,
        THIRD,
    ),
)
