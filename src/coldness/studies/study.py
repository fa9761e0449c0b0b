"""A study: a grid of runs of recipes, and the claims that they are to test.

A study is a YAML file:

    title: Density against samples
    paper: which paper, section and figures
    reported: what it reports there
    seeds: 3
    set: {evaluation.long_steps: 200}         overrides of every run
    blocks:
      - name: mixture
        recipe: mixture2d
        set: {iterations: 10000}
        vary:                                 the grid: all combinations of the axes' levels
          beta: {contrast.beta: [0, 0.9]}     an axis: one option and its values,
          kernel:                             or levels by name, each with its options
            small: {sources.0.kernel.step_size: 0.001}
            large: {sources.0.kernel.step_size: 0.01}
    claims:                                   see claims.py
      - {says: kl falls as beta grows, check: falls, column: kl, along: beta}
    numbers: theory                           figures that need no run; see theory.py

Options are those of `coldness train RECIPE --OPTION VALUE`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from coldness.studies.claims import CHECKS
from coldness.training.recipe import RecipeError, find, nearest

Options = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """Runs of one recipe that differ along axes: name -> level -> options."""

    name: str
    recipe: str
    options: Options
    axes: dict[str, dict[Any, Options]]


@dataclass(frozen=True)
class Cell:
    """One run of a study: where it stands in the grid, and the overrides that put it there."""

    block: str
    recipe: str
    levels: dict[str, Any]
    seed: int
    options: Options

    @property
    def name(self) -> str:
        """Of its folder."""
        levels = [f"{axis}={level}" for axis, level in self.levels.items()]
        return "-".join([self.block, *levels, f"seed={self.seed}"])

    @property
    def overrides(self) -> list[str]:
        """As words of a command line."""
        words = {**self.options, "seed": self.seed}
        return [f"--{option}={_word(value)}" for option, value in words.items()]


@dataclass(frozen=True)
class Study:
    """A grid of runs, and what they are to show."""

    name: str
    title: str
    paper: str
    reported: str
    seeds: int
    blocks: tuple[Block, ...]
    claims: tuple[dict[str, Any], ...]
    numbers: str | None = None

    @property
    def axes(self) -> list[str]:
        """Columns of the table that the study varies, beside the seed."""
        return ["block", *dict.fromkeys(axis for block in self.blocks for axis in block.axes)]

    def cells(self, seeds: int) -> list[Cell]:
        """All runs: every setting with the first seed, then with the second, and so on."""
        return [
            Cell(block.name, block.recipe, levels, seed, options)
            for seed in range(seeds)
            for block in self.blocks
            for levels, options in _combinations(block)
        ]


def packaged_studies() -> dict[str, Path]:
    """Names and files of the studies that come with coldness."""
    folder = Path(str(files("coldness") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_study(study: str) -> Path:
    """The file of a packaged name or of a path."""
    known = packaged_studies()
    if study in known:
        return known[study]
    if Path(study).is_file():
        return Path(study)
    raise RecipeError(
        f"no study {study!r}{nearest(study, known)}; there are {', '.join(sorted(known))}"
    )


def read_study(study: str) -> Study:
    """The study of a packaged name or of a path."""
    path = find_study(study)
    try:
        text = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError(f"{path} is not a YAML file") from error
    keys = {"title", "paper", "reported", "seeds", "set", "blocks", "claims", "numbers"}
    _check_keys(text, keys, str(path))
    shared = text.get("set") or {}
    blocks = tuple(_block(block, shared, f"{path}: blocks") for block in text.get("blocks") or [])
    if not blocks and "numbers" not in text:
        raise RecipeError(f"{path} has neither blocks nor numbers")
    if len({block.name for block in blocks}) < len(blocks):
        raise RecipeError(f"{path}: blocks must have names of their own")
    return Study(
        path.stem,
        str(text.get("title", path.stem)),
        str(text.get("paper", "")),
        str(text.get("reported", "")),
        int(text.get("seeds", 1)),
        blocks,
        tuple(_claim(claim, f"{path}: claims") for claim in text.get("claims") or ()),
        text.get("numbers"),
    )


def _block(text: Any, shared: Options, where: str) -> Block:
    _check_keys(text, {"name", "recipe", "set", "vary"}, where)
    if "recipe" not in text:
        raise RecipeError(f"{where}: a block needs a recipe")
    find(text["recipe"])
    axes = {axis: _levels(levels, f"{where}: {axis}") for axis, levels in text["vary"].items()}
    options = {**shared, **(text.get("set") or {})}
    return Block(str(text.get("name", text["recipe"])), text["recipe"], options, axes)


def _claim(text: Any, where: str) -> dict[str, Any]:
    keys = {"says", "check", "column", "where", "along", "of", "factor", "value", "level"}
    _check_keys(text, keys, where)
    if text.get("check") not in CHECKS:
        name = str(text.get("check"))
        raise RecipeError(f"{where}: there is no check {name!r}{nearest(name, CHECKS)}")
    return {"says": "", **text}


def _levels(levels: Any, where: str) -> dict[Any, Options]:
    """Of an axis, in either of its two forms."""
    if not isinstance(levels, dict) or not levels:
        raise RecipeError(f"{where} must be {{option: [values]}} or {{level: {{option: value}}}}")
    if len(levels) == 1:
        ((option, values),) = levels.items()
        if isinstance(values, list):
            return {value: {option: value} for value in values}
    if not all(isinstance(options, dict) for options in levels.values()):
        raise RecipeError(f"{where}: every level must hold options and their values")
    return levels


def _combinations(block: Block) -> Iterator[tuple[dict[str, Any], Options]]:
    for choice in product(*(levels.items() for levels in block.axes.values())):
        options = dict(block.options)
        for _, of_level in choice:
            options.update(of_level)
        yield dict(zip(block.axes, (level for level, _ in choice), strict=True)), options


def _check_keys(text: Any, keys: set[str], where: str) -> None:
    if not isinstance(text, Mapping):
        raise RecipeError(f"{where}: expected keys such as {', '.join(sorted(keys)[:3])}")
    for key in text:
        if key not in keys:
            raise RecipeError(f"{where}: there is no key {key!r}{nearest(str(key), keys)}")


def _word(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
