"""Look for problems of a recipe before training it. Writes nothing.

Shows, for every source, the step size h on the potential U and the pair of coefficients (drift on
E, noise) that it amounts to. Then measures, in some seconds: the narrowest scale of the data,
whether chains can reach it, how steep and how curved the untrained energy is, what the first
updates do, and what an iteration costs. Fields can be overridden as in `coldness train`.

examples:
  coldness doctor mixture2d
  coldness doctor rings10d-data --sources.0.kernel.step_size 0.001
  coldness doctor points --data.path my.npy --json

Exit code 0 where no problems are found, 1 where there are warnings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.markup import escape

from coldness.cli.console import console, output
from coldness.cli.options import NAME_A_RECIPE, CommandParser, read_recipe
from coldness.doctor import (
    Examination,
    combinations,
    examine,
    known_scale,
    temperature_lines,
    too_noisy,
)
from coldness.progress import stages
from coldness.runs.folder import as_json
from coldness.training import Settings
from coldness.training.recipe import Recipe, RecipeError


def parser() -> CommandParser:
    usage = "RECIPE [--json] [--FIELD VALUE ...]"
    parser = CommandParser("doctor", __doc__, usage, NAME_A_RECIPE, takes_recipe=Recipe)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    return parser


def main(words: list[str]) -> int:
    given, recipe = read_recipe(parser(), words)
    settings = recipe.parts()
    if settings.adapt is not None:
        recipe = recipe.decided(settings.adapt.decide(settings.data))
        settings = recipe.parts(data=settings.data)
    try:
        with stages("doctor") as stage:
            found = examine(settings, stage)
    except Exception as error:  # whatever a part raises, it is the settings that do not fit
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RecipeError(f"these settings do not run: {line}") from error
    if given.json:
        output.print_json(json.dumps(_as_json(recipe.name, found)))
    else:
        print_examination(settings, found)
    return 1 if found.findings else 0


def print_examination(settings: Settings, found: Examination) -> None:
    """For people: temperature, checks, warnings."""
    for line in temperature_lines(settings):
        output.print(line, markup=False)
    output.print("measured before training")
    for check in found.checks:
        mark = "[bold]![/]" if check.findings else " "
        output.print(f"{mark} {check.name:<10} {escape(check.text)}")
    for finding in found.findings:
        output.print(f"[bold]warning[/] {finding.cause}: {escape(finding.line)}")
    if not found.findings:
        output.print("no problems found")


def print_temperature(settings: Settings) -> None:
    """The first lines of a run."""
    for line in temperature_lines(settings):
        console.print(line, markup=False)
    for line in warning_lines(settings):
        console.print(f"[bold]warning[/] {escape(line)}")


def warning_lines(settings: Settings) -> Iterator[str]:
    """Problems of the settings that show without measuring anything."""
    scale = known_scale(settings)
    if scale is not None:
        yield from (finding.line for finding in too_noisy(settings, scale))
    yield from (finding.line for finding in combinations(settings))


def _as_json(recipe: str, found: Examination) -> dict[str, object]:
    return {
        "recipe": recipe,
        "warnings": [{**asdict(finding), "line": finding.line} for finding in found.findings],
        "metrics": as_json(found.metrics),
    }
