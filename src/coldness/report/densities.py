"""Pictures of densities: true density, model, short-run and long-run samples.

In the plane every panel is drawn as a density and as a log density. Colours mean the same in all
panels of a kind: their scale is that of the true density. In more than two dimensions, samples are
shown in the first two, and densities, where they are known, on the slice where all others are 0.

On the line there are two curves, the second with a logarithmic axis, on which tails and gaps show:
data is a filled histogram, samples are histograms drawn as steps, and the model is its density.

Images have neither; they are shown as tiles (images.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from matplotlib.axes import Axes

from coldness.report import figures
from coldness.report.figures import DARK, LIGHT, Array, Columns, Curve, Draw, Theme
from coldness.report.robust import half_side
from coldness.runs.reader import Evaluation

Ends = dict[str, tuple[float, float]]
"""Lowest and highest value of the colour scale, for "density" and for "log density"."""

ENOUGH_FOR_KERNELS = 200
"""Samples in more than two dimensions. With fewer, a kernel estimate would be a few blobs, and
histograms are shown."""


# In the plane.


@dataclass(frozen=True)
class Panel:
    """A picture [x, y], what it shows, and a note below it."""

    name: str
    density: Array
    log_density: Array
    note: str = ""

    def values(self, kind: str) -> Array:
        """Of "density" or "log density"."""
        return self.density if kind == "density" else self.log_density


@dataclass(frozen=True)
class Densities:
    """An evaluation of points in two dimensions or more as panels, each made when asked for."""

    evaluation: Evaluation

    @property
    def arrays(self) -> Mapping[str, Array]:
        return self.evaluation.arrays

    @cached_property
    def box(self) -> float:
        """Panels cover [-box, box] on both axes: the data's box, or less where few points need it.

        Panels on a grid cannot cover more than the grid.
        """
        whole = float(self.arrays["box"])
        return whole if self.has_slices else half_side(whole, self._plane("x_data"))

    def _plane(self, key: str) -> Array:
        """Points (N, 2): the first two coordinates, or the leading directions of a table."""
        x = self.arrays[key]
        if "table_axes" not in self.arrays:
            return x[:, :2]
        return (x - self.arrays["table_centre"]) @ self.arrays["table_axes"][:2].T

    @property
    def dimension(self) -> int:
        return self.evaluation.dimension

    @cached_property
    def truth(self) -> Panel:
        """The true density where it is known, else an estimate from the data."""
        if "log_p_data" in self.arrays:
            return self._grid("Truth", "log_p_data")
        return self._samples("Data", "x_data")

    @cached_property
    def model(self) -> Panel | None:
        """None where the model's density is not known."""
        return self._grid("Model", "log_p_model") if "log_p_model" in self.arrays else None

    @cached_property
    def short(self) -> Panel:
        return self._samples("Short-run samples", "x_short")

    @cached_property
    def long(self) -> Panel:
        return self._samples("Long-run samples", "x_long")

    @property
    def has_slices(self) -> bool:
        return self.evaluation.has_slices

    @cached_property
    def slice_truth(self) -> Panel:
        return self._grid("Truth, slice", "slice_log_p_data", "slice_side")

    @cached_property
    def slice_model(self) -> Panel:
        return self._grid("Model, slice", "slice_log_p_model", "slice_side")

    @property
    def by_kernels(self) -> bool:
        """Whether densities of samples are kernel estimates; else they are histograms."""
        fewest = min(len(self.arrays[f"x_{of}"]) for of in ("data", "short", "long"))
        return self.dimension == 2 or fewest >= ENOUGH_FOR_KERNELS

    @cached_property
    def ends(self) -> Ends:
        """The colour scales of the truth."""
        ends = _ends(self.truth.density)
        if not self.by_kernels:  # just below a bin with one sample in it
            density, (low, high) = self.truth.density, ends["log density"]
            low = float(np.log(density[density > 0].min(initial=np.exp(high)))) - 1
            ends["log density"] = low, high
        return ends

    @cached_property
    def slice_ends(self) -> Ends:
        """The colour scales of the truth on the slice."""
        return _ends(self.slice_truth.density)

    def same_truth(self, other: Densities) -> bool:
        if self.box != other.box or self.dimension != other.dimension:
            return False
        if self.by_kernels != other.by_kernels or self.has_slices != other.has_slices:
            return False
        key = "log_p_data" if "log_p_data" in self.arrays else "x_data"
        return key in other.arrays and np.array_equal(self.arrays[key], other.arrays[key])

    def _grid(self, name: str, key: str, side: str = "side") -> Panel:
        log_p = figures.crop(self.arrays[side], self.arrays[key], self.box)
        missing = float(np.isnan(log_p).mean())
        note = f"{missing:.0%} of the area is NaN (grey)" if missing else ""
        return Panel(name, np.exp(log_p), figures.log_density(np.exp(log_p)), note)

    def _samples(self, name: str, key: str) -> Panel:
        x = self._plane(key)
        estimate = figures.sample_density if self.by_kernels else figures.histogram
        density = estimate(x, self.box)
        lost = 1 - float(np.isfinite(x).all(1).mean())
        outside = 1 - float((np.abs(x) <= self.box).all(1).mean()) - lost
        notes = [f"{lost:.1%} of samples are NaN or infinite"] if lost else []
        notes += [f"{outside:.1%} of samples lie outside the panel"] if outside >= 0.001 else []
        return Panel(name, density, figures.log_density(density), ", ".join(notes))


def _ends(density: Array) -> Ends:
    high = float(density.max()) or 1.0
    high_log = float(np.log(high))
    return {"density": (0.0, high), "log density": (high_log - figures.LOG_RANGE, high_log)}


# On the line.


BINS = 60

SAMPLES = {"x_short": (1, "short-run samples"), "x_long": (2, "long-run samples")}
"""Colour and label."""


def on_the_line(arrays: Mapping[str, Array]) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of each, from the arrays of an evaluation."""
    return [
        (c.title, c.caption, c.render([arrays], LIGHT), c.render([arrays], DARK)) for c in CURVES
    ]


def draw_line(
    log: bool, samples: Sequence[str] = ("x_short", "x_long"), model: bool = True
) -> Draw:
    """Draws data, and beside it these samples and the model's density.

    Args:
        log: whether the vertical axis is logarithmic.
        samples: which of x_short and x_long.
        model: whether its density is drawn, where it is known.
    """

    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        (arrays,) = runs
        box = half_side(float(arrays["box"]), arrays["x_data"])
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
        axes.set_xlabel("x, in the model's units")
        axes.set_ylabel("density")
        if log:
            axes.set_yscale("log")
            axes.set_ylim(_lowest(data) / 30, 3 * float(data.max(initial=1e-9)))
        axes.legend(
            frameon=False,
            ncols=4,
            loc="lower center",
            bbox_to_anchor=(0.5, 1.0),
            handlelength=1.2,
            columnspacing=0.8,
        )

    return draw


def _heights(x: Array, edges: Array) -> Array:
    """Density of the samples (n, 1) in each bin; those outside count in n."""
    counts, _ = np.histogram(x[np.isfinite(x)], edges)
    return counts / (len(x) * (edges[1] - edges[0]))


def _lowest(heights: Array) -> float:
    return float(heights[heights > 0].min(initial=1.0))


CURVES = (
    Curve(
        "Density",
        "Histograms of data that the model was not trained on and of the model's samples, and the "
        "model's density. Where a few points are far from all others, the axis leaves out up to 1% "
        "of the data.",
        draw_line(log=False),
    ),
    Curve(
        "Log density",
        "The same on a logarithmic axis, where tails and gaps show. The axis ends at one thirtieth "
        "of the density that one data point in a bin stands for.",
        draw_line(log=True),
    ),
)
