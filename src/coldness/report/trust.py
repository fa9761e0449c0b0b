"""A small picture beside every answer of a verdict.

    generation   data and short-run samples: densities in the plane, histograms on the line, or
                 tiles of images
    long_chains  energy distance of chains over the steps
    density      log density of truth and model, on a slice in more dimensions; where there is none,
                 the log-likelihood with its bracket
    ood          histograms of U of data and of other points, a row a set for images
    training     d over the iterations, with events of the guard

What an evaluation did not leave, or holds no finite number of, has no picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from coldness.metrics import Topic
from coldness.report import chains, figures, score_histograms, training_curves
from coldness.report.figures import DARK, LIGHT, Columns, Curve, Theme
from coldness.report.line import draw_line
from coldness.report.panels import Ends, Panel
from coldness.report.run import Run
from coldness.report.tiles import square

WIDTH = 2.9
WIDE, FLAT = 7.2, 0.27
"""Width in inches, and height over width, of the picture that is as wide as two others."""

TILE_POINTS = 140
IMAGE_TILES = 4
"""A side: more would be too small to see."""

SETS = 5
"""Of other images at most, those that the model does worst on."""

BINS = 48

REACH = 1.0
"""Histograms reach so many times the spread of the data's U beyond it; what lies farther out is
counted in the outermost bins."""


@dataclass(frozen=True)
class Picture:
    """Either tiles (name, address) side by side, or one curve, for light and for dark pages.

    `of_images` is whether tiles are made of images, whose pixels are kept sharp.
    """

    alt: str
    tiles: Sequence[tuple[str, str]] = ()
    of_images: bool = False
    light: str = ""
    dark: str = ""


def pictures(run: Run) -> dict[Topic, Picture]:
    """Of one run, by what they are about."""
    found: dict[Topic, Picture | None] = {
        "generation": _samples(run),
        "long_chains": _chains(run),
        "density": _density(run),
        "ood": _others(run),
        "training": _training(run),
    }
    return {topic: picture for topic, picture in found.items() if picture is not None}


def _samples(run: Run) -> Picture | None:
    x = run.densities
    if x.of_images:
        return _images(x.arrays)
    if x.dimension == 1:
        return _curve("Data and short-run samples", draw_line(False, ["x_short"], False), x.arrays)
    alt = f"Density of {x.truth.name.lower()} beside that of short-run samples"
    return _tiles(alt, {x.truth.name: x.truth, "Samples": x.short}, "density", x.ends)


def _images(arrays: Columns) -> Picture | None:
    if "x_short" not in arrays:
        return None
    shown = {"Data": arrays["x_data"], "Samples": arrays["x_short"]}
    drawn = [(name, square(name, x, IMAGE_TILES).address) for name, x in shown.items()]
    return Picture("Tiles of data beside short-run samples", drawn, of_images=True)


def _chains(run: Run) -> Picture | None:
    arrays = run.densities.arrays
    if not np.isfinite(arrays.get("trail_long_distance", np.nan)).any():
        return None
    curve = chains.CURVES["distances"]
    return _curve(curve.title, curve.draw, chains.with_floor(arrays, run.metrics))


def _density(run: Run) -> Picture | None:
    x = run.densities
    if x.dimension == 1 and not x.of_images:
        return _curve("Density of data and model", draw_line(False, [], True), x.arrays)
    if x.has_slices:
        panels = {"Truth, log density": x.slice_truth, "Model, log density": x.slice_model}
        alt = "Log density on the slice, truth and model"
        return _tiles(alt, panels, "log density", x.slice_ends)
    if x.model is not None:
        panels = {f"{x.truth.name}, log density": x.truth, "Model, log density": x.model}
        alt = f"Log density of {x.truth.name.lower()} and model"
        return _tiles(alt, panels, "log density", x.ends)
    if np.isfinite([run.metrics.get(key, np.nan) for key in BRACKET]).all():
        columns = {key: np.array(value) for key, value in run.metrics.items()}
        return _curve("Log-likelihood and its bracket", _bracket, columns)
    return None


def _others(run: Run) -> Picture | None:
    arrays = run.densities.arrays
    sets = [key for key in arrays if key.startswith("u_ood_")]
    if not sets or not np.isfinite(arrays.get("u_data", np.nan)).any():
        return None
    draw: figures.Draw = _histograms
    if run.densities.of_images:
        draw = score_histograms.draw_hardest(arrays, run.metrics, SETS)
    return _curve("Histograms of U of data and of other points", draw, arrays)


def _training(run: Run) -> Picture | None:
    if not np.isfinite(run.columns.get("d", np.nan)).any():
        return None
    curve = Curve("Energy difference d against iteration", "", _difference, WIDE, FLAT)
    light, dark = (curve.render([run.columns], theme, [run.marks]) for theme in (LIGHT, DARK))
    return Picture(curve.title, light=light, dark=dark)


def _tiles(alt: str, panels: dict[str, Panel], kind: str, ends: Ends) -> Picture:
    drawn = []
    for name, panel in panels.items():
        values = panel.values(kind)
        stride = -(-len(values) // TILE_POINTS)
        drawn.append((name, figures.panel(values[::stride, ::stride], *ends[kind])))
    return Picture(alt, drawn)


def _curve(alt: str, draw: figures.Draw, columns: Columns) -> Picture:
    curve = Curve(alt, "", draw, WIDTH)
    light, dark = (curve.render([columns], theme) for theme in (LIGHT, DARK))
    return Picture(alt, light=light, dark=dark)


# What is drawn here alone.


def _difference(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    training_curves.CURVES["d"].draw(axes, runs, theme)
    axes.set_ylabel("d, nats")


def _histograms(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Of U of data, filled, and of every set, on common bins; the outermost hold what is beyond."""
    (arrays,) = runs
    u_data = arrays["u_data"][np.isfinite(arrays["u_data"])]
    low, high = np.quantile(u_data, [0.01, 0.99])
    spread = (high - low) or 1.0
    edges = np.linspace(low - REACH * spread, high + REACH * spread, BINS + 1)

    def heights(u: figures.Array) -> figures.Array:
        inside = np.clip(u[~np.isnan(u)], edges[0], edges[-1])
        return np.histogram(inside, edges)[0] / max(len(u), 1)

    data = heights(arrays["u_data"])
    axes.stairs(data, edges, fill=True, color=theme.ink, alpha=0.3, label="data")
    sets = [key for key in arrays if key.startswith("u_ood_")]
    for key, colour in zip(sets, figures.cycle(theme, len(sets)), strict=True):
        name = key.removeprefix("u_ood_")
        label = SHORT.get(name, name)
        axes.stairs(heights(arrays[key]), edges, color=colour, linewidth=1.1, label=label)
    axes.set_ylim(0, 1.6 * float(data.max(initial=1e-9)))
    axes.set_xlabel("U")
    axes.set_ylabel("share")
    axes.legend(frameon=False, ncols=2, fontsize=8, handlelength=1.2, columnspacing=1.0)


def _bracket(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Log-likelihood of the model with its ends, beside that of the truth or of plain models."""
    (metrics,) = runs
    found = [(label, float(metrics[key])) for key, label in YARDSTICKS if key in metrics]
    if "entropy" in metrics:  # of the data: what the truth itself would have
        found.append(("truth", -float(metrics["entropy"])))
    low, middle, high = (float(metrics[key]) for key in BRACKET)
    axes.plot([low, high], [0, 0], color=theme.runs[0], linewidth=2)
    axes.plot([low, middle, high], [0, 0, 0], "|", color=theme.runs[0], markersize=12)
    for place, (_, value) in enumerate(found, 1):
        axes.plot([value], [place], "o", color=theme.runs[1])
    axes.set_yticks(range(len(found) + 1), ["model", *(label for label, _ in found)])
    axes.set_ylim(len(found) + 0.6, -0.6)
    axes.set_xlabel("log-likelihood, nats")


SHORT = {"gaussian": "Gaussian"}
BRACKET = ("log_likelihood_low", "log_likelihood_test", "log_likelihood_high")
YARDSTICKS = (("log_likelihood_gaussian", "Gaussian"), ("log_likelihood_kde", "kernels"))
