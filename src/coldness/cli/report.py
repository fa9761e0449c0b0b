"""Write one page for one run, or for several side by side.

examples:
  coldness report runs/mixture2d-0
  coldness report runs/mixture2d-0 runs/mixture2d-1 --out both.html
"""

from __future__ import annotations

from pathlib import Path

from coldness.cli.console import output
from coldness.cli.options import CommandParser
from coldness.report import write_report
from coldness.runs.folder import FolderError, RunFolder


def parser() -> CommandParser:
    needs = ("runs", "name the folders of one or several runs, such as runs/mixture2d-0")
    parser = CommandParser("report", __doc__, "RUN [RUN ...] [--out FILE] [--overwrite]", needs)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="folder of an evaluated run")
    parser.add_argument(
        "--out", metavar="FILE", help="HTML file (default report.html in the folder of one run)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    runs = [Path(run) for run in given.runs]
    for run in runs:
        if not RunFolder(run).holds_run():
            raise FolderError(f"{run} holds no run of coldness")
    if given.out is None and len(runs) > 1:
        raise FolderError("several runs need a file for their report: --out FILE.html")
    out = RunFolder(runs[0]).report if given.out is None else Path(given.out)
    if given.out is not None and out.exists() and not given.overwrite:
        raise FolderError(f"{out} exists: --overwrite replaces it")
    output.print(f"report: {write_report(runs, out)}", markup=False)
    return 0
