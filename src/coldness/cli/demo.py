"""coldness demo: two models of the same data, and one page that says what each can be trusted with.

Trains `mixture2d` with beta 0 (standard training) and beta 0.9, a minute each, and writes the two
side by side into one report.
"""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from coldness.cli.console import console, output, show_log_lines
from coldness.cli.train import train_and_judge
from coldness.report import write_report
from coldness.runs.folder import FolderError, RunFolder
from coldness.trainer import command_of
from coldness.training.recipe import Recipe


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="coldness demo", description=__doc__, exit_on_error=False)
    parser.add_argument("--out", type=str, default="runs/demo", help="folder for both runs")
    parser.add_argument("--iterations", type=int, default=10_000, help="of each model")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier demo")
    return parser


def main(words: list[str]) -> int:
    given = parser().parse_args(words)
    out = Path(given.out)
    folders = {beta: RunFolder(out / f"beta-{beta}") for beta in ("0", "0.9")}
    page = out / "report.html"
    if not given.overwrite and any(folder.holds_run() for folder in folders.values()):
        raise FolderError(f"{out} already holds a demo: --overwrite makes it anew")
    if page.exists() and not any(folder.holds_run() for folder in folders.values()):
        raise FolderError(f"{page} is there already and of no demo; nothing was written")
    show_log_lines()
    for beta, folder in folders.items():
        recipe = Recipe.read(
            "mixture2d", {"contrast.beta": float(beta), "iterations": given.iterations}
        )
        words = ["train", "mixture2d", "--contrast.beta", beta]
        words += ["--iterations", str(given.iterations), "--out", str(folder.path)]
        train_and_judge(recipe, folder.path, command_of(words), overwrite=folder.holds_run())
        console.print()
    write_report([folder.path for folder in folders.values()], page)
    output.print(f"Both models side by side: {page.resolve()}")
    return 0
