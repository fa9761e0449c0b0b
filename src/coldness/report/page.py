"""The report: one self-contained page about one or several runs.

Verdict first, with a picture beside every answer, then panels {truth, model, short-run samples,
long-run samples} x {density, log density}, or tiles of images, what samples follow of classes,
images and attributes, and the scores of a classifier; then chains, training curves with events of
the guard, all metrics, settings and commands. Pictures are embedded, there is no script, and the
page forbids itself the network. All text from files is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from coldness.evaluation.plain_models import FITTED
from coldness.files import BadFile, write_atomically
from coldness.metrics import in_order, title
from coldness.report import (
    chains,
    figures,
    images,
    latents,
    reliability,
    score_histograms,
    training,
    trust,
)
from coldness.report.densities import Densities, Ends, Panel, on_the_line
from coldness.report.events import story
from coldness.report.figures import Columns, Curve
from coldness.report.loss_noise import with_noise
from coldness.report.run import Run, read_run
from coldness.report.tables import TableReport
from coldness.trust import THRESHOLDS
from coldness.trust.answers import number


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Writes the report on run folders, side by side, to the file `out`.

    Raises:
        BadFile: a folder lacks a file that the report needs, or holds a broken one.
    """
    if not runs:
        raise ValueError("a report needs at least one run")
    if out.is_dir():
        raise BadFile(f"{out} is a folder; name a file, such as {out / 'report.html'}")
    loaded = [read_run(Path(run), name) for run, name in zip(runs, names_of(runs), strict=True)]
    page = render(loaded)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda file: file.write(page.encode()))
    return out


def names_of(runs: Sequence[Path]) -> list[str]:
    """Names of run folders; their whole paths where two have the same name."""
    names = [Path(run).resolve().name for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def environment() -> Environment:
    """Of the templates: all text is escaped, and a variable that is missing is an error."""
    environment = Environment(
        loader=PackageLoader("coldness.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment


def render(runs: Sequence[Run]) -> str:
    """The page of loaded runs."""
    columns = [with_noise(run.columns) for run in runs]
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    template = environment().get_template("report.html.j2")
    return template.render(
        runs=[(run, trust.pictures(run)) for run in runs],
        names=[run.name for run in runs],
        thresholds=THRESHOLDS,
        groups=_groups(runs),
        lines=[
            (run.name, on_the_line(run.evaluation.arrays)) for run in runs if run.evaluation.is_line
        ],
        images=[
            (run.name, images.pictures(run.evaluation.arrays, run.grids, run.classes))
            for run in runs
            if run.evaluation.is_images
        ],
        scores=[
            (run.name, drawn)
            for run in runs
            if run.evaluation.is_images and (drawn := _scores(run))
        ],
        latents=[
            (run.name, found, _rendered(found.curves, run))
            for run in runs
            if run.evaluation.is_images and (found := _latents(run))
        ],
        tables=[(run.name, run.table, _tables(run.table)) for run in runs if run.table is not None],
        chains=[
            (run.name, drawn)
            for run in runs
            if (drawn := chains.pictures(run.evaluation.arrays, run.metrics))
        ],
        colour_scale=figures.colour_scale(),
        curves=_drawn(runs, columns, training.curves(columns)),
        single_updates=_drawn(runs, columns, training.single_updates(columns)),
        stories=[(run.name, told) for run in runs if (told := story(run.events))],
        notes=[(run.name, event) for run in runs for event in run.events if event.event == "note"],
        fitted=FITTED,
        light=figures.LIGHT.runs,
        dark=figures.DARK.runs,
        metrics=_metrics(runs),
        settings=[(key, [run.settings.get(key, "") for run in runs]) for key in keys],
    )


def _scores(run: Run) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of a classifier's calibration and of OOD scores."""
    arrays = run.evaluation.arrays
    found = [
        *reliability.curves(arrays, run.metrics),
        *score_histograms.curves(arrays, run.metrics),
    ]
    if len(found) == 3:  # in one row
        found = [replace(c, width=figures.THIRD, aspect=c.height / figures.THIRD) for c in found]
    return _rendered(found, run)


def _tables(table: TableReport) -> dict[str, list[tuple[str, str, str, str]]]:
    """Pictures of a table by what they show."""
    wanted = {"directions": table.directions, "columns": table.columns, "pairs": table.pairs}
    return {
        what: [
            (c.title, c.caption, c.render([], figures.LIGHT), c.render([], figures.DARK))
            for c in curves
        ]
        for what, curves in wanted.items()
    }


def _latents(run: Run) -> latents.LatentPictures | None:
    return latents.pictures(run.evaluation.arrays, run.metrics, run.classes, run.attributes)


def _rendered(curves: Sequence[Curve], run: Run) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of curves of an evaluation's arrays."""
    arrays = run.evaluation.arrays
    return [
        (c.title, c.caption, c.render([arrays], figures.LIGHT), c.render([arrays], figures.DARK))
        for c in curves
    ]


def _drawn(
    runs: Sequence[Run], columns: Sequence[Columns], wanted: Sequence[Curve]
) -> list[tuple[str, str, str, str]]:
    """Title, caption, light and dark picture of each curve, with events of the guard."""
    marks = [run.marks for run in runs]
    return [
        (
            c.title,
            c.caption,
            c.render(columns, figures.LIGHT, marks),
            c.render(columns, figures.DARK, marks),
        )
        for c in wanted
    ]


def _metrics(runs: Sequence[Run]) -> list[tuple[str, list[float | None]]]:
    """Metrics that any run has, in the order of the registry."""
    keys = in_order(dict.fromkeys(key for run in runs for key in run.metrics))
    return [(title(key), [run.metrics.get(key) for run in runs]) for key in keys]


def _groups(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Panels of runs with the same truth, with one colour scale per row: that of the truth."""
    groups: list[list[Run]] = []
    in_the_plane = (r for r in runs if r.evaluation.is_plane and not r.evaluation.has_directions)
    for run in in_the_plane:
        for group in groups:
            if group[0].densities.same_truth(run.densities):
                group.append(run)
                break
        else:
            groups.append([run])
    return [_pictures(group) for group in groups]


def _pictures(group: Sequence[Run]) -> dict[str, Any]:
    first = group[0].densities

    def picture(panel: Panel, of: Ends = first.ends) -> dict[str, str]:
        drawn = {kind: figures.panel(panel.values(kind), *ends) for kind, ends in of.items()}
        return {"name": panel.name, "note": panel.note, **drawn}

    def of_run(x: Densities) -> dict[str, Any]:
        panels = [panel for panel in (x.model, x.short, x.long) if panel is not None]
        sliced = picture(x.slice_model, first.slice_ends) if x.has_slices else None
        return {"panels": [picture(panel) for panel in panels], "slice": sliced}

    sliced = first.has_slices
    return {
        "box": first.box,
        "dimension": first.dimension,
        "by_kernels": first.by_kernels,
        "ends": first.ends,
        "truth": picture(first.truth),
        "slice_ends": first.slice_ends if sliced else None,
        "slice_truth": picture(first.slice_truth, first.slice_ends) if sliced else None,
        "runs": [(run.name, of_run(run.densities)) for run in group],
    }
