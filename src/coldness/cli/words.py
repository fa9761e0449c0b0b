"""Command lines that name a recipe: `RECIPE [--FIELD VALUE ...]`, for several commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import ArgumentParser, Namespace

from coldness.runs.folder import FolderError, RunFolder
from coldness.training.recipe import RecipeError, Resolved, find, resolve


def allow_imports_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--allow-imports", action="store_true", help="let it name classes from outside coldness"
    )


def read_recipe(words: list[str], parser: ArgumentParser) -> tuple[Resolved, Namespace, str]:
    """The recipe that a command line names, with its overrides; on --resume, the run's own."""
    if not words or any(w in ("-h", "--help") or w.endswith(".help") for w in words):
        parser.parse_args(words or ["--help"])
    place = next((k for k in range(len(words)) if _is_recipe(words, k)), None)
    if place is None:
        raise RecipeError("name a recipe first, such as mixture2d; see `coldness recipes`")
    recipe, overrides = words[place], words[:place] + words[place + 1 :]
    path, out = find(recipe), _value(words, "--out")
    out = out or f"runs/{Path(recipe).stem}-{_value(words, '--seed') or 0}"
    if "--resume" in words and RunFolder(Path(out)).holds_run():
        folder = RunFolder(Path(out))
        if folder.recipe() != recipe:
            raise FolderError(f"{out} holds a run of {folder.recipe()}, not of {recipe}")
        path = folder.config
    return *resolve(path, overrides, "--allow-imports" in words, parser), recipe


def _is_recipe(words: Sequence[str], k: int) -> bool:
    """A word that is no option and no option's value."""
    flags = {"--resume", "--overwrite", "--allow-imports", "--json"}
    before = words[k - 1] if k else ""
    value = before.startswith("--") and "=" not in before and before not in flags
    return not words[k].startswith("-") and not value


def _value(words: Sequence[str], option: str) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if word == option:
            return following
        if word.startswith(option + "="):
            return word.partition("=")[2]
    return None
