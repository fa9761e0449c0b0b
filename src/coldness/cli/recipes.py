"""coldness recipes: what can be trained by name."""

from __future__ import annotations

from pathlib import Path

from jsonargparse import ArgumentParser

from coldness.cli.console import output
from coldness.training.recipe import packaged

FAILURES = "failures/"


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
    for name, path in recipes.items():
        if name.startswith(FAILURES):
            continue
        output.print(f"[bold]{name:<22}[/] {_first(name, path)}")
    output.print("\nWays to fail, for the guard and for you to look at:")
    for name, path in recipes.items():
        if name.startswith(FAILURES):
            output.print(f"[bold]{name:<30}[/] {_first(name, path)}")
    output.print("\ncoldness train NAME; `coldness recipes --show NAME > my.yaml` to make your own")
    return 0
