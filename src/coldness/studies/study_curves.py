"""Curves of a study: metrics of a block's runs against the axis along its columns.

One line per combination of the other axes' levels: means over seeds, with single seeds as dots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from coldness.report.figures import Array, Columns, Curve, Theme, log_ticks
from coldness.studies.claims import Record
from coldness.studies.plates import at, column_axis, column_levels, strip_levels, words
from coldness.studies.study import Block

LOG_SPREAD = 50.0
"""The axis is logarithmic where the largest level is more than this many times the smallest."""

DIVERGED = "diverged_at"

SHOWN = {
    "kl": (
        "KL(data || model)",
        "Error of the model's density. Lines: means over seeds; dots: single seeds; crosses at the "
        "top: runs that diverged.",
        "KL, nats",
        None,
    ),
    "energy_distance_short": (
        "Energy distance of short-run samples",
        "Error of the samples. Dashed: distance between two samples of the data; smaller distances "
        "cannot be told apart.",
        "energy distance",
        "energy_distance_floor",
    ),
    "accuracy": (
        "Accuracy",
        "Accuracy of the classifier on held-out images. Crosses at the top: runs that diverged.",
        "accuracy",
        None,
    ),
    "kid_effnet_short": (
        "Kernel distance of short-run samples",
        "Kernel distance between samples and data, on features of EfficientNet-Lite0. Dashed: "
        "training images against test images.",
        "kernel distance",
        "kid_effnet_floor",
    ),
    "kid_effnet_long": (
        "Kernel distance of long-run samples",
        "The same after long chains.",
        "kernel distance",
        "kid_effnet_floor",
    ),
}
"""Metrics that are drawn: title, caption, label of the axis, and the metric that is its floor."""

FRACTIONS = ("accuracy",)
"""Metrics on a linear axis; other metrics that are positive are on a logarithmic one."""


def is_drawn(block: Block) -> bool:
    """Whether the levels along the columns are at least two numbers."""
    levels = [level for column in column_levels(block) for level in column.values()]
    numbers = [x for x in levels if isinstance(x, int | float) and not isinstance(x, bool)]
    return len(numbers) == len(levels) > 1


def legend(block: Block) -> list[str]:
    """Names of the lines, in order; empty for a single line."""
    names = [words(levels) for levels in strip_levels(block)]
    return names if len(names) > 1 else []


def curves(block: Block, lines: Sequence[Columns]) -> list[Curve]:
    """Curves of metrics that any run has; if none has any, the first two, with diverged runs."""
    axis = str(column_axis(block))
    levels = [column[axis] for column in column_levels(block)]
    there = [
        name for name in SHOWN if any(np.isfinite(line[name]).any() for line in lines)
    ] or list(SHOWN)[:2]
    return [
        Curve(title, caption, _draw(axis, levels, name, label, floor))
        for name, (title, caption, label, floor) in SHOWN.items()
        if name in there
    ]


def lines(block: Block, rows: Sequence[Record]) -> list[Columns]:
    """The data of `curves`: columns of a block's table, one set per line."""
    rows = at(rows, {"block": block.name})
    return [_columns(at(rows, levels), str(column_axis(block))) for levels in strip_levels(block)]


def _columns(rows: Sequence[Record], axis: str) -> Columns:
    floors = [floor for *_, floor in SHOWN.values() if floor is not None]
    return {
        "level": _numbers(row[axis] for row in rows),
        **{name: _numbers(row.get(name) for row in rows) for name in (*SHOWN, *floors, DIVERGED)},
    }


def _numbers(values: Any) -> Array:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _draw(
    axis: str, levels: Sequence[float], name: str, label: str, floor: str | None
) -> Callable[[Axes, Sequence[Columns], Theme], None]:
    def draw(axes: Axes, lines: Sequence[Columns], theme: Theme) -> None:
        for k, line in enumerate(lines):
            _line(axes, line, name, theme.runs[k % len(theme.runs)])
        if floor is not None:
            height = np.concatenate([line[floor] for line in lines])
            height = height[np.isfinite(height)]
            if len(height):
                axes.axhline(float(height.mean()), color=theme.ink, linewidth=1, linestyle="--")
        _axes(axes, axis, levels, positive=name not in FRACTIONS and _positive(lines, name))
        axes.set_ylabel(label)

    return draw


def _line(axes: Axes, line: Columns, name: str, colour: str) -> None:
    x, y = line["level"], line[name]
    levels = np.unique(x)
    means = [y[x == level].mean() for level in levels]  # NaN where a run diverged: the line breaks
    axes.plot(levels, means, color=colour, linewidth=1.6)
    axes.plot(x, y, "o", color=colour, markersize=4.5, alpha=0.6, markeredgewidth=0)
    diverged = x[np.isfinite(line[DIVERGED])]
    top = np.full(len(diverged), 0.97)
    axes.plot(diverged, top, "x", color=colour, transform=axes.get_xaxis_transform())


def _positive(lines: Sequence[Mapping[str, Array]], name: str) -> bool:
    values = np.concatenate([line[name] for line in lines])
    values = values[np.isfinite(values)]
    return len(values) > 0 and bool((values > 0).all())


def _axes(axes: Axes, axis: str, levels: Sequence[float], positive: bool) -> None:
    axes.set_xlabel(axis, parse_math=False)
    low, high = min(levels), max(levels)
    if low > 0 and high > LOG_SPREAD * low:
        axes.set_xscale("log")
        margin = (high / low) ** 0.03
        axes.set_xlim(low / margin, high * margin)
    else:
        margin = 0.03 * (high - low)
        axes.set_xlim(low - margin, high + margin)
    axes.set_xticks(levels, [f"{level:g}" for level in levels])
    axes.xaxis.set_minor_locator(NullLocator())
    if positive:
        axes.set_yscale("log")
        log_ticks(axes)
