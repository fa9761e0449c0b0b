"""List the recipes that can be trained by name.

examples:
  coldness recipes
  coldness recipes --show mixture2d > my.yaml
"""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape

from coldness.cli.console import output
from coldness.cli.options import CommandParser, OptionError
from coldness.training.recipe import packaged

GROUPS = (
    ("Points, your own or of known density:", ("table", "points", "mixture", "rings", "two-modes")),
    ("Images:", ("digits", "shapes")),
    ("CIFAR-10, for a GPU; many also as NAME-small, for a CPU:", ("cifar10",)),
    ("Other images, for a GPU:", ("imagenet32", "celeba64")),
    ("Encoders without an energy, for `coldness pretrain`:", ("pretrain/",)),
    ("Runs that fail on purpose, to see what the guard does:", ("failures/",)),
)
"""Headings, and how the names below them begin."""


def _first(name: str, path: Path) -> str:
    """What a recipe is, from its first line."""
    line = path.read_text().splitlines()[0].removeprefix("# ")
    return line.removeprefix(name + ": ")


def main(words: list[str]) -> int:
    parser = CommandParser("recipes", __doc__, "[--show NAME]")
    parser.add_argument("--show", metavar="NAME", help="print this recipe, to start your own")
    given = parser.read(words)
    recipes = {**packaged(), **packaged("pretrain")}
    if given.show is not None:
        if given.show not in recipes:
            raise OptionError(f"no recipe {given.show!r}; `coldness recipes` lists them")
        print(recipes[given.show].read_text(), end="")
        return 0
    for heading, beginnings in GROUPS:
        names = [n for begin in beginnings for n in recipes if n.startswith(begin)]
        shown = [n for n in names if n == (full := n.removesuffix("-small")) or full not in recipes]
        width = max(len(name) for name in shown)
        output.print(f"\n{heading}")
        for name in shown:
            output.print(f"  [bold]{name:<{width}}[/]  {escape(_first(name, recipes[name]))}")
    output.print("\nTrain one: coldness train NAME, or coldness pretrain NAME for an encoder")
    output.print("Start your own: coldness recipes --show NAME > my.yaml")
    return 0
