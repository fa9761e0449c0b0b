"""A small picture beside every answer of a verdict.

    generation   data and short-run samples: densities in the plane, histograms on the line, or
                 tiles of images
    long_chains  energy distance of chains over the steps
    density      log density of truth and model, on a slice in more dimensions; where there is none,
                 the log-likelihood with its bounds
    ood          histograms of U of data and of out-of-distribution sets, one row per set for images
    training     d over the iterations, with events of the guard

An answer has no picture where an evaluation left no array for it, or no finite number in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from coldness.metrics import Topic
from coldness.report import chains, figures, score_histograms, training
from coldness.report.densities import Densities, Ends, Panel, draw_line
from coldness.report.figures import DARK, LIGHT, Columns, Curve, Theme
from coldness.report.images import square
from coldness.report.run import Run

WIDTH = 2.9
WIDE, FLAT = 7.2, 0.27
"""Width in inches, and height over width, of the picture that is as wide as two others."""

TILE_POINTS = 140
IMAGE_TILES = 4
"""Along a side: more would be too small to see."""

SETS = 5
"""Most sets of images, those with the lowest AUROC."""

BINS = 48

REACH = 1.0
"""Histograms reach this many times the spread of the data's U beyond it; values farther out are
counted in the outermost bins."""


@dataclass(frozen=True)
class Picture:
    """Either tiles (name, address) side by side, or one curve, for light and for dark pages.

    The pixels of tiles are not blurred where `sharp`.
    """

    alt: str
    tiles: Sequence[tuple[str, str]] = ()
    sharp: bool = False
    light: str = ""
    dark: str = ""


def pictures(run: Run) -> dict[Topic, Picture]:
    """Of one run, by topic."""
    found: dict[Topic, Picture | None] = {
        "generation": _samples(run),
        "long_chains": _chains(run),
        "density": _density(run),
        "ood": _others(run),
        "training": _training(run),
    }
    return {topic: picture for topic, picture in found.items() if picture is not None}


def _samples(run: Run) -> Picture | None:
    found = run.evaluation
    if found.is_images:
        return _images(found.arrays)
    if found.is_line:
        draw = draw_line(False, ["x_short"], False)
        return _curve("Data and short-run samples", draw, found.arrays)
    x = run.densities
    alt = f"Density of {x.truth.name.lower()} beside that of short-run samples"
    return _tiles(alt, {x.truth.name: x.truth, "Samples": x.short}, "density", x.ends)


def _images(arrays: Columns) -> Picture | None:
    if "x_short" not in arrays:
        return None
    shown = {"Data": arrays["x_data"], "Samples": arrays["x_short"]}
    drawn = [(name, square(name, x, IMAGE_TILES).address) for name, x in shown.items()]
    return Picture("Tiles of data beside short-run samples", drawn, sharp=True)


def _chains(run: Run) -> Picture | None:
    arrays = run.evaluation.arrays
    if not np.isfinite(arrays.get("trail_long_distance", np.nan)).any():
        return None
    curve = chains.CURVES["distances"]
    return _curve(curve.title, curve.draw, chains.with_floor(arrays, run.metrics))


def _density(run: Run) -> Picture | None:
    found = run.evaluation
    if found.is_line:
        return _curve("Density of data and model", draw_line(False, [], True), found.arrays)
    if found.is_plane and (panels := _log_densities(run.densities)):
        return panels
    if np.isfinite([run.metrics.get(key, np.nan) for key in BRACKET]).all():
        columns = {key: np.array(value) for key, value in run.metrics.items()}
        return _curve("Log-likelihood with its bounds", _bracket, columns)
    return None


def _log_densities(x: Densities) -> Picture | None:
    if x.has_slices:
        panels = {"Truth, log density": x.slice_truth, "Model, log density": x.slice_model}
        alt = "Log density on the slice, truth and model"
        return _tiles(alt, panels, "log density", x.slice_ends)
    if x.model is not None:
        panels = {f"{x.truth.name}, log density": x.truth, "Model, log density": x.model}
        alt = f"Log density of {x.truth.name.lower()} and model"
        return _tiles(alt, panels, "log density", x.ends)
    return None


def _others(run: Run) -> Picture | None:
    arrays = run.evaluation.arrays
    sets = [key for key in arrays if key.startswith("u_ood_")]
    if not sets or not np.isfinite(arrays.get("u_data", np.nan)).any():
        return None
    draw: figures.Draw = _histograms
    if run.evaluation.is_images:
        draw = score_histograms.draw_hardest(arrays, run.metrics, SETS)
    return _curve("Histograms of U of data and of out-of-distribution sets", draw, arrays)


def _training(run: Run) -> Picture | None:
    if not np.isfinite(run.columns.get("d", np.nan)).any():
        return None
    curve = Curve(
        "Energy difference d against iteration", "", training.CURVES["d"].draw, WIDE, FLAT
    )
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


# Drawn only here.


def _histograms(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Of U of data, filled, and of every set, on common bins; the outermost hold all beyond."""
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
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.set_xlabel("U, nats")
    axes.set_ylabel("fraction per bin")
    axes.legend(frameon=False, ncols=2, fontsize=8, handlelength=1.2, columnspacing=1.0)


def _bracket(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    """Log-likelihood of the model with its bounds, beside that of the truth or of baselines."""
    (metrics,) = runs
    found = [(label, float(metrics[key])) for key, label in BASELINES if key in metrics]
    if "entropy" in metrics:  # of the data: what the truth itself would have
        found.append(("true density", -float(metrics["entropy"])))
    low, middle, high = (float(metrics[key]) for key in BRACKET)
    axes.plot([low, high], [0, 0], color=theme.runs[0], linewidth=2)
    axes.plot([low, middle, high], [0, 0, 0], "|", color=theme.runs[0], markersize=12)
    for place, (_, value) in enumerate(found, 1):
        axes.plot([value], [place], "o", color=theme.runs[1])
    axes.set_yticks(range(len(found) + 1), ["model", *(label for label, _ in found)])
    axes.set_ylim(len(found) + 0.6, -0.6)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.set_xlabel("nats per example")


SHORT = {"gaussian": "Gaussian"}
BRACKET = ("log_likelihood_low", "log_likelihood_test", "log_likelihood_high")
BASELINES = (
    ("log_likelihood_gaussian", "Gaussian"),
    ("log_likelihood_mixture", "mixture"),
    ("log_likelihood_kde", "kernel estimate"),
)
