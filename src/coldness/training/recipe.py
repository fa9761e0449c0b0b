"""Recipes: YAML files that name all parts of a run, read against the signature of Settings.

Parts are named by class, with arguments under `init_args`; classes of coldness and optimisers of
PyTorch go by their short names. Any field can be overridden by its path, entries of lists by their
position:

    Recipe.read("mixture2d", {"contrast.beta": 0.9, "sources.0.steps": 50})

A recipe may give the temperature as a paper's pair,

    temperature: {drift: 1.0, noise: 0.05}

which sets the energy's coldness and the step of every kernel that has none of its own. A recipe
that differs from another in a few fields names it, and sets them:

    base: cifar10-jem-1
    set: {sources.0.steps: 5}

Overrides follow one rule, in Python and on the command line. A value replaces what is there. A
mapping is merged into it, and a class named in place of another keeps the arguments that both have,
so that {"optimiser": "SGD"} keeps lr. Entries of lists are replaced as a whole, because steps of
different kernels are not comparable. So is everything that `set` names in a file.

Reading a recipe constructs nothing, and never imports code from outside coldness and PyTorch's
optimisers unless allowed.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
import yaml

from coldness.configuration import ConfigurationError, complete, construct, describe
from coldness.documents import MOST_DEPTH, BadDocument, is_file, one_line, read_yaml
from coldness.energies import DriftNoise
from coldness.kernels import Kernel
from coldness.seeds import check_seed
from coldness.signatures import arguments, find_class, known_classes, nearest, takes_more
from coldness.training.settings import Settings
from coldness.training.table_rules import Decisions

log = logging.getLogger("coldness")


WRONG = (
    ValueError, TypeError, RuntimeError, ArithmeticError, LookupError, AttributeError, MemoryError,
)  # fmt: skip
"""Errors of a part that is given what it cannot be made of."""


class RecipeError(ConfigurationError):
    """A recipe or an override is wrong; the message is one line."""


@dataclass(frozen=True)
class Recipe:
    """A frozen configuration: prints, compares, and round-trips through YAML.

    Args:
        text: YAML of every field of Settings, in its order, with all defaults filled in.
        name: what it was read from: a packaged name or a path.
        allow_imports: whether it may name classes from outside coldness and torch.optim.
        source: YAML as it was read, before temperature and defaults were filled in, and with the
            overrides; further overrides are added to it.
    """

    text: str
    name: str = field(default="", compare=False)
    allow_imports: bool = field(default=False, compare=False)
    source: str = field(default="", compare=False, repr=False)

    signature: ClassVar[type[Any]] = Settings
    """What the fields are those of."""

    command: ClassVar[str] = "train"
    """The command that takes it, and whose packaged recipes it may be."""

    @classmethod
    def read(
        cls,
        recipe: str | Path | Recipe,
        overrides: Mapping[str, Any] | None = None,
        *,
        allow_imports: bool = False,
    ) -> Self:
        """The recipe of a packaged name, a path or another recipe, with fields overridden.

        Args:
            recipe: a packaged name, a path or a Recipe.
            overrides: values by dotted path, such as `sources.0.steps`; see the top of this file.
            allow_imports: let it name classes from outside coldness and torch.optim.
        Raises:
            RecipeError: the recipe is wrong; the message is one line.
        """
        changes: dict[str, Any] = {}
        if isinstance(recipe, Recipe):
            node, changes = yaml.safe_load(recipe.source) or (recipe.values, {})
            name, allow_imports = recipe.name, allow_imports or recipe.allow_imports
        else:
            name, known = str(recipe), packaged(cls.command)
            other = next((c for c in FOLDERS if c != cls.command and name in packaged(c)), None)
            if other is not None:
                raise RecipeError(
                    f"{name} is a recipe of `coldness {other}`, not of `coldness {cls.command}`"
                )
            node = _read(find(name, known), known)
        try:
            for path, value in (overrides or {}).items():
                changes.pop(path, None)  # the last override of a path counts
                changes[path] = describe(value)
            source = yaml.safe_dump([node, changes], sort_keys=False)
            # Overrides of kernels in lists are applied before the temperature, which then sets the
            # step of the new kernel; all others, such as coldness, after.
            early = [path for path in changes if path.split(".")[0] in ("sources", "temperature")]
            for path in early:
                override(node, path, changes[path])
            if cls.signature is Settings:
                _expand_temperature(node)
            for path in [path for path in changes if path not in early]:
                override(node, path, changes[path])
            text = complete(cls.signature, node, allow_imports=allow_imports)
        except ConfigurationError as error:
            raise RecipeError(str(error)) from error
        return cls(text, name, allow_imports, source)

    def replace(self, overrides: Mapping[str, Any]) -> Self:
        """The same recipe with fields overridden."""
        return self.read(self, overrides)

    def decided(self, found: Decisions) -> Self:
        """The recipe with what rules decided for its data (training/adapting.py).

        Overrides are applied after the decisions, so that they count. The result names no rules.
        """
        node, given = yaml.safe_load(self.source) or (self.values, {})
        mine = {path: v for path, v in given.items() if path.partition(".")[0] != "adapt"}
        changes = {path: describe(value) for path, value in found.changes.items()}
        whole = {**changes, "adapt": None, **mine}
        return self.read(replace(self, source=yaml.safe_dump([node, whole], sort_keys=False)))

    def seeded(self, seed: int) -> Self:
        """The same recipe with another seed; faster than `replace`, which reads all fields."""
        node, given = yaml.safe_load(self.source) or (self.values, {})
        text = yaml.safe_dump({**self.values, "seed": seed}, sort_keys=False)
        changes = {**{path: v for path, v in given.items() if path != "seed"}, "seed": seed}
        source = yaml.safe_dump([node, changes], sort_keys=False)
        return replace(self, text=text, source=source)

    def overruled(self, found: Decisions) -> list[str]:
        """A sentence for every decision that an override replaces."""
        given: dict[str, Any] = (yaml.safe_load(self.source) or (None, {}))[1]
        return [f"given instead: {path} {given[path]}" for path in found.changes if path in given]

    def parts(self, **live: Any) -> Settings:
        """The live parts; networks draw their weights from the recipe's seed.

        The global random generator is left as it was.

        Args:
            live: fields of Settings that are objects already, such as data.
        Raises:
            RecipeError: a part cannot be constructed; the message is one line.
        """
        try:
            check_seed(self.seed)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                return construct(
                    self.signature, self._values, allow_imports=self.allow_imports, live=live
                )
        except WRONG as error:
            raise RecipeError(one_line(error)) from error

    @cached_property
    def _values(self) -> dict[str, Any]:
        return yaml.safe_load(self.text)

    @property
    def values(self) -> dict[str, Any]:
        """All fields as plain data."""
        return copy.deepcopy(self._values)

    @property
    def seed(self) -> int:
        return self._values["seed"]

    @property
    def iterations(self) -> int:
        return self._values["iterations"]

    def __getitem__(self, path: str) -> Any:
        """The value of a field by its path, such as `sources.0.kernel.step_size`."""
        value: Any = self._values
        for step in path.split("."):
            if isinstance(value, dict) and "class_path" in value and step not in value:
                value = value.get("init_args", {})
            try:
                value = value[int(step) if isinstance(value, list) else step]
            except (KeyError, IndexError, TypeError, ValueError):
                raise KeyError(f"the recipe has no field {path!r}") from None
        return copy.deepcopy(value)

    def __str__(self) -> str:
        return self.text


FOLDERS = {"train": ("", "failures"), "pretrain": ("pretrain",)}
"""Folders of packaged recipes, by the command that takes them."""


def packaged(command: str = "train") -> dict[str, Path]:
    """Names and files of the recipes that come with coldness, for one command."""
    folder = Path(str(files("coldness") / "recipes"))
    paths = [path for part in FOLDERS[command] for path in sorted((folder / part).glob("*.yaml"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}


def find(
    name: str,
    known: Mapping[str, Path] | None = None,
    kind: str = "recipe",
    command: str = "coldness recipes",
) -> Path:
    """The file of a known name or of a path.

    Args:
        name: a known name or a path.
        known: files by name; None for the packaged recipes of `coldness train`.
        kind: what the file is, for the message.
        command: lists the known names, for the message.
    Raises:
        RecipeError: there is no such file.
    """
    known = packaged() if known is None else known
    path = known.get(name, Path(name))
    if not is_file(path):
        raise RecipeError(f"no {kind} {name!r}{nearest(name, known)}; see `{command}`")
    return path


def _read(path: Path, known: Mapping[str, Path], within: Sequence[Path] = ()) -> dict[str, Any]:
    """The fields in a file; `within` are the files that it is a base of."""
    try:
        recipe = read_yaml(path.read_text())
    except (OSError, UnicodeDecodeError, BadDocument) as error:
        raise RecipeError(f"{path} is not a YAML file: {one_line(error)}") from error
    if not isinstance(recipe, dict):
        raise RecipeError(f"{path} is not a recipe: it must hold fields such as data and energy")
    return _based(recipe, path, known, within) if "base" in recipe else recipe


def _based(
    recipe: dict[str, Any], path: Path, known: Mapping[str, Path], within: Sequence[Path]
) -> dict[str, Any]:
    """The recipe that `base` names, packaged or a file beside this one, with `set` applied."""
    base, changes = recipe["base"], recipe.get("set") or {}
    if set(recipe) - {"base", "set"} or not isinstance(base, str) or not isinstance(changes, dict):
        raise RecipeError(f"{path} must hold only `base: RECIPE` and `set: {{FIELD: VALUE}}`")
    beside = path.parent / base
    found = beside if is_file(beside) and beside.resolve() != path.resolve() else find(base, known)
    seen = [*within, path.resolve()]
    if found.resolve() in seen:
        raise RecipeError(f"{path} is its own base")
    whole = _read(found, known, seen)
    for name, value in changes.items():
        override(whole, str(name), value, whole=True)
    return whole


def override(node: dict[str, Any], path: str, value: Any, whole: bool = False) -> None:
    """Sets a field of a recipe by its path, looking through class_path and init_args.

    Args:
        node: the recipe, which is changed.
        path: of the field, with dots.
        value: plain data.
        whole: replace the value as a whole instead of merging.
    """
    holder: Any = node
    *steps, last = path.removesuffix(".class_path").split(".")
    if len(steps) >= MOST_DEPTH:
        raise RecipeError(f"{path}: there is no field {len(steps) + 1} levels deep")
    for step in steps:
        holder = _inside(holder, step, path)
    holder, key = _place(holder, last, path)
    whole = whole or any(step.isdigit() for step in [*steps, last])
    old = None if whole else holder.get(key)
    holder[key] = _merged(old, copy.deepcopy(value))


def _inside(holder: Any, step: str, path: str) -> Any:
    """The mapping or list at a step of a path, created if it is missing."""
    holder, key = _place(holder, step, path)
    part = holder[key] if isinstance(holder, list) else holder.get(key)
    if isinstance(part, str):  # a class by its bare name
        part = {"class_path": part, "init_args": {}}
    holder[key] = part if isinstance(part, (dict, list)) else {}
    return holder[key]


def _place(holder: Any, step: str, path: str) -> tuple[Any, Any]:
    """The mapping or list that a step leads into, and its key there."""
    if isinstance(holder, list):
        if not step.isdigit() or int(step) >= len(holder):
            raise RecipeError(f"{path}: there is no entry {step}, the list has {len(holder)}")
        return holder, int(step)
    if "class_path" in holder and step not in ("class_path", "init_args"):
        if holder.get("init_args") is None:
            holder["init_args"] = {}
        if not isinstance(holder["init_args"], dict):
            raise RecipeError(f"{path}: init_args must hold fields, got {holder['init_args']!r}")
        return holder["init_args"], step
    return holder, step


def _merged(old: Any, new: Any) -> Any:
    """The value that results where `new` overrides `old`."""
    if isinstance(old, str) and isinstance(new, dict) and "class_path" not in new:
        old = {"class_path": old}
    if not isinstance(old, dict) or not isinstance(new, (dict, str)):
        return new
    if "class_path" not in old:
        if isinstance(new, str) or "class_path" in new:
            return new
        return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}
    kept = old.get("init_args") or {}
    if isinstance(new, str):
        new = {"class_path": new}
    if "class_path" not in new:
        return {**old, "init_args": _merged(kept, new)}
    kept = _accepted(new["class_path"], kept)
    return {**new, "init_args": _merged(kept, new.get("init_args") or {})}


def _accepted(name: Any, given: Any) -> Any:
    """The arguments that the class of this name also has."""
    cls = find_class(name) if isinstance(name, str) else None
    if not isinstance(given, dict) or cls is None or takes_more(cls):
        return given
    known = arguments(cls)
    dropped = [argument for argument in given if argument not in known]
    if dropped:
        log.debug("%s has no %s: dropped", cls.__name__, ", ".join(dropped))
    return {argument: value for argument, value in given.items() if argument in known}


def _expand_temperature(recipe: dict[str, Any]) -> None:
    """Turns drift and noise into the energy's coldness and the step of kernels without one."""
    if "temperature" not in recipe:
        return
    pair = recipe.pop("temperature")
    try:
        temperature = DriftNoise(**{name: float(value) for name, value in pair.items()})
        cold, step = temperature.coldness, temperature.step_size
        if not (0 < cold < math.inf and 0 < step < math.inf):
            raise ValueError(f"they give a coldness of {cold:g} and a step of {step:g}")
    except ArithmeticError as error:
        raise RecipeError(
            f"temperature: drift and noise give no finite coldness and step, got {pair}"
        ) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise RecipeError(
            f"temperature must be {{drift: a, noise: s}} with numbers > 0 ({one_line(error)})"
        ) from error
    energy = _with_arguments(recipe, "energy", "energy")
    if "coldness" in energy:
        raise RecipeError("give either temperature or energy.coldness, not both")
    energy["coldness"] = float(f"{cold:.12g}")
    sources = recipe.get("sources")
    places = [
        (f"sources.{k}", s) for k, s in enumerate(sources if isinstance(sources, list) else [])
    ]
    for at, source in [*places, ("sampler", recipe.get("sampler"))]:
        if isinstance(source, dict) and "kernel" in source:
            given = _with_arguments(source, "kernel", f"{at}.kernel")
            name = str(source["kernel"].get("class_path")).split(".")[-1]
            kind: type[Kernel] = known_classes(Kernel).get(name, Kernel)
            step_size = kind.step_for_noise(temperature.noise)
            given.setdefault("step_size", float(f"{step_size:.12g}"))


def _with_arguments(holder: dict[str, Any], key: str, at: str) -> dict[str, Any]:
    """The init_args of a part, created if it is given by its class name alone."""
    part = holder.get(key)
    if isinstance(part, str):
        part = holder[key] = {"class_path": part}
    if not isinstance(part, dict) or "class_path" not in part:
        raise RecipeError(f"{at} must name a class")
    if part.get("init_args") is None:
        part["init_args"] = {}
    given: dict[str, Any] = part["init_args"]
    if not isinstance(given, dict):
        raise RecipeError(f"{at}.init_args must hold fields, got {given!r}")
    return given
