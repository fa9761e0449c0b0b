"""Pictures of a report: panels of densities, and training curves, as PNG data addresses.

Panels carry no text or axes, so that they suit any page and any width; the page labels them. Curves
are drawn twice, for light and for dark pages.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), its panels: densities of samples by Gaussian kernels with factor 0.1,
    and log(density + 1e-10).
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import uniform_filter1d
from scipy.stats import gaussian_kde

Array = NDArray[np.float64]
Columns = Mapping[str, Array]

BANDWIDTH = 0.1
SMALLEST = 1e-10
KDE_POINTS = 128
BINS = 60
PANEL_POINTS = 280
CURVE_POINTS = 2000
SMOOTHING = 0.02
SMALL_SHARE = 0.05
LOG_RANGE = 16.0
ASPECT = 27 / 44
COLOURS = mpl.colormaps["viridis"]


@dataclass(frozen=True)
class Theme:
    """Of curves: text and axes, grid, a colour a run (after Okabe and Ito: colour-blind safe)."""

    ink: str
    grid: str
    runs: tuple[str, ...]


LIGHT = Theme(
    "#39424e",
    "#e3e7ec",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#555555"),
)
DARK = Theme(
    "#b9c3cf",
    "#2c343e",
    ("#56b4e9", "#f58a3c", "#2fc79b", "#e59cc6", "#e6b422", "#8fd0f5", "#aaaaaa"),
)


# Panels.


def sample_density(x: Array, box: float) -> Array:
    """Density of samples x (n, 2) on a square grid over [-box, box], by Gaussian kernels.

    Kernels have a tenth of the samples' standard deviations. Samples farther out than twice the box
    are left out, or a few runaways would blur all others; the density integrates to what is left.
    """
    near = x[(np.abs(x) <= 2 * box).all(1)]  # False for NaN
    side = np.linspace(-box, box, KDE_POINTS)
    if len(np.unique(near, axis=0)) < 3:
        return np.zeros((KDE_POINTS, KDE_POINTS))
    points = np.stack([a.ravel() for a in np.meshgrid(side, side, indexing="ij")])
    try:
        density = gaussian_kde(near.T, BANDWIDTH)(points)
    except np.linalg.LinAlgError:  # all on a line
        return histogram(x, box)
    return density.reshape(KDE_POINTS, KDE_POINTS) * len(near) / len(x)


def histogram(x: Array, box: float) -> Array:
    """Density of the first two coordinates of x (n, D) in square bins over [-box, box]."""
    edges = np.linspace(-box, box, BINS + 1)
    x = x[np.isfinite(x[:, :2]).all(1), :2] if len(x) else x
    counts, *_ = np.histogram2d(x[:, 0], x[:, 1], bins=(edges, edges))
    return counts / (max(len(x), 1) * (edges[1] - edges[0]) ** 2)


def crop(side: Array, values: Array, box: float) -> Array:
    """The part of a square grid within the box, thinned where it is finer than a panel needs."""
    inside = np.flatnonzero(np.abs(side) <= box * (1 + 1e-9))
    inside = inside[:: -(-len(inside) // PANEL_POINTS)]
    return values[np.ix_(inside, inside)]


def log_density(density: Array) -> Array:
    return np.log(density + SMALLEST)


def panel(values: Array, low: float, high: float) -> str:
    """Values [x, y] as a picture with y upwards; those outside [low, high] take the end colours."""
    scaled = np.clip((np.nan_to_num(values, nan=low) - low) / max(high - low, 1e-300), 0, 1)
    picture = Image.fromarray(np.round(255 * scaled.T[::-1]).astype(np.uint8))
    picture.putpalette((COLOURS(np.arange(256))[:, :3] * 255).round().astype(np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "png", optimize=True)
    return _address(file)


def colour_scale() -> str:
    """The panels' colours from low to high, as a CSS gradient."""
    stops = [mpl.colors.to_hex(COLOURS(k / 8)) for k in range(9)]
    return f"linear-gradient(to right, {', '.join(stops)})"


# Curves.


@dataclass(frozen=True)
class Curve:
    """One picture of the training curves.

    Args:
        title: above it.
        caption: a sentence that says what it shows.
        draw: from the axes, the runs' columns and the theme.
        width: in inches of nine-point text; the smaller, the larger the text on the page.
    """

    title: str
    caption: str
    draw: Callable[[Axes, Sequence[Columns], Theme], None]
    width: float = 4.4

    def render(self, runs: Sequence[Columns], theme: Theme) -> str:
        coloured = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        style: dict[Any, Any] = {"font.size": 9} | dict.fromkeys(coloured, theme.ink)
        with mpl.rc_context(style):
            figure = Figure((self.width, self.width * ASPECT), dpi=200, layout="constrained")
            axes = figure.add_subplot()
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color=theme.grid, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.set_xlabel("iteration")
            self.draw(axes, runs, theme)
            axes.margins(x=0.01)
            file = io.BytesIO()
            figure.savefig(file, format="png", transparent=True)
        return _address(file)


def curves(runs: Sequence[Columns]) -> list[Curve]:
    """Those that the runs' columns can fill; what is 1 throughout, as weights' scale without beta,
    is left out."""
    chosen = []
    for name, curve in CURVES.items():
        columns = [run[column] for run in runs for column, _ in _sources(run, name)]
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
        for run, colour in zip(runs, _cycle(theme, len(runs)), strict=True):
            for column, dash in _sources(run, name):
                t, raw, smooth = _thin(run["iteration"], run[column])
                axes.plot(t, raw, color=colour, alpha=0.22, linewidth=0.5)
                axes.plot(t, smooth, color=colour, linewidth=1.5, linestyle=dash)
                shown.append(run[column])
        values = np.concatenate(shown)
        small = share and float(np.nanquantile(values, 0.01)) < SMALL_SHARE
        logarithmic = (log or small) and bool((values > 0).any())
        if logarithmic:
            axes.set_yscale("log")
        _limits(axes, values, logarithmic)
        if share:
            axes.set_ylim(0 if not small else None, 1.05 if not small else 1.3)

    return draw


def _potentials(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Mean U of data (solid) and negatives (dashed) with bands of one standard deviation."""
    shown = []
    single = len(runs) == 1
    for run, colour in zip(runs, _cycle(theme, len(runs)), strict=True):
        for side, dash in (("u_data", "-"), ("u_model", "--")):
            if f"{side}_mean" not in run or f"{side}_std" not in run:
                continue
            hue = theme.runs[1] if single and side == "u_model" else colour
            t, _, mean = _thin(run["iteration"], run[f"{side}_mean"])
            _, _, std = _thin(run["iteration"], run[f"{side}_std"])
            axes.fill_between(t, mean - std, mean + std, color=hue, alpha=0.15, linewidth=0)
            axes.plot(t, mean, color=hue, linewidth=1.5, linestyle=dash)
            shown += [mean - std, mean + std]
    colours = theme.runs[:2] if single else (theme.ink, theme.ink)
    for label, dash, hue in zip(("data", "negatives"), ("-", "--"), colours, strict=True):
        axes.plot([], [], color=hue, linestyle=dash, label=label)
    axes.legend(frameon=False, ncols=2, loc="best")
    _limits(axes, np.concatenate(shown), log=False)


def _sources(run: Columns, name: str) -> list[tuple[str, str]]:
    """Columns name, name_1 ... of a run with several sources, with their line styles."""
    names = [name, *(f"{name}_{k}" for k in range(1, 4))]
    return [
        (n, d) for n, d in zip(names, ("-", "--", ":", "-."), strict=True) if len(run.get(n, ()))
    ]


def _thin(t: Array, values: Array) -> tuple[Array, Array, Array]:
    """Iterations, raw and smoothed values, at most CURVE_POINTS of each.

    What is not finite is left out of averages, or one such value would spoil all that follow.
    """
    finite, size = np.isfinite(values), max(1, round(SMOOTHING * len(values)))
    smooth = uniform_filter1d(np.where(finite, values, 0.0), size)
    if not finite.all():
        share = uniform_filter1d(finite.astype(np.float64), size)
        smooth = np.divide(
            smooth, share, out=np.full_like(smooth, np.nan), where=share > 0.5 / size
        )
    stride = -(-len(values) // CURVE_POINTS)
    return t[::stride], values[::stride], smooth[::stride]


def _limits(axes: Axes, values: Array, log: bool) -> None:
    """Show all but the outermost 1% of values, or a few spikes would flatten everything else."""
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not len(values):
        return
    low, high = np.quantile(values, [0.005, 0.995])
    if log:
        axes.set_ylim(low / 1.3, high * 1.3)
    else:
        margin = 0.08 * (high - low) or 0.05 * max(abs(high), 1)
        axes.set_ylim(low - margin, high + margin)


def _cycle(theme: Theme, count: int) -> list[str]:
    return [theme.runs[k % len(theme.runs)] for k in range(count)]


def _address(file: io.BytesIO) -> str:
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


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
