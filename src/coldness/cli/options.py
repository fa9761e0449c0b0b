"""Command lines: options of a command, and recipes with any of their fields as options.

Every command has a CommandParser. Commands that take a recipe read the rest of the line as well:

    coldness train RECIPE [--FIELD VALUE ...]

RECIPE stands anywhere; fields go by their dotted path, `--sources.0.steps 50`. Values are YAML,
numbers with commas between them are lists, and paths of files are taken as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from coldness.cli.fields import field_help, fields_overview
from coldness.configuration import UnknownField
from coldness.documents import BadDocument, read_yaml
from coldness.runs.folder import FolderError, RunFolder
from coldness.signatures import nearest
from coldness.training.recipe import Recipe, RecipeError, find, packaged

PATHS = ("path", "test_path", "attributes_path", "target")
"""Last names of fields whose values are paths, or names of columns: text as it is given."""


class OptionError(ValueError):
    """What is wrong with a command line, in one line.

    Args:
        message: that line.
        usage: shown below it.
    """

    def __init__(self, message: str, usage: str = "") -> None:
        self.usage = usage
        super().__init__(message)


class CommandParser(argparse.ArgumentParser):
    """The options of one command.

    Args:
        command: its name.
        description: what it does, with examples; shown by --help.
        usage: after `coldness COMMAND`.
        needs: the argument that it cannot do without, and what to say where it is missing.
        takes_recipe: the class of its recipes, whose fields are options too, which --help then
            lists; None for a command without a recipe.
        allow_imports: whether --allow-imports is an option; commands that take a recipe have it.
    """

    def __init__(
        self,
        command: str,
        description: str | None,
        usage: str,
        needs: tuple[str, str] | None = None,
        takes_recipe: type[Recipe] | None = None,
        allow_imports: bool = False,
    ) -> None:
        super().__init__(
            prog=f"coldness {command}",
            usage=f"coldness {command} {usage}",
            description=(description or "").strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.needs, self.takes_recipe = needs, takes_recipe
        if takes_recipe is not None or allow_imports:
            self.add_argument(
                "--allow-imports",
                action="store_true",
                help="allow classes from outside coldness; they run code",
            )

    def error(self, message: str) -> NoReturn:
        raise OptionError(message)

    def format_help(self) -> str:
        if self.takes_recipe is None:
            return super().format_help()
        return f"{super().format_help()}\n{fields_overview(self.takes_recipe.signature)}"

    def read(self, words: Sequence[str], unless: str = "") -> argparse.Namespace:
        """The options of a command line that holds nothing else.

        Args:
            words: the command line, after the command.
            unless: flag that does without the argument that the command needs.
        """
        given, rest = self.parse_known_args(list(words))
        if rest:
            known = [name for action in self._actions for name in action.option_strings]
            name = rest[0].partition("=")[0]
            raise OptionError(f"there is no option {name}{nearest(name, known)}")
        excused = bool(unless) and getattr(given, unless)
        if self.needs is not None and not excused and not getattr(given, self.needs[0]):
            raise self.missing(words)
        return given

    def missing(self, words: Sequence[str]) -> OptionError:
        """What is said where the argument is missing; with the usage where nothing is given."""
        assert self.needs is not None
        return OptionError(self.needs[1], "" if words else self.format_usage().strip())


NAME_A_RECIPE = ("recipe", "name a recipe, such as mixture2d; see `coldness recipes`")
NAME_AN_ENCODER = ("recipe", "name a recipe, such as pretrain/digits-mae; see `coldness recipes`")
NAME_A_RUN = ("run", "name the folder of a run, such as runs/mixture2d-0")


@dataclass
class _Line:
    """What a command line holds beside the options of its command."""

    recipe: str | None = None
    overrides: dict[str, Any] = field(default_factory=dict)
    helps: list[tuple[str, str | None]] = field(default_factory=list)


def read_recipe(parser: CommandParser, words: Sequence[str]) -> tuple[argparse.Namespace, Recipe]:
    """The options of a command, with `overrides` among them, and the recipe that it names.

    Where a `--FIELD.help` is asked for, prints it and exits.
    """
    kind = parser.takes_recipe or Recipe
    given, rest = parser.parse_known_args(list(words))
    line = _line(rest, kind)
    if line.helps:
        for path, name in line.helps:
            node = _values(line, kind, given.allow_imports)
            print(field_help(kind.signature, path, name, node))
        sys.exit(0)
    if line.recipe is None:
        raise parser.missing(words)
    given.overrides = line.overrides
    return given, read_with(kind, line.recipe, line.overrides, given.allow_imports)


def read_with(
    kind: type[Recipe], recipe: str, overrides: Mapping[str, Any], allow_imports: bool
) -> Recipe:
    """Recipe.read, with messages that speak of options."""
    try:
        return kind.read(recipe, overrides, allow_imports=allow_imports)
    except RecipeError as error:
        cause = error.__cause__
        if isinstance(cause, UnknownField) and cause.path in overrides:
            raise OptionError(f"there is no option --{cause.path}{cause.hint('--')}") from error
        raise


def saved_recipe(folder: RunFolder, recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """The recipe that a run was trained with, with the fields that are overridden now."""
    if folder.recipe() != recipe.name:
        raise FolderError(f"{folder.path} holds a run of {folder.recipe()}, not of {recipe.name}")
    saved = read_with(type(recipe), str(folder.config), overrides, recipe.allow_imports)
    return replace(saved, name=recipe.name)


def overrides_of(words: Sequence[str]) -> dict[str, Any]:
    """Values by path, of options `--FIELD VALUE` and `--FIELD=VALUE`."""
    line = _line(words)
    if line.recipe is not None:
        raise OptionError(f"{line.recipe!r} is no option")
    return line.overrides


def _line(words: Sequence[str], kind: type[Recipe] = Recipe) -> _Line:
    line, left = _Line(), list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            if line.recipe is not None:
                raise OptionError(f"one recipe at a time, not {line.recipe!r} and {word!r}")
            line.recipe = word
            continue
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise OptionError(f"there is no option {word}")
        if name.endswith(".help"):
            takes_next = not equals and left and _may_be_class(left[0], kind)
            text = left.pop(0) if takes_next else text
            line.helps.append((name.removesuffix(".help"), text or None))
            continue
        if not equals:
            if not left or left[0].startswith("--"):
                raise OptionError(f"--{name} needs a value")
            text = left.pop(0)
        line.overrides.pop(name, None)  # the last one counts, in its place
        line.overrides[name] = _value(name, text)
    return line


def _may_be_class(word: str, kind: type[Recipe]) -> bool:
    """Whether a word after --FIELD.help names a class: not an option, and no recipe."""
    if word.startswith("-"):
        return False
    try:
        find(word, packaged(kind.command))
    except RecipeError:
        return True
    return False


def _value(name: str, text: str) -> Any:
    try:
        value = read_yaml(text)
    except BadDocument as error:
        raise OptionError(f"--{name}: {text[:60]!r} cannot be read ({error})") from error
    last = name.rpartition(".")[2]
    if last in PATHS:
        return None if value is None else text
    if last == "ood" and isinstance(value, str):
        return [value]
    if isinstance(value, str) and "," in value:
        entries = [read_yaml(entry) if entry.strip() else None for entry in value.split(",")]
        if all(isinstance(entry, (int, float)) for entry in entries):
            return entries
    return value


def _values(line: _Line, kind: type[Recipe], allow_imports: bool) -> dict[str, Any]:
    """Fields of the named recipe, for help on parts that it has; none where it cannot be read."""
    if line.recipe is None:
        return {}
    try:
        return kind.read(line.recipe, line.overrides, allow_imports=allow_imports).values
    except RecipeError:
        return {}
