"""coldness compare RUN RUN...: trained models side by side.

One column per run: what each can be trusted with, then the main metrics, the best marked with a
star. An AUROC is followed in brackets by that of the true density or of a plain model. Where
several runs have a star, they cannot be told apart: their brackets overlap, or their difference is
within the metric's tolerance (see docs/metrics.md). Runs on different data get no stars.

Nothing is evaluated here: a run without metrics.json needs `coldness evaluate RUN` first. --out
writes the same as a page, with figures and the settings that differ; --json prints all metrics.
"""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from jsonargparse import ArgumentParser
from rich.markup import escape

from coldness.cli.console import output
from coldness.cli.tables import as_data, comparison_table
from coldness.report import write_report
from coldness.report.page import names_of
from coldness.runs.folder import FolderError, RunFolder, as_json
from coldness.training.health import training_metrics
from coldness.trust import verdict_on
from coldness.trust.comparison import best


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="coldness compare", description=__doc__, exit_on_error=False)
    parser.add_argument("runs", nargs="+", help="folders of evaluated runs, two or more")
    parser.add_argument("--out", type=str, default=None, help="HTML file for the page")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    return parser


def main(words: list[str]) -> int:
    given = parser().parse_args(words or ["--help"])
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
    data = [yaml.safe_load(RunFolder(path).config.read_text()).get("data") for path in paths]
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
        output.print(f"[bold]{escape(name)}[/] {verdict.summary}")
    if not same:
        output.print("These runs are on different data: their metrics do not compare.")
    if out is not None:
        output.print(f"report: {out}")
    return 0
