"""coldness report RUN [RUN...]: one page for one run, or for several side by side."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from coldness.cli.console import output
from coldness.report import write_report
from coldness.runs.folder import FolderError, RunFolder


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="coldness report", description=__doc__, exit_on_error=False)
    parser.add_argument("runs", nargs="+", help="folders of evaluated runs")
    parser.add_argument(
        "--out", type=str, default=None, help="HTML file; default report.html in the one run"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    return parser


def main(words: list[str]) -> int:
    given = parser().parse_args(words or ["--help"])
    runs = [Path(run) for run in given.runs]
    for run in runs:
        if not RunFolder(run).holds_run():
            raise FolderError(f"{run} holds no run of coldness")
    if given.out is None and len(runs) > 1:
        raise FolderError("several runs need a file for their report: --out FILE.html")
    out = RunFolder(runs[0]).report if given.out is None else Path(given.out)
    if given.out is not None and out.exists() and not given.overwrite:
        raise FolderError(f"{out} exists: --overwrite replaces it")
    output.print(f"report: {write_report(runs, out)}")
    return 0
