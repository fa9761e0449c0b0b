"""Recipes: YAML files that name all parts of a run, read against the signature of Settings.

Parts are named by class, with arguments under `init_args`; classes of coldness and optimisers of
PyTorch go by their short names. Any field can be overridden: `--contrast.beta 0.9`, and inside
lists by number: `--sources.0.steps 50`. A recipe may give the temperature as a paper's pair:

    temperature: {drift: 1.0, noise: 0.05}

which sets the energy's coldness and the step of every kernel that has none of its own. A recipe
that differs from another in a few fields names it, and sets them:

    base: cifar10-jem-1
    set: {sources.0.steps: 5}

Reading a recipe never imports code from outside coldness and PyTorch's optimisers unless allowed.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser, Namespace

import coldness.chains
import coldness.data
import coldness.energies
import coldness.faults
import coldness.guard.remedies
import coldness.kernels
import coldness.nets
import coldness.objectives
import coldness.schedules
from coldness.energies import DriftNoise
from coldness.guard.policy import Guard
from coldness.kernels import Kernel
from coldness.training.settings import Evaluation, Settings

log = logging.getLogger("coldness")

TRUSTED = re.compile(r"(coldness|torch\.optim)(\.\w+)+", re.ASCII)
BARE = re.compile(r"[\w-]*", re.ASCII)
FILES = ("path", "test_path", "ood")
"""Keys of files that are read as data; their values may be anything."""

PACKAGES = (
    coldness.chains,
    coldness.data,
    coldness.energies,
    coldness.faults,
    coldness.kernels,
    coldness.nets,
    coldness.objectives,
    coldness.schedules,
    coldness.guard.remedies,
)


class RecipeError(ValueError):
    """What is wrong with a recipe or an override, in one line."""


@dataclass
class Resolved:
    """A recipe with every default filled in: the parts, and the YAML that gives them again."""

    settings: Settings
    text: str


def packaged() -> dict[str, Path]:
    """Names and files of the recipes that come with coldness."""
    folder = Path(str(files("coldness") / "recipes"))
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("failures/*.yaml"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}


def find(recipe: str) -> Path:
    """The file of a packaged name or of a path."""
    return find_file(recipe, packaged(), "recipe", "coldness recipes")


def find_file(name: str, known: dict[str, Path], kind: str, command: str) -> Path:
    """The file of a known name or of a path; `command` shows the names that there are."""
    path = known.get(name, Path(name))
    if not path.is_file():
        raise RecipeError(f"no {kind} {name!r}{nearest(name, known)}; see `{command}`")
    return path


def settings_parser(**kwargs: Any) -> ArgumentParser:
    """A parser with one option for every field of Settings."""
    # No abbreviations: --conf must not pass for --config where the latter is refused.
    parser = ArgumentParser(exit_on_error=False, allow_abbrev=False, **kwargs)
    parser.add_argument("--config", action="config", help=argparse.SUPPRESS)
    parser.add_class_arguments(Settings, None, sub_configs=False)
    return parser


def resolve(
    path: Path,
    overrides: Sequence[str] = (),
    allow_imports: bool = False,
    parser: ArgumentParser | None = None,
) -> tuple[Resolved, Namespace]:
    """Reads the recipe at `path`, with command-line overrides, into parts.

    Args:
        path: of the YAML file.
        overrides: command-line words; those that are not fields are left to `parser`.
        allow_imports: let the recipe name classes of other packages.
        parser: one made by `settings_parser`, perhaps with options of a command added.
    """
    parser = parser or settings_parser()
    recipe = _read(path)
    rest = _apply_paths(recipe, overrides)
    _expand_temperature(recipe)
    if not allow_imports:
        _check_imports(recipe)
        _check_imports(_given_values(overrides))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            given = parser.parse_args(["--config", yaml.safe_dump(recipe), *rest])
            text = parser.dump(_settings_only(given), skip_none=False)
            # Networks draw their weights from the global generator, which is left as it was.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(given.seed)
                parts = parser.instantiate(given)
                settings = Settings(**_settings_only(parts).__dict__)
    except (argparse.ArgumentError, ValueError, TypeError, RuntimeError) as error:
        raise RecipeError(_one_line(error)) from error
    for warning in caught:
        if "discarding" in str(warning.message):
            log.info("%s", " ".join(str(warning.message).split()))
    return Resolved(settings, text), given


def _settings_only(given: Namespace) -> Namespace:
    names = inspect.signature(Settings).parameters
    return Namespace(**{name: value for name, value in vars(given).items() if name in names})


def _read(path: Path) -> dict[str, Any]:
    try:
        recipe = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError(f"{path} is not a YAML file ({_one_line(error)})") from error
    if not isinstance(recipe, dict):
        raise RecipeError(f"{path} is not a recipe: it must hold keys such as data and energy")
    return _based(recipe, path) if "base" in recipe else recipe


def _based(recipe: dict[str, Any], path: Path) -> dict[str, Any]:
    """The recipe that `base` names, packaged or a file beside this one, with what is set."""
    base, changes = recipe["base"], recipe.get("set") or {}
    if set(recipe) - {"base", "set"} or not isinstance(base, str) or not isinstance(changes, dict):
        raise RecipeError(f"{path} must hold `base: RECIPE` and `set: {{FIELD: VALUE}}` alone")
    beside = path.parent / base
    found = beside if beside.is_file() and beside.resolve() != path.resolve() else find(base)
    if found.resolve() == path.resolve():
        raise RecipeError(f"{path} is its own base")
    whole = _read(found)
    for name, value in changes.items():
        _assign(whole, str(name).split("."), value, f"set {name}")
    return whole


def _apply_paths(recipe: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Applies overrides of or through a list, and of the temperature; gives the others back."""
    rest, words = [], list(overrides)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        steps = name.split(".")
        of_list = steps == ["sources"] or (len(steps) > 1 and steps[1].isdigit())
        if not word.startswith("--") or not (of_list or steps[0] == "temperature"):
            rest.append(word)
            continue
        if not equals:
            if not words:
                raise RecipeError(f"{word} needs a value")
            value = words.pop(0)
        _assign(recipe, steps, _plain(value, word), word)
    return rest


def _plain(value: str, word: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise RecipeError(f"{word}: {value!r} cannot be read") from error


def _given_values(overrides: Sequence[str]) -> dict[str, Any]:
    """Everything that is given, but for files to read or write, as the parser will parse it."""
    values: dict[str, Any] = {}
    for word, following in zip(overrides, [*overrides[1:], ""], strict=False):
        name, equals, value = word.removeprefix("--").partition("=")
        if name == "config":
            raise RecipeError("there is no option --config: name the recipe itself")
        flag = not equals and following.startswith("--")
        file = name == "out" or ("." in name and name.split(".")[-1] in FILES)
        if word.startswith("--") and not flag and not file:
            values[f"{len(values)}"] = _plain(value if equals else following, word)
    return values


def _assign(part: Any, steps: list[str], value: Any, word: str) -> None:
    """part[step][step]... = value, looking through class_path and init_args."""
    for k, step in enumerate(steps):
        last = k + 1 == len(steps)
        if isinstance(part, list):
            if not step.isdigit() or int(step) >= len(part):
                raise RecipeError(f"{word}: there is no entry {step}, the list has {len(part)}")
            key: Any = int(step)
        else:
            if "class_path" in part and step not in ("class_path", "init_args"):
                part = part.setdefault("init_args", {})
            key = step
            part.setdefault(key, {})
        if last:
            part[key] = value
            return
        if isinstance(part[key], str):  # a class by its bare name
            part[key] = {"class_path": part[key], "init_args": {}}
        if not isinstance(part[key], (dict, list)):
            part[key] = {}
        part = part[key]


def _expand_temperature(recipe: dict[str, Any]) -> None:
    """drift and noise become the coldness of the energy and the step of kernels that have none."""
    if "temperature" not in recipe:
        return
    pair = recipe.pop("temperature")
    try:
        temperature = DriftNoise(**{name: float(value) for name, value in pair.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise RecipeError(
            f"temperature must be {{drift: a, noise: s}} with numbers > 0 ({_one_line(error)})"
        ) from error
    energy = _with_arguments(recipe, "energy")
    if "coldness" in energy:
        raise RecipeError("give either temperature or energy.coldness, not both")
    energy["coldness"] = float(f"{temperature.coldness:.12g}")
    for source in [*(recipe.get("sources") or []), *filter(None, [recipe.get("sampler")])]:
        arguments = _with_arguments(source, "kernel")
        kernel = getattr(coldness.kernels, source["kernel"]["class_path"].split(".")[-1], Kernel)
        step_size = kernel.step_for_noise(temperature.noise)
        arguments.setdefault("step_size", float(f"{step_size:.12g}"))


def _with_arguments(holder: dict[str, Any], key: str) -> dict[str, Any]:
    """The init_args of a part, made where it was named by its class alone."""
    part = holder.get(key)
    if isinstance(part, str):
        part = holder[key] = {"class_path": part}
    if not isinstance(part, dict):
        raise RecipeError(f"{key} must name a class")
    arguments: dict[str, Any] = part.setdefault("init_args", {})
    return arguments


def _check_imports(part: Any, key: str = "") -> None:
    """Refuses every string that could name or hide code from elsewhere.

    A string in a recipe is a bare name, a number, or a class of ours by its full name. Anything
    else could be an import path, a file to read on, or a mapping in quotes that is parsed again.
    """
    for name, value in _strings(part, key):
        if name not in FILES and not BARE.fullmatch(value) and not TRUSTED.fullmatch(value):
            try:
                float(value)
            except ValueError:
                raise RecipeError(
                    f"{value!r} is or may lead to code from outside coldness: "
                    "add --allow-imports if you trust it"
                ) from None


def _strings(part: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(part, str):
        yield key, part
    elif isinstance(part, dict):
        for name, value in part.items():
            if name == "config" or not BARE.fullmatch(str(name)):
                raise RecipeError(f"there is no key {name!r}")
            yield from _strings(value, str(name))
    elif isinstance(part, list):
        for value in part:
            yield from _strings(value, key)


def _one_line(error: BaseException) -> str:
    """The parts of a nested message that say what and where, with the nearest known name."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip(" -")]
    where = re.findall(r'Parser key "([\w.]+)"', str(error))
    keep = [
        line
        for line in lines
        if not re.match(r"(Parser key|Problem with|Subtypes|Given|Errors:|Does not valid)", line)
    ]
    text = "; ".join(dict.fromkeys(keep)) or (lines[0] if lines else type(error).__name__)
    given = re.search(r"Given value: (.*)", str(error))
    if given and given.group(1) not in text:
        text += f"; given {given.group(1)}"
    if where:
        text = f"{'.'.join(dict.fromkeys(where))}: {text}"
    bad = re.search(
        r"(?:unrecognized arguments: -*|Option '|Key '|key \"|No action for key \"?)([\w.]+)", text
    ) or re.search(r"import path string: (\w+)", text)
    if bad:
        text += nearest(bad.group(1).split(".")[-1], _names())
    return re.sub(r"<class '([\w.]+)'>", lambda m: m.group(1).split(".")[-1], text)


def nearest(word: str, names: Any) -> str:
    near = difflib.get_close_matches(word, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near and near[0] != word else ""


def _names() -> set[str]:
    """Every key and class name that a recipe may hold."""
    parts = [getattr(package, name) for package in PACKAGES for name in dir(package)]
    ours = [p for p in parts if inspect.isclass(p) and p.__module__.startswith("coldness")]
    classes = [*ours, Settings, Evaluation, Guard]
    names = {cls.__name__ for cls in classes}
    for cls in classes:
        names |= set(inspect.signature(cls).parameters)
    return names
