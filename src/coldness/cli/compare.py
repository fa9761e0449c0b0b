"""Compare trained models side by side.

One column per run: what each can be trusted with, then the main metrics, the best marked with a
star. An AUROC is followed in brackets by that of the true density or of a simple baseline. Several
stars in a row mean that the runs cannot be told apart: their brackets overlap, or their difference
is within the metric's tolerance (see docs/metrics.md). Runs on different data get no stars.

examples:
  coldness compare runs/a runs/b
  coldness compare runs/a runs/b --out compared.html
  coldness compare runs/a runs/b --json

Nothing is evaluated: a run without metrics.json needs `coldness evaluate RUN` first. --out also
writes a page with figures and the settings that differ.
"""

from __future__ import annotations

import json
from pathlib import Path

from rich.markup import escape

from coldness.cli.console import output
from coldness.cli.options import CommandParser
from coldness.cli.tables import as_data, comparison_table
from coldness.report import write_report
from coldness.report.page import names_of
from coldness.runs.folder import FolderError, RunFolder, as_json
from coldness.runs.reader import read_config, settings_of
from coldness.training.health import training_metrics
from coldness.trust import verdict_on
from coldness.trust.comparison import best


def parser() -> CommandParser:
    needs = ("runs", "name the folders of two runs or more, such as runs/mixture2d-0")
    usage = "RUN RUN [RUN ...] [--out FILE] [--json]"
    parser = CommandParser("compare", __doc__, usage, needs)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="folder of an evaluated run")
    parser.add_argument("--out", metavar="FILE", help="HTML file to write as well")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    paths = [Path(run) for run in given.runs]
    if len(paths) < 2:
        raise FolderError("name two runs or more; `coldness evaluate RUN --trust` is for one")
    for path in paths:
        if not RunFolder(path).holds_run():
            raise FolderError(f"{path} holds no run of coldness")
    out = None if given.out is None else Path(given.out)
    if out is not None and out.exists() and not given.overwrite:
        raise FolderError(f"{out} exists: --overwrite replaces it")
    runs = [{**RunFolder(path).metrics(), **training_metrics(path)} for path in paths]
    names, verdicts = names_of(paths), [verdict_on(metrics) for metrics in runs]
    data = [settings_of(read_config(path)).get("data") for path in paths]
    same = all(each == data[0] for each in data)
    if out is not None:
        write_report(paths, out)
    if given.json:
        columns = [
            {"name": name, **as_data(verdict), "metrics": as_json(metrics)}
            for name, verdict, metrics in zip(names, verdicts, runs, strict=True)
        ]
        stars = {key: [names[k] for k in at] for key, at in best(runs).items()} if same else {}
        output.print_json(json.dumps({"runs": columns, "best": stars}))
        return 0
    output.print(comparison_table(names, runs, verdicts, same), soft_wrap=False)
    for name, verdict in zip(names, verdicts, strict=True):
        output.print(f"[bold]{escape(name)}[/] {escape(verdict.summary)}")
    if not same:
        output.print("These runs are on different data: their metrics cannot be compared.")
    if out is not None:
        output.print(f"report: {out}", markup=False)
    return 0
