"""Heat map of class-conditional samples: the class asked for against the class that they show.

    table[i, j] = fraction of samples drawn for class i that a separate classifier assigns to j

Rows add up to 1. Colours run from that of the page to full colour, and every cell of half a percent
or more has its percentage on it, so that nothing rests on colour alone.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Fig. 3c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from coldness.report.figures import Array, Columns, Curve, Draw, Theme, shortened

CLASSES = 20
"""Most classes that are drawn."""

LETTERS = 12
"""Most letters of a name."""

LETTERS_ACROSS = 45
"""Letters that fit below the map; longer names are turned."""

SLANTED: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}

LEAST = 0.005
"""Fractions below this have no number."""

ASPECT = 0.86

PAGE = {True: "#ffffff", False: "#1a2027"}
"""Colour of cards on light and on dark pages: that of a cell where there is nothing."""

STRONG = {True: "#0a5c94", False: "#7cc4f2"}
"""Colour of a cell of 1."""


def curves(
    arrays: Mapping[str, Array], metrics: Mapping[str, float], names: Sequence[str]
) -> list[Curve]:
    """The heat map; none where there is no table.

    Args:
        arrays: of an evaluation; `confusion` is (K, K).
        metrics: of the same, for the caption.
        names: of classes; a class without a name is shown by its number.
    """
    if "confusion" not in arrays:
        return []
    count = len(arrays["confusion"])
    caption = (
        "Rows are the class that samples were drawn for, columns the class that a separate "
        "classifier assigns them to; numbers are percentages of a row. If every sample showed its "
        "class, only the diagonal would be filled."
    )
    if count > CLASSES:
        caption += f" The first {CLASSES} of {count} classes."
    if "class_agreement" in metrics and "judge_accuracy" in metrics:
        agree, judge = metrics["class_agreement"], metrics["judge_accuracy"]
        caption += (
            f" {agree:.1%} of all samples show their class, by a classifier that is right on "
            f"{judge:.1%} of held-out images."
        )
    return [Curve("Samples by class", caption, _draw(names), aspect=ASPECT)]


def _draw(names: Sequence[str]) -> Draw:
    def draw(axes: Axes, runs: Sequence[Columns], theme: Theme) -> None:
        (arrays,) = runs
        table = arrays["confusion"][:CLASSES, :CLASSES]
        count = len(table)
        light = _brightness(theme.ink) < 0.5
        colours = LinearSegmentedColormap.from_list("", [PAGE[light], STRONG[light]])
        axes.grid(visible=False)
        axes.imshow(table, colours, vmin=0, vmax=1, aspect="auto")
        size = 8.5 if count <= 10 else 5.5
        for i, j in np.argwhere(table >= LEAST).tolist():
            value = float(table[i, j])
            # Whichever of the two is farther from the colour of the cell.
            bright = _brightness(colours(value)) < 0.5
            hue = "#ffffff" if bright else "#12161b"
            axes.text(
                j, i, f"{100 * value:.0f}", ha="center", va="center", color=hue, fontsize=size
            )
        shown = [shortened(names[k] if k < len(names) else str(k), LETTERS) for k in range(count)]
        wide = count * max(map(len, shown)) > LETTERS_ACROSS
        across = {"rotation": 90} if count > 10 else SLANTED
        axes.set_xticks(range(count), shown, **(across if wide else {}))
        axes.set_yticks(range(count), shown)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_parse_math(False)
        axes.tick_params(length=0, labelsize=9 if count <= 10 else 7)
        axes.set_xlabel("class that they show")
        axes.set_ylabel("class asked for")

    return draw


def _brightness(colour: str | tuple[float, float, float, float]) -> float:
    """Relative luminance, roughly: 0 is black, 1 is white."""
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue
