"""coldness recipes: what can be trained by name."""

from __future__ import annotations

from jsonargparse import ArgumentParser

from coldness.cli.console import output
from coldness.training.recipe import packaged


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
        first = path.read_text().splitlines()[0].removeprefix("# ")
        output.print(f"[bold]{name:<22}[/] {first.removeprefix(name + ': ')}")
    output.print("\ncoldness train NAME; `coldness recipes --show NAME > my.yaml` to make your own")
    return 0
