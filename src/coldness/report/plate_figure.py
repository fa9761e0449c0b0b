"""A plate of a study as one PNG file, for documentation and talks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from coldness.report import figures
from coldness.report.panels import Panel
from coldness.report.plates import Plate, Strip, lay_out
from coldness.studies.claims import Row
from coldness.studies.study import Study
from coldness.training.checkpoint import BadFile, write_atomically

INK, SOFT, PAPER = "#1c232b", "#5a6673", "#ffffff"
DPI = 160

# Inches.
TILE, GAP, PAIR_GAP = 1.0, 0.03, 0.12
LEFT, HEAD, FOOT, EDGE = 0.3, 0.3, 0.5, 0.1


def figure_png(study: Study, rows: Sequence[Row], runs: Path, block: str, out: Path) -> Path:
    """Writes the plate of one block of a study to the PNG file `out`.

    Raises:
        BadFile: the block has no run to show, or an evaluation is broken.
    """
    (chosen,) = [b for b in study.blocks if b.name == block]
    plate = lay_out(chosen, rows, runs)
    if plate is None:
        raise BadFile(f"{runs} holds no run of {block} to show in the plane")
    figure = _Canvas(plate).draw()
    write_atomically(out, lambda file: figure.savefig(file, format="png", dpi=DPI))
    return out


class _Canvas:
    """A figure on which places are in inches from the top left corner."""

    def __init__(self, plate: Plate) -> None:
        self.plate = plate
        pair = len(plate.kinds) * (TILE + GAP) - GAP
        count = len(plate.strips[0].places)
        self.lefts = [LEFT + TILE + PAIR_GAP + k * (pair + PAIR_GAP) for k in range(count)]
        self.pair = pair
        self.width = self.lefts[-1] + pair + EDGE
        self.height = HEAD + sum(self._height(strip) for strip in plate.strips)
        self.figure = Figure(figsize=(self.width, self.height), facecolor=PAPER)

    def draw(self) -> Figure:
        self._text(LEFT + TILE / 2, HEAD - 0.12, self.plate.truth)
        for left in self.lefts:
            for k, kind in enumerate(self.plate.kinds):
                self._text(left + k * (TILE + GAP) + TILE / 2, HEAD - 0.12, kind)
        top = HEAD
        for strip in self.plate.strips:
            self._strip(strip, top)
            top += self._height(strip)
        return self.figure

    @staticmethod
    def _height(strip: Strip) -> float:
        return (HEAD if strip.setting else 0) + 2 * TILE + GAP + FOOT

    def _strip(self, strip: Strip, top: float) -> None:
        if strip.setting:
            self._text(LEFT, top + 0.16, strip.setting, ha="left", weight="bold")
            top += HEAD
        for kind, low, high, y in self._rows(strip, top):
            self._text(LEFT - 0.14, y + TILE / 2, kind, rotation=90)
            if strip.truth is not None:
                self._tile(strip.truth, kind, low, high, LEFT, y)
            for left, place in zip(self.lefts, strip.places, strict=True):
                for k, name in enumerate(self.plate.kinds):
                    if name in place.panels:
                        x = left + k * (TILE + GAP)
                        self._tile(place.panels[name], kind, low, high, x, y)
        for left, place in zip(self.lefts, strip.places, strict=True):
            middle, below = left + self.pair / 2, top + 2 * TILE + GAP
            if place.why:
                self._hatch(left, top, place.why)
            self._text(middle, below + 0.14, place.setting)
            self._text(middle, below + 0.31, place.kl and f"KL {place.kl}", color=SOFT)

    @staticmethod
    def _rows(strip: Strip, top: float) -> Iterator[tuple[str, float, float, float]]:
        for k, (kind, (low, high)) in enumerate(strip.ends.items()):
            yield kind, low, high, top + k * (TILE + GAP)

    def _tile(self, panel: Panel, kind: str, low: float, high: float, x: float, y: float) -> None:
        place = (x / self.width, 1 - (y + TILE) / self.height)
        axes = self.figure.add_axes((*place, TILE / self.width, TILE / self.height))
        picture = panel.values(kind).T
        axes.imshow(picture, figures.COLOURS, vmin=low, vmax=high, origin="lower", aspect="auto")
        axes.set_axis_off()

    def _hatch(self, x: float, y: float, why: str) -> None:
        tall = 2 * TILE + GAP
        place = (x / self.width, 1 - (y + tall) / self.height)
        self.figure.add_artist(
            Rectangle(
                place,
                self.pair / self.width,
                tall / self.height,
                facecolor="#f2f4f6",
                edgecolor="#cfd6dd",
                hatch="////",
            )
        )
        self._text(x + self.pair / 2, y + tall / 2, why, backgroundcolor=PAPER)

    def _text(self, x: float, y: float, text: str, ha: str = "center", **style: Any) -> None:
        style.setdefault("color", INK)
        self.figure.text(
            x / self.width,
            1 - y / self.height,
            text,
            ha=ha,
            va="center",
            size=9,
            parse_math=False,
            **style,
        )
