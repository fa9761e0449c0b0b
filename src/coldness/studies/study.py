"""A study: a grid of runs of recipes, and the claims that they test.

A study is a YAML file:

    title: Density against samples
    paper: which paper, section and figures
    reported: what it reports there
    seeds: 3                                  0, 1 and 2; or a list of seeds
    set: {evaluation.long_steps: 200}         overrides of every run
    blocks:
      - name: mixture
        recipe: mixture2d                     a packaged name, or a path beside the study's file
        set: {iterations: 10000}
        vary:                                 the grid: all combinations of the axes' levels
          beta: {contrast.beta: [0, 0.9]}     an axis: one option and its values,
          kernel:                             or levels by name, each with its options
            small: {sources.0.kernel.step_size: 0.001}
            large: {sources.0.kernel.step_size: 0.01}
    claims:                                   see claims.py
      - {says: kl falls as beta grows, check: falls, column: kl, along: beta}
    numbers: theory                           numbers beside the runs', or without any; theory.py

Options are those of `coldness train RECIPE --OPTION VALUE`; the guard of a run only warns,
unless guard.policy is set. Like a recipe, a study from elsewhere runs no code: it names options and
values, which are checked as on the command line, and the folders of its runs are always within the
folder of the study, whatever their names.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from coldness.documents import BadDocument, is_file, one_line, read_yaml
from coldness.metrics import STUDIED
from coldness.seeds import check_seed
from coldness.signatures import nearest
from coldness.studies.claims import CHECKS, is_meant
from coldness.studies.theory import NUMBERS
from coldness.training.recipe import RecipeError, find
from coldness.training.settings import Settings

Options = dict[str, Any]

RESERVED = {
    "block", "recipe", "data", "dimension", "negatives", "seed", "run", "seconds",
    "seconds_per_iteration", "diverged_at", "detected_at", "rollbacks", "actions", "not_finite",
    "kl_per_dimension", "kl_bracket",
    *STUDIED,
}  # fmt: skip
"""Columns of the table whose names no axis may have."""

LONGEST_NAME = 200

UNMENDED: Options = {"guard.policy": "warn"}
"""Set first in every run: a study measures what a method does, including its failures."""


def file_name(text: str) -> str:
    """A safe name for a file or folder, whatever the text: it leads to no other folder."""
    return re.sub(r"[^\w.=+-]+", "_", text).lstrip(".")


@dataclass(frozen=True)
class Block:
    """Runs of one recipe that differ along axes: name -> level -> options."""

    name: str
    recipe: str
    options: Options
    axes: dict[str, dict[Any, Options]]


@dataclass(frozen=True)
class Cell:
    """One run of a study: its place in the grid, and the overrides that define it."""

    block: str
    recipe: str
    levels: dict[str, Any]
    seed: int
    options: Options

    @property
    def name(self) -> str:
        """Name of the run's folder; no part of it leads out of the study's folder."""
        levels = [f"{axis}={level}" for axis, level in self.levels.items()]
        whole = "-".join([self.block, *levels, f"seed={self.seed}"])
        return file_name(whole)

    @property
    def place(self) -> dict[str, Any]:
        """Place in the grid: block and levels."""
        return {"block": self.block, **self.levels}

    @property
    def overrides(self) -> Options:
        """Overrides of the recipe, by path."""
        return {**self.options, "seed": self.seed}

    @property
    def words(self) -> list[str]:
        """The overrides as command-line options."""
        return [f"--{option}={_word(value)}" for option, value in self.overrides.items()]

    def with_options(self, **options: Any) -> Cell:
        return replace(self, options={**self.options, **options})


@dataclass(frozen=True)
class Study:
    """A grid of runs, and the claims that they test."""

    name: str
    title: str
    paper: str
    reported: str
    seeds: tuple[int, ...]
    blocks: tuple[Block, ...]
    claims: tuple[dict[str, Any], ...]
    numbers: str | None = None

    @property
    def axes(self) -> list[str]:
        """Columns of the table that the study varies, apart from the seed."""
        return ["block", *dict.fromkeys(axis for block in self.blocks for axis in block.axes)]

    def cells(self, seeds: int | Sequence[int]) -> list[Cell]:
        """All runs: every setting with the first seed, then with the second, and so on."""
        return [
            Cell(block.name, block.recipe, levels, seed, options)
            for seed in (range(seeds) if isinstance(seeds, int) else seeds)
            for block in self.blocks
            for levels, options in _combinations(block)
        ]


def packaged_studies() -> dict[str, Path]:
    """Names and files of the studies that come with coldness."""
    folder = Path(str(files("coldness") / "studies"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_study(study: str) -> Path:
    """The file of a packaged name or of a path."""
    return find(study, packaged_studies(), "study", "coldness reproduce --list")


def read_study(study: str) -> Study:
    """The study of a packaged name or of a path; all errors in the file are raised here."""
    path = find_study(study)
    try:
        text = read_yaml(path.read_text())
    except (OSError, UnicodeDecodeError, BadDocument) as error:
        raise RecipeError(f"{path} is not a YAML file: {one_line(error)}") from error
    return study_from(text, path)


def study_from(text: Any, path: Path, first: Options = UNMENDED) -> Study:
    """The study of the contents of a file; all errors in them are raised here.

    Args:
        text: plain data, as the file holds it.
        path: of the file; recipes are looked for beside it.
        first: options of every run, before those of the study.
    """
    where = str(path)
    keys = {"title", "paper", "reported", "seeds", "set", "blocks", "claims", "numbers"}
    text = _mapping(text, where, keys)
    shared = {**first, **_options(text.get("set"), f"{where}: set")}
    blocks = [_block(b, shared, path) for b in _list(text.get("blocks"), f"{where}: blocks")]
    seeds = _seeds(text.get("seeds", 1), where)
    result = Study(
        path.stem,
        str(text.get("title", path.stem)),
        str(text.get("paper", "")),
        str(text.get("reported", "")),
        seeds,
        tuple(blocks),
        (),
        text.get("numbers"),
    )
    _check_names(result, where)
    if result.numbers is not None and result.numbers not in list(NUMBERS):
        raise RecipeError(f"{where}: there are no numbers {str(result.numbers)!r}")
    claims = _list(text.get("claims"), f"{where}: claims")
    return replace(result, claims=tuple(_claim(c, result, f"{where}: claims") for c in claims))


def _seeds(given: Any, where: str) -> tuple[int, ...]:
    """Seeds of a list, or the first ones by their number."""
    whole = [
        isinstance(seed, int) and not isinstance(seed, bool)
        for seed in (given if isinstance(given, list) else [given])
    ]
    if isinstance(given, list) and given and all(whole) and len(set(given)) == len(given):
        for seed in given:
            check_seed(seed)
        return tuple(given)
    if isinstance(given, list) or not all(whole) or given < 1:
        raise RecipeError(
            f"{where}: seeds must be a whole number >= 1 or a list of different ones, got {given!r}"
        )
    return tuple(range(given))


def _block(text: Any, shared: Options, path: Path) -> Block:
    text = _mapping(text, f"{path}: blocks", {"name", "recipe", "set", "vary"})
    if not isinstance(text.get("recipe"), str):
        raise RecipeError(f"{path}: a block must name a recipe")
    name, beside = str(text.get("name", text["recipe"])), path.parent / text["recipe"]
    where = f"{path}: {name}"
    recipe = str(beside) if is_file(beside) else text["recipe"]
    find(recipe)
    vary = _mapping(text.get("vary") or {}, f"{where}: vary")
    axes = {str(axis): _levels(levels, f"{where}: {axis}") for axis, levels in vary.items()}
    for axis in axes:
        if axis in RESERVED or not re.fullmatch(r"[\w-]+", axis):
            raise RecipeError(f"{where}: an axis cannot be called {axis!r}")
    return Block(name, recipe, {**shared, **_options(text.get("set"), f"{where}: set")}, axes)


def _levels(levels: Any, where: str) -> dict[Any, Options]:
    """Levels of an axis, in either of its two forms."""
    levels = _mapping(levels, where)
    values = next(iter(levels.values()), None)
    if len(levels) == 1 and isinstance(values, list):
        (option,) = levels
        chosen = {_level(v): _options({option: _plain(v)}, where) for v in values}
    else:
        chosen = {_level(level): _options(o, f"{where}: {level}") for level, o in levels.items()}
    if not chosen:
        raise RecipeError(f"{where} must be {{option: [values]}} or {{level: {{option: value}}}}")
    return chosen


def _plain(value: Any) -> Any:
    """Turns text such as 1e-3, which YAML does not read as a number, into numbers."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _level(value: Any) -> Any:
    """The level as shown in the table: a number if it is one, otherwise its text."""
    value = _plain(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, int | float) else _word(value)


def _combinations(block: Block) -> Iterator[tuple[dict[str, Any], Options]]:
    for choice in product(*(levels.items() for levels in block.axes.values())):
        options = dict(block.options)
        for _, of_level in choice:
            options.update(of_level)
        yield dict(zip(block.axes, (level for level, _ in choice), strict=True)), options


def _claim(text: Any, study: Study, where: str) -> dict[str, Any]:
    """Raises an error for a claim that could not be judged once all runs are done."""
    text = _mapping(text, where)
    check = text.get("check")
    if not isinstance(check, str) or check not in CHECKS:
        raise RecipeError(f"{where}: there is no check {check!r}{nearest(str(check), CHECKS)}")
    asked = {k: v for k, v in text.items() if k not in ("says", "check", "where")}
    try:
        inspect.signature(CHECKS[check]).bind([], [], **asked)
    except TypeError as error:
        raise RecipeError(f"{where}: {check}: {error}") from error
    of_where = _mapping(text.get("where") or {}, f"{where}: where", set(study.axes))
    for key, known in (("along", study.axes), ("column", STUDIED), ("of", STUDIED)):
        if key in asked and asked[key] not in known:
            raise RecipeError(
                f"{where}: {key} cannot be {asked[key]!r}{nearest(str(asked[key]), known)}"
            )
    for key in ("factor", "value"):
        if key in asked and not isinstance(asked[key], int | float):
            raise RecipeError(f"{where}: {key} must be a number, got {asked[key]!r}")
    meant = [cell.place for cell in study.cells(1) if is_meant(cell.place, of_where)]
    if not meant or any(asked.get("along", "block") not in place for place in meant):
        raise RecipeError(
            f"{where}: {text.get('says', check)!r} selects no runs, or runs without its axis"
        )
    return {"says": "", **text}


def _check_names(study: Study, where: str) -> None:
    if not study.blocks and study.numbers is None:
        raise RecipeError(f"{where} has neither blocks nor numbers")
    if not study.blocks:
        return
    names = [cell.name for cell in study.cells(1)]
    if len(set(names)) < len(names):
        raise RecipeError(f"{where}: two runs have the same name; rename blocks or levels")
    longest = max(names, key=len)
    if len(longest.encode()) > LONGEST_NAME:
        raise RecipeError(f"{where}: the name {longest[:40]}... is too long for a folder")


def _options(text: Any, where: str) -> Options:
    """Options of `coldness train` and their values; empty if there are none."""
    fields = {*inspect.signature(Settings).parameters, "temperature"} - {"seed"}
    options = _mapping(text or {}, where)
    for option in options:
        first = str(option).split(".")[0]
        if first not in fields:
            raise RecipeError(f"{where}: there is no option {option!r}{nearest(first, fields)}")
    return options


def _mapping(text: Any, where: str, keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(text, dict):
        raise RecipeError(f"{where} must hold keys and values, got {str(text)[:40]!r}")
    for key in text:
        if keys is not None and key not in keys:
            raise RecipeError(f"{where}: there is no key {key!r}{nearest(str(key), keys)}")
    return text


def _list(text: Any, where: str) -> list[Any]:
    if not isinstance(text, list | None):
        raise RecipeError(f"{where} must be a list, got {str(text)[:40]!r}")
    return text or []


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
