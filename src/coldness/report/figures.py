"""How pictures are drawn: panels of densities, and curves, as PNG data addresses.

Panels carry no text or axes, so that they suit any page and any width; the page labels them. Curves
are drawn twice, for light and for dark pages; where their horizontal axis is the iteration, events
of the guard are vertical lines.

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
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import uniform_filter1d
from scipy.stats import gaussian_kde

from coldness.metrics import of_sources

Array = NDArray[np.float64]
Columns = Mapping[str, Array]

BANDWIDTH = 0.1
SMALLEST = 1e-10
KDE_POINTS = 128
BINS = 60
PANEL_POINTS = 280
CURVE_POINTS = 2000
SMOOTHING = 0.02
LOG_RANGE = 16.0
ASPECT = 27 / 44
THIRD = 3.7
"""Width in inches of pictures that stand three in a row."""
COLOURS = mpl.colormaps["viridis"]
NOT_A_NUMBER = (128, 128, 128)
"""Colour of points of a panel that are NaN: grey, which is not on the colour scale."""


@dataclass(frozen=True)
class Theme:
    """Colours of curves: text and axes, grid, one per run (after Okabe and Ito: colour-blind safe),
    and those of good, doubtful and bad."""

    ink: str
    grid: str
    runs: tuple[str, ...]
    good: str
    doubtful: str
    bad: str


LIGHT = Theme(
    "#39424e",
    "#e3e7ec",
    ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#555555"),
    "#00694d",
    "#8a5a00",
    "#b03a00",
)
DARK = Theme(
    "#b9c3cf",
    "#2c343e",
    ("#56b4e9", "#f58a3c", "#2fc79b", "#e59cc6", "#e6b422", "#8fd0f5", "#aaaaaa"),
    "#3fd0a2",
    "#efb73e",
    "#ff8f57",
)


# Panels.


def sample_density(x: Array, box: float) -> Array:
    """Density of samples x (n, 2) on a square grid over [-box, box], by Gaussian kernels.

    Kernels have a tenth of the samples' standard deviations. Samples farther out than twice the box
    are left out, or a few outliers would blur all others; the density integrates to the fraction
    that is left.
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
    """The part of a square grid within the box, thinned to at most PANEL_POINTS per side."""
    inside = np.flatnonzero(np.abs(side) <= box * (1 + 1e-9))
    inside = inside[:: -(-len(inside) // PANEL_POINTS)]
    return values[np.ix_(inside, inside)]


def log_density(density: Array) -> Array:
    return np.log(density + SMALLEST)


def panel(values: Array, low: float, high: float) -> str:
    """Values [x, y] as a picture with y upwards; those outside [low, high] take the end colours,
    and NaN is grey."""
    missing = np.isnan(values)
    scaled = np.clip((np.where(missing, low, values) - low) / max(high - low, 1e-300), 0, 1)
    level = np.where(missing, 255, np.round(254 * scaled)).astype(np.uint8)
    picture = Image.fromarray(level.T[::-1])
    colours = (COLOURS(np.arange(255) / 254)[:, :3] * 255).round().astype(np.uint8)
    picture.putpalette(np.append(colours, [NOT_A_NUMBER], 0).astype(np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "png", optimize=True)
    return address_of(file)


def colour_scale() -> str:
    """The panels' colours from low to high, as a CSS gradient."""
    stops = [mpl.colors.to_hex(COLOURS(k / 8)) for k in range(9)]
    return f"linear-gradient(to right, {', '.join(stops)})"


# Curves.


Draw = Callable[[Axes, Sequence[Columns], Theme], None]
"""From the axes, the runs' columns and the theme."""

Mark = tuple[int, str]
"""Iteration and kind of an event of the guard."""

STROKES = {"alarm": "-", "stopped": "-", "warning": "--", "relaxed": ":"}
"""A rollback is not drawn: it follows its alarm at once."""

DASHES = ("-", "--", ":", "-.")
"""Line styles of sources, which repeat."""


@dataclass(frozen=True)
class Curve:
    """One picture with axes.

    Args:
        title: above it.
        caption: what it shows, and what to look for.
        draw: draws into axes.
        width: in inches, with text of nine points; the smaller, the larger the text on the page.
        aspect: height over width.
    """

    title: str
    caption: str
    draw: Draw
    width: float = 4.4
    aspect: float = ASPECT

    @property
    def height(self) -> float:
        return self.width * self.aspect

    def render(
        self,
        runs: Sequence[Columns],
        theme: Theme,
        marks: Sequence[Sequence[Mark]] = (),
    ) -> str:
        """As a data address; with marks of every run where the horizontal axis is the iteration."""
        coloured = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        style: dict[Any, Any] = {"font.size": 9} | dict.fromkeys(coloured, theme.ink)
        with mpl.rc_context(style):
            figure = Figure((self.width, self.height), dpi=200, layout="constrained")
            axes = figure.add_subplot()
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color=theme.grid, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.set_xlabel("iteration")
            self.draw(axes, runs, theme)
            axes.margins(x=0.01)
            if axes.get_xlabel() == "iteration":
                _draw_marks(axes, marks, theme)
            file = io.BytesIO()
            figure.savefig(file, format="png", transparent=True)
        return address_of(file)


def _draw_marks(axes: Axes, marks: Sequence[Sequence[Mark]], theme: Theme) -> None:
    """In the run's colour where there are several runs, else in that of the kind of event."""
    low, high = axes.get_xlim()
    of_kind = {"relaxed": theme.good, "warning": theme.doubtful}
    for of_run, colour in zip(marks, cycle(theme, len(marks)), strict=True):
        for iteration, kind in of_run:
            if kind in STROKES and low <= iteration <= high:
                hue = colour if len(marks) > 1 else of_kind.get(kind, theme.bad)
                axes.axvline(iteration, color=hue, linestyle=STROKES[kind], linewidth=0.9)
    axes.set_xlim(low, high)


def sources(run: Columns, name: str) -> list[tuple[str, str]]:
    """Columns of a metric for every source of a run, with their line styles, which repeat."""
    found = of_sources(run, name).items()
    return [(column, DASHES[k % len(DASHES)]) for k, column in found if len(run[column])]


def thin(t: Array, values: Array) -> tuple[Array, Array, Array]:
    """Iterations, raw and smoothed values, at most CURVE_POINTS of each.

    NaN and infinite values are left out of averages, or one of them would spoil all that follow.
    """
    finite, size = np.isfinite(values), max(1, round(SMOOTHING * len(values)))
    smooth = uniform_filter1d(np.where(finite, values, 0.0), size)
    if not finite.all():
        fraction = uniform_filter1d(finite.astype(np.float64), size)
        smooth = np.divide(
            smooth, fraction, out=np.full_like(smooth, np.nan), where=fraction > 0.5 / size
        )
    stride = -(-len(values) // CURVE_POINTS)
    return t[::stride], values[::stride], smooth[::stride]


def limits(axes: Axes, values: Array, log: bool) -> None:
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


def log_ticks(axes: Axes) -> None:
    """Plain numbers on a logarithmic vertical axis that spans too few powers of ten for ticks."""
    low, high = axes.get_ylim()
    if high < 10 * low:
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.yaxis.set_minor_locator(NullLocator())
    elif high < 100 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    if high < 100 * low:
        axes.yaxis.set_major_formatter("{x:g}")


def shortened(name: str, letters: int) -> str:
    """A name of at most so many letters, with an ellipsis where it is cut."""
    return name if len(name) <= letters else f"{name[: letters - 1]}\u2026"


def cycle(theme: Theme, count: int) -> list[str]:
    """Colours of so many runs."""
    return [theme.runs[k % len(theme.runs)] for k in range(count)]


def address_of(file: io.BytesIO) -> str:
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
