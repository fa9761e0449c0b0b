"""Reliability diagram of a classifier: how often it is right, over how sure it is.

    ECE = sum_bins share |accuracy - confidence|

Bars are the accuracy of predictions in bins of their confidence, on the diagonal where confidence
is as right as it says; below the axis hang the shares of predictions. Empty bins have no bar.
After steps of refinement the same is drawn as a line with points.

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
"""Height that the largest share takes below the axis."""

ASPECT = 0.68


def curves(arrays: Mapping[str, Array], metrics: Mapping[str, float]) -> list[Curve]:
    """The diagram; none where its arrays are not there."""
    if not has(arrays, BEFORE):
        return []
    caption = (
        "Accuracy of predictions on held-out images over their confidence: on the dashed line "
        "where they are right as often as they say. Below, their shares."
    )
    if has(arrays, AFTER):
        caption += " Points are after refinement."
    for before, key in (("A", ""), ("After refinement: a", "_refined")):
        if f"accuracy{key}" in metrics and f"ece{key}" in metrics:
            accuracy, ece = metrics[f"accuracy{key}"], metrics[f"ece{key}"]
            caption += f" {before}ccuracy {accuracy:.1%}, ECE {number(ece)}."
    return [Curve("Reliability", caption, draw, aspect=ASPECT)]


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
        label=f"share, at most {largest:.0%}",
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
