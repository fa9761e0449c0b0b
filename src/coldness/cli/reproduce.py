"""Run a paper's experiments and compare them with what it reports.

STUDY is a packaged name (see `coldness reproduce --list`) or a YAML file of your own. Runs use all
cores, one process per run. Ctrl-C and SIGTERM save them; the same command resumes and skips
finished runs.

examples:
  coldness reproduce --list
  coldness reproduce beta-densities --quick
  coldness reproduce beta-densities --seeds 5 --out runs/densities

The folder then holds table.json, one flat row per run with its settings and metrics; report.html,
the paper's figures with what it says and what was measured; and runs/, every run as `coldness
train` leaves it. `coldness sweep` makes a grid of your own without a file.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.markup import escape

from coldness.cli.console import output
from coldness.cli.options import CommandParser
from coldness.cli.study_runs import carry_out
from coldness.runs.folder import FolderError
from coldness.studies import packaged_studies, read_study


def parser() -> CommandParser:
    needs = ("study", "name a study, such as beta-densities; see `coldness reproduce --list`")
    usage = "STUDY [--quick] [--seeds N] [--out DIR] [--png] [--workers N] | --list"
    parser = CommandParser("reproduce", __doc__, usage, needs)
    parser.add_argument("study", nargs="?", help="packaged study or YAML file")
    parser.add_argument("--list", action="store_true", help="list the packaged studies")
    parser.add_argument("--quick", action="store_true", help="train a tenth of the iterations")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="seeds per setting (default: the study's)"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder of the study (default runs/reproduce/STUDY)"
    )
    parser.add_argument("--png", action="store_true", help="also write the figures as PNG files")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="runs at a time (default: all cores)"
    )
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words, unless="list")
    if given.list:
        for name in packaged_studies():
            output.print(f"[bold]{name:<20}[/] {escape(read_study(name).title)}")
        return 0
    study = read_study(given.study)
    if given.seeds is not None and given.seeds < 1:
        raise FolderError("--seeds must be >= 1")
    out = Path(given.out or f"runs/reproduce/{study.name}{'-quick' if given.quick else ''}")
    return carry_out(
        study,
        out,
        shlex.join(["coldness", "reproduce", *words]),
        seeds=study.seeds if given.seeds is None else range(given.seeds),
        workers=given.workers,
        short=given.quick,
        png=given.png,
    )
