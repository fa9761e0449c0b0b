"""A plate of a study as one PNG file, for documentation and talks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from coldness.files import BadFile, write_atomically
from coldness.report import figures
from coldness.report.densities import Panel
from coldness.report.images import Tiles
from coldness.studies.claims import Record
from coldness.studies.plates import Plate, Strip, lay_out
from coldness.studies.study import Study

INK, SOFT, PAPER = "#1c232b", "#5a6673", "#ffffff"
DPI = 160

# Inches.
TILE, ONLY_TILE, GAP, PAIR_GAP = 1.0, 1.35, 0.03, 0.12
LEFT, HEAD, FOOT, BRACKET, EDGE = 0.3, 0.3, 0.5, 0.17, 0.1


def figure_png(study: Study, rows: Sequence[Record], runs: Path, block: str, out: Path) -> Path:
    """Writes the plate of one block of a study to the PNG file `out`.

    Raises:
        BadFile: the block has no run to show, or an evaluation is broken.
    """
    (chosen,) = [b for b in study.blocks if b.name == block]
    plate = lay_out(chosen, rows, runs)
    if plate is None:
        raise BadFile(f"{runs} holds no run of {block} with pictures to show")
    figure = _Canvas(plate).draw()
    write_atomically(out, lambda file: figure.savefig(file, format="png", dpi=DPI))
    return out


class _Canvas:
    """A figure whose positions are in inches from the top left corner."""

    def __init__(self, plate: Plate) -> None:
        self.plate = plate
        # A single column per run leaves more room, and needs it for the text below.
        self.tile = TILE if len(plate.heads) > 1 else ONLY_TILE
        self.pair = len(plate.heads) * (self.tile + GAP) - GAP
        self.tall = len(plate.rows) * (self.tile + GAP) - GAP
        step, count = self.pair + PAIR_GAP, len(plate.strips[0].places)
        self.lefts = [LEFT + self.tile + PAIR_GAP + k * step for k in range(count)]
        self.width = self.lefts[-1] + self.pair + EDGE
        self.height = HEAD + sum(self._height(strip) for strip in plate.strips)
        self.figure = Figure(figsize=(self.width, self.height), facecolor=PAPER)

    def draw(self) -> Figure:
        self._text(LEFT + self.tile / 2, HEAD - 0.12, self.plate.truth)
        for left in self.lefts:
            for k, head in enumerate(self.plate.heads):
                self._text(left + k * (self.tile + GAP) + self.tile / 2, HEAD - 0.12, head)
        top = HEAD
        for strip in self.plate.strips:
            self._strip(strip, top)
            top += self._height(strip)
        return self.figure

    def _height(self, strip: Strip) -> float:
        bracket = BRACKET * any(place.bracket for place in strip.places)
        return (HEAD if strip.setting else 0) + self.tall + FOOT + bracket

    def _strip(self, strip: Strip, top: float) -> None:
        if strip.setting:
            self._text(LEFT, top + 0.16, strip.setting, ha="left", weight="bold")
            top += HEAD
        for n, row in enumerate(self.plate.rows):
            y = top + n * (self.tile + GAP)
            self._text(LEFT - 0.14, y + self.tile / 2, row.label, rotation=90)
            if row.of not in strip.truth:
                continue
            ends = strip.ends[row.of][row.scale] if row.of in strip.ends else (0.0, 1.0)
            self._tile(strip.truth[row.of], row.scale, *ends, LEFT, y)
            for left, place in zip(self.lefts, strip.places, strict=True):
                for k, kind in enumerate(row.kinds):
                    if kind in place.panels:
                        x = left + k * (self.tile + GAP)
                        self._tile(place.panels[kind], row.scale, *ends, x, y)
        for left, place in zip(self.lefts, strip.places, strict=True):
            middle, below = left + self.pair / 2, top + self.tall
            if place.why:
                self._hatch(left, top, place.why)
            self._text(middle, below + 0.14, place.setting)
            self._text(middle, below + 0.31, place.kl and f"KL {place.kl} nats", color=SOFT)
            self._text(middle, below + 0.31 + BRACKET, place.bracket, color=SOFT)

    def _tile(
        self, panel: Panel | Tiles, kind: str, low: float, high: float, x: float, y: float
    ) -> None:
        place = (x / self.width, 1 - (y + self.tile) / self.height)
        axes = self.figure.add_axes((*place, self.tile / self.width, self.tile / self.height))
        axes.set_axis_off()
        if isinstance(panel, Tiles):
            axes.imshow(panel.pixels, interpolation="nearest")
            return
        picture = panel.values(kind).T
        axes.imshow(picture, figures.COLOURS, vmin=low, vmax=high, origin="lower", aspect="auto")

    def _hatch(self, x: float, y: float, why: str) -> None:
        place = (x / self.width, 1 - (y + self.tall) / self.height)
        self.figure.add_artist(
            Rectangle(
                place,
                self.pair / self.width,
                self.tall / self.height,
                facecolor="#f2f4f6",
                edgecolor="#cfd6dd",
                hatch="////",
            )
        )
        self._text(x + self.pair / 2, y + self.tall / 2, why, backgroundcolor=PAPER)

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
