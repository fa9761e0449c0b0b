"""coldness recipes: what can be trained by name."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from coldness.cli.console import output
from coldness.training.recipe import packaged

GROUPS = (
    ("Points, your own or of known density:", ("points", "mixture", "rings")),
    ("Images:", ("digits",)),
    ("CIFAR-10, for a GPU; each also as NAME-small, for a processor:", ("cifar10",)),
    ("Ways to fail, for the guard and for you to look at:", ("failures/",)),
)
"""Headings, and how the names below them begin."""


def _first(name: str, path: Path) -> str:
    """What a recipe is, from its first line."""
    line = path.read_text().splitlines()[0].removeprefix("# ")
    return line.removeprefix(name + ": ")


def main(words: list[str]) -> int:
    parser = ArgumentParser(prog="coldness recipes", description=__doc__, exit_on_error=False)
    parser.add_argument(
        "--show", type=str, default=None, help="print this recipe, to start your own"
    )
    given = parser.parse_args(words)
    recipes = packaged()
    if given.show is not None:
        if given.show not in recipes:
            raise ValueError(f"no recipe {given.show!r}; there are {', '.join(recipes)}")
        print(recipes[given.show].read_text(), end="")
        return 0
    for heading, beginnings in GROUPS:
        names = [n for begin in beginnings for n in recipes if n.startswith(begin)]
        shown = [n for n in names if n.removesuffix("-small") == n]
        width = max(len(name) for name in shown)
        output.print(f"\n{heading}")
        for name in shown:
            output.print(f"  [bold]{name:<{width}}[/]  {_first(name, recipes[name])}")
    output.print("\ncoldness train NAME; `coldness recipes --show NAME > my.yaml` to make your own")
    return 0
