"""Curves of a training: columns of metrics.csv against the iteration.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 3, for d and r.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 3, for the
    weights.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Fig. 6, for the noise of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from coldness.report.figures import Columns, Curve, Theme, cycle, limits, sources, thin

SMALL_SHARE = 0.05
"""A share that comes below this is drawn on a logarithmic axis."""


def curves(runs: Sequence[Columns]) -> list[Curve]:
    """Those that the runs' columns can fill; what is 1 throughout, as weights' scale without beta,
    is left out."""
    chosen = []
    for name, curve in CURVES.items():
        columns = [run[column] for run in runs for column, _ in sources(run, name)]
        dull = name in ("grad_scale", "acceptance") and all((c == 1).all() for c in columns)
        if columns and not dull:
            chosen.append(curve)
    return chosen


def _lines(name: str, log: bool = False, share: bool = False) -> Callable[..., None]:
    """Draws a column of every run, smoothed over 2% of the run, before the raw values.

    Args:
        name: of the column.
        log: scale of the vertical axis.
        share: the column is a share of 1; the axis is logarithmic where it comes near 0.
    """

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        if not log and not share:
            axes.axhline(0, color=theme.ink, linewidth=0.8)
        shown = []
        for run, colour in zip(runs, cycle(theme, len(runs)), strict=True):
            for column, dash in sources(run, name):
                t, raw, smooth = thin(run["iteration"], run[column])
                axes.plot(t, raw, color=colour, alpha=0.22, linewidth=0.5)
                axes.plot(t, smooth, color=colour, linewidth=1.5, linestyle=dash)
                shown.append(run[column])
        values = np.concatenate(shown)
        small = share and float(np.nanquantile(values, 0.01)) < SMALL_SHARE
        logarithmic = (log or small) and bool((values > 0).any())
        if logarithmic:
            axes.set_yscale("log")
        limits(axes, values, logarithmic)
        if share:
            axes.set_ylim(0 if not small else None, 1.05 if not small else 1.3)

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
    limits(axes, np.concatenate(shown), log=False)


CURVES = {
    "d": Curve(
        "Energy difference d",
        "Mean potential of data less that of negatives: around zero in stable training with beta "
        "0, below it where beta makes the chains hotter.",
        _lines("d"),
    ),
    "r": Curve(
        "Gradient strength r",
        "Mean norm of the energy's gradient along the chains: steady in a healthy run.",
        _lines("r", log=True),
    ),
    "u_data_mean": Curve(
        "Potential U of both sides",
        "Mean of U with a band of one standard deviation: with beta 0 the two should overlap, with "
        "a positive beta negatives lie higher.",
        _potentials,
    ),
    "weight_ess": Curve(
        "Effective share of the weights",
        "Effective sample size of the negatives' weights over their number: 1 is even weights, "
        "near 0 a single negative decides the update.",
        _lines("weight_ess", share=True),
    ),
    "grad_scale": Curve(
        "Gradient scale",
        "Mean share of the update that weights leave to a data point (GradScale): 1 without beta, "
        "near 0 training stalls.",
        _lines("grad_scale", share=True),
    ),
    "acceptance": Curve(
        "Acceptance",
        "Share of proposals that adjusted kernels accept.",
        _lines("acceptance", share=True),
    ),
    "d_std": Curve(
        "Noise of the loss",
        "Standard deviation, over pairs of a data point and a negative, of the difference of their "
        "potentials. Further sources are dashed or dotted.",
        _lines("d_std", log=True),
    ),
    "d_snr": Curve(
        "Signal to noise of the loss",
        "The mean of these differences over their standard deviation, of a single pair: the batch "
        "average is better by the root of its size.",
        _lines("d_snr"),
    ),
    "d_pairing": Curve(
        "What pairing buys",
        "Correlation of the two potentials of a pair, which lowers the noise: 1 where negatives "
        "stay like the data they started at, 0 where they are independent of it.",
        _lines("d_pairing"),
    ),
}
