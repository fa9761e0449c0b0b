"""Train a grid of runs of one recipe, and compare them in one table and one page.

RECIPE is a packaged name (see `coldness recipes`) or a YAML file. Every --vary names an option of
`coldness train` and its values: with commas between them, or whole numbers from A to B as A..B. All
combinations are trained, one process per run on all cores. Other options hold for every run.

examples:
  coldness sweep mixture2d --vary contrast.beta=0,.5,.9 --vary seed=0..4
  coldness sweep table --data.path my.csv --vary optimiser.lr=1e-4,3e-4,1e-3
  coldness sweep rings10d --vary sources.0.kernel=Langevin,MALA --iterations 2000 --out runs/kernels

Ctrl-C and SIGTERM save the runs; the same command resumes and skips finished runs. The folder then
holds table.json, one flat row per run with its settings and metrics; report.html, with pictures,
curves and means over seeds; and runs/, every run as `coldness train` leaves it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coldness.cli.options import NAME_A_RECIPE, CommandParser, OptionError, read_recipe
from coldness.cli.study_runs import carry_out
from coldness.documents import BadDocument, read_yaml
from coldness.studies.study import RESERVED, Study, file_name, study_from
from coldness.training.recipe import Recipe

SHOWN = {
    "beta": "contrast.beta",
    "iterations": "iterations",
    "steps": "sources.0.steps",
    "variant": "contrast.variant",
}
"""Settings that are columns of every table: no other option takes their names."""

RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST_VALUES = 10_000
"""Of one axis: more are a slip of the keyboard."""


def parser() -> CommandParser:
    usage = "RECIPE --vary OPTION=VALUES [--vary ...] [--out DIR] [--workers N] [--FIELD VALUE ...]"
    parser = CommandParser("sweep", __doc__, usage, NAME_A_RECIPE, takes_recipe=Recipe)
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="OPTION=VALUES",
        help="an option and its values: A,B,C or A..B; seed=0..4 for five seeds",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder of the sweep (default runs/sweep/RECIPE-OPTIONS)"
    )
    parser.add_argument("--png", action="store_true", help="also write the figures as PNG files")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="runs at a time (default: all cores)"
    )
    return parser


def main(words: list[str]) -> int:
    given, recipe = read_recipe(parser(), words)
    if given.allow_imports:
        raise OptionError("runs of a sweep import no classes from outside coldness")
    if not given.vary:
        raise OptionError("name what varies, such as --vary contrast.beta=0,.5,.9")
    study = study_of(recipe.name, varied(given.vary), given.overrides)
    out = Path(given.out or f"runs/sweep/{study.name}")
    command = shlex.join(["coldness", "sweep", *words])
    return carry_out(study, out, command, seeds=study.seeds, workers=given.workers, png=given.png)


def study_of(
    recipe: str, varied: Mapping[str, Sequence[Any]], overrides: Mapping[str, Any]
) -> Study:
    """The grid of a recipe as a study without claims. The guard of a run is the recipe's own.

    Args:
        recipe: a packaged name or a path.
        varied: values by option; those of `seed` are the seeds.
        overrides: values by option, of every run.
    """
    axes = {option: values for option, values in varied.items() if option != "seed"}
    both = next((option for option in varied if option in overrides), None)
    if both is not None:
        raise OptionError(f"--{both} cannot have one value and vary too")
    names = _names(axes)
    title = f"{recipe}: {', '.join(varied)}"
    fixed = {option: value for option, value in overrides.items() if option != "seed"}
    text = {
        "title": title,
        "seeds": list(varied.get("seed", [overrides.get("seed", 0)])),
        "set": fixed,
        "blocks": [
            {
                "name": Path(recipe).stem,
                "recipe": recipe,
                "vary": {names[option]: {option: list(values)} for option, values in axes.items()},
            }
        ],
    }
    name = file_name("-".join([Path(recipe).stem, *(names.values() or ["seed"])]))
    return study_from(text, Path(name), first={})


def varied(words: Sequence[str]) -> dict[str, list[Any]]:
    """Values by option, of words OPTION=VALUES."""
    found: dict[str, list[Any]] = {}
    for option, values in map(_varied, words):
        if option in found:
            raise OptionError(f"--vary {option} is given twice")
        found[option] = values
    return found


def _varied(word: str) -> tuple[str, list[Any]]:
    option, equals, text = word.partition("=")
    option = option.removeprefix("--")
    if not equals or not option or not text:
        raise OptionError(f"--vary takes OPTION=VALUES, such as contrast.beta=0,.5,.9, got {word}")
    if found := RANGE.fullmatch(text):
        first, last = map(int, found.groups())
        if not first <= last < first + MOST_VALUES:
            raise OptionError(f"--vary {word}: A..B needs A <= B, at most {MOST_VALUES} numbers")
        return option, list(range(first, last + 1))
    try:
        return option, [read_yaml(part) for part in _parts(text)]
    except BadDocument as error:
        raise OptionError(f"--vary {word}: {error}") from error


def _parts(text: str) -> Iterable[str]:
    """Splits at commas outside of brackets and quotes."""
    depth, quote, part = 0, "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and not depth:
            yield part
            part = ""
            continue
        part += letter
    yield part


def _names(options: Iterable[str]) -> dict[str, str]:
    """A short name for each option: the last parts of its path that tell it from the others."""
    names: dict[str, str] = {}
    for option in options:
        parts = option.split(".")
        for k in range(1, len(parts) + 1):
            name = "-".join(parts[-k:])
            free = name not in RESERVED and SHOWN.get(name, option) == option
            if free and name not in names.values() and not name[0].isdigit():
                break
        names[option] = name
    return names
