"""Train two models of the same data and compare them in one report.

Trains `mixture2d` with beta 0 (standard training) and beta 0.9, about a minute each. The report
shows both side by side and says what each can be trusted with.

examples:
  coldness demo
  coldness demo --iterations 2000 --out runs/short
"""

from __future__ import annotations

import shlex
from pathlib import Path

from coldness.cli.console import console, output, show_log_lines
from coldness.cli.options import CommandParser
from coldness.cli.train import train_and_judge
from coldness.report import write_report
from coldness.runs.folder import FolderError, RunFolder
from coldness.training.recipe import Recipe


def parser() -> CommandParser:
    parser = CommandParser("demo", __doc__, "[--out DIR] [--iterations N] [--overwrite]")
    parser.add_argument(
        "--out", metavar="DIR", default="runs/demo", help="folder of both runs (default runs/demo)"
    )
    parser.add_argument(
        "--iterations", type=int, metavar="N", default=10_000,
        help="training iterations of each model (default 10000)",
    )  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier demo")
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    out = Path(given.out)
    folders = {beta: RunFolder(out / f"beta-{beta}") for beta in ("0", "0.9")}
    page = out / "report.html"
    if not given.overwrite and any(folder.holds_run() for folder in folders.values()):
        raise FolderError(f"{out} already holds a demo: --overwrite replaces it")
    if page.exists() and not any(folder.holds_run() for folder in folders.values()):
        raise FolderError(f"{page} exists and is not a demo's; nothing was written")
    show_log_lines()
    for beta, folder in folders.items():
        recipe = Recipe.read(
            "mixture2d", {"contrast.beta": float(beta), "iterations": given.iterations}
        )
        words = ["coldness", "train", "mixture2d", "--contrast.beta", beta]
        words += ["--iterations", str(given.iterations), "--out", str(folder.path)]
        train_and_judge(recipe, folder.path, shlex.join(words), overwrite=folder.holds_run())
        console.print()
    write_report([folder.path for folder in folders.values()], page)
    output.print(f"Both models side by side: {page.resolve()}", markup=False)
    return 0
