"""What a class takes: its arguments with their types, and the classes that a type can stand for.

Recipes, command-line options, saved models and `--help` all read the same signatures here. The
packages whose classes go by short names are given as strings and imported when they are needed.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import inspect
import re
import types
import typing
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, Literal

PACKAGES = (
    "coldness.chains",
    "coldness.data",
    "coldness.energies",
    "coldness.faults",
    "coldness.guard.remedies",
    "coldness.kernels",
    "coldness.nets",
    "coldness.objectives",
    "coldness.schedules",
    "torch.optim",
)
"""Whose classes go by their names alone."""

TRUSTED = re.compile(r"(coldness|torch\.optim)(\.\w+)+", re.ASCII)
"""Import paths that need no permission."""

LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a class: its type, and its default where it has one."""

    hint: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def arguments(cls: type, given_first: bool = False) -> dict[str, Argument]:
    """The arguments of a class by name, `**kwargs` left out.

    Args:
        cls: the class.
        given_first: leave out the first argument too: an optimiser gets the parameters later.
    """
    owner: Any = cls if dataclasses.is_dataclass(cls) else inspect.getattr_static(cls, "__init__")
    try:
        hints = typing.get_type_hints(owner)
    except (NameError, TypeError):  # a name that is imported for type checkers alone
        hints = {}
    found = {
        name: Argument(hints.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return dict(list(found.items())[1:]) if given_first else found


def takes_more(cls: type) -> bool:
    """Whether the class takes `**kwargs`, so that unknown names may be right."""
    parameters = inspect.signature(cls).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def options_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def element_of(hint: Any) -> Any:
    """The type of a list's entries; Any where the type is no list."""
    for option in options_of(hint):
        if typing.get_origin(option) in LISTS and typing.get_args(option):
            return typing.get_args(option)[0]
    return Any


def parts_of(hint: Any) -> tuple[type, ...]:
    """Classes that a value of this type may be an instance of: not numbers, strings and lists."""
    found = []
    for option in options_of(hint):
        if is_factory(option):
            option = typing.get_args(option)[1]
        builtin = option in (Any, str, int, float, bool, object, type(None), dict, *LISTS)
        if inspect.isclass(option) and not typing.get_origin(option) and not builtin:
            found.append(option)
    return tuple(found)


def is_factory(hint: Any) -> bool:
    """Whether the type is a function that makes a part, such as an optimiser of parameters."""
    if typing.get_origin(hint) is not collections.abc.Callable:
        return False
    return inspect.isclass(typing.get_args(hint)[1])


def plain_class(hint: Any) -> type | None:
    """The class that arguments alone, without a name, are meant for: a dataclass of its own."""
    whole = [cls for cls in parts_of(hint) if dataclasses.is_dataclass(cls)]
    return next((cls for cls in whole if not inspect.isabstract(cls)), None)


def known_classes(hint: Any) -> dict[str, type]:
    """Classes of coldness and of torch.optim that fit the type, by their short names."""
    bases = parts_of(hint)
    found = {}
    for package in map(import_module, PACKAGES) if bases else ():
        for name, value in vars(package).items():
            ours = inspect.isclass(value) and TRUSTED.fullmatch(f"{value.__module__}.{name}")
            if ours and issubclass(value, bases) and not inspect.isabstract(value):
                found[name] = value
    for cls in bases:
        if TRUSTED.fullmatch(f"{cls.__module__}.{cls.__name__}") and not inspect.isabstract(cls):
            found.setdefault(cls.__name__, cls)
    found.pop("Optimizer", None)  # a base class, though Python does not know it
    return found


def class_path(cls: type) -> str:
    """The import path of a class: that of the outermost package that exports it."""
    module, name = cls.__module__.split("."), cls.__qualname__
    for depth in range(1, len(module)):
        package = ".".join(module[:depth])
        if getattr(import_module(package), name, None) is cls:
            return f"{package}.{name}"
    return f"{cls.__module__}.{name}"


def imported(path: str) -> Any:
    """What an import path names; None where there is nothing."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name, None) if module else None
    except ImportError:
        return None


def type_text(hint: Any) -> str:
    """A type as people write it: `int or None`, `a list of float`, `'auto' or 'never'`."""
    if hint is type(None) or hint is None:
        return "None"
    options = options_of(hint)
    if len(options) > 1:
        return " or ".join(dict.fromkeys(type_text(option) for option in options))
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " or ".join(repr(value) for value in inner)
    if origin is tuple and Ellipsis not in inner:
        return f"a list of {len(inner)} numbers" if inner else "a list"
    if origin in LISTS:
        return f"a list of {type_text(inner[0])}" if inner else "a list"
    if is_factory(hint):
        return type_text(inner[1])
    return getattr(hint, "__name__", str(hint))


def closest(word: str, names: Iterable[str]) -> str | None:
    """The name most like the word, whatever the case of letters; None where none is alike."""
    known = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.casefold(), list(known), n=1, cutoff=0.5)
    return known[near[0]] if near and known[near[0]] != word else None


def nearest(word: str, names: Iterable[str]) -> str:
    """The end of a message that refuses the word: which of the names is probably meant."""
    near = closest(word, names)
    return "" if near is None else f"; did you mean {near!r}?"


def every_field(cls: type, node: Any, at: str = "") -> Iterator[str]:
    """Dotted paths of all fields of a class, through the parts that the node names."""
    for name, argument in arguments(cls).items():
        path = f"{at}.{name}" if at else name
        yield path
        value = node.get(name) if isinstance(node, dict) else None
        if parts_of(element_of(argument.hint)):
            for k, entry in enumerate(value if isinstance(value, list) else []):
                yield from _inside(element_of(argument.hint), entry, f"{path}.{k}")
        else:
            yield from _inside(argument.hint, value, path)


def _inside(hint: Any, value: Any, at: str) -> Iterator[str]:
    name = value.get("class_path") if isinstance(value, dict) else value
    if isinstance(name, str):
        cls = known_classes(hint).get(name.split(".")[-1])
        arguments_of = value.get("init_args") if isinstance(value, dict) else None
    else:
        cls, arguments_of = plain_class(hint), value
    if cls is not None:
        yield from every_field(cls, arguments_of, at)
