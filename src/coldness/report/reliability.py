"""Reliability diagram of a classifier: accuracy against confidence.

    ECE = sum_bins fraction |accuracy - confidence|

Bars are the accuracy of predictions in bins of their confidence; they end on the diagonal where the
classifier is calibrated. Below the axis hang the fractions of predictions in each bin. Empty bins
have no bar. Predictions after refinement, where images took a few steps of a chain first, are drawn
as a line with points.

References:
    On Calibration of Modern Neural Networks (Guo et al., 2017), Fig. 1 and Eq. 3.
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), Fig. 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from coldness.report.figures import Array, Columns, Curve, Theme
from coldness.trust.answers import number

BEFORE, AFTER = "reliability", "reliability_refined"
PARTS = ("confidence", "accuracy", "share")

DEPTH = 0.3
"""Height of the largest fraction below the axis."""

ASPECT = 0.68


def curves(arrays: Mapping[str, Array], metrics: Mapping[str, float]) -> list[Curve]:
    """The diagram; none where its arrays are missing."""
    if not has(arrays, BEFORE):
        return []
    caption = (
        "Accuracy of predictions on held-out images against their confidence. A calibrated "
        "classifier is on the dashed line. Grey bars below the axis are the fraction of "
        "predictions in each bin."
    )
    if has(arrays, AFTER):
        caption += " Points are after refinement: chain steps on the image before it is classified."
    for before, key in (("A", ""), ("After refinement: a", "_refined")):
        if f"accuracy{key}" in metrics and f"ece{key}" in metrics:
            accuracy, ece = metrics[f"accuracy{key}"], metrics[f"ece{key}"]
            caption += f" {before}ccuracy {accuracy:.1%}, ECE {number(ece)}."
    return [Curve("Reliability diagram", caption, draw, aspect=ASPECT)]


def has(arrays: Mapping[str, Array], name: str) -> bool:
    return all(f"{name}_{part}" in arrays for part in PARTS)


def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
    (arrays,) = runs
    _, accuracy, share = _bins(arrays, BEFORE)
    edges = np.linspace(0, 1, len(share) + 1)
    full, largest = share > 0, float(share.max(initial=0)) or 1.0
    axes.bar(
        edges[:-1][full],
        accuracy[full],
        np.diff(edges)[full],
        align="edge",
        color=theme.runs[0],
        edgecolor=theme.grid,
        linewidth=0.6,
        label="accuracy",
    )
    axes.bar(
        edges[:-1],
        -DEPTH * share / largest,
        np.diff(edges),
        align="edge",
        color=theme.ink,
        alpha=0.45,
        linewidth=0,
        label=f"predictions, at most {largest:.0%} per bin",
    )
    axes.plot([0, 1], [0, 1], "--", color=theme.ink, linewidth=1)
    axes.axhline(0, color=theme.ink, linewidth=0.8)
    if has(arrays, AFTER):
        confidence, accuracy, share = _bins(arrays, AFTER)
        x, y = confidence[share > 0], accuracy[share > 0]
        axes.plot(x, y, ".-", color=theme.runs[1], linewidth=1.2, label="refined")
    axes.set_xlim(0, 1)
    axes.set_ylim(-1.1 * DEPTH, 1.03)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    axes.set_xlabel("confidence")
    axes.set_ylabel("accuracy")
    axes.legend(
        frameon=False,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        handlelength=1.2,
        columnspacing=1.0,
    )


def _bins(arrays: Columns, name: str) -> tuple[Array, Array, Array]:
    confidence, accuracy, share = (arrays[f"{name}_{part}"] for part in PARTS)
    return confidence, accuracy, share
