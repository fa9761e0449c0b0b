"""Signatures of classes: arguments with their types, and the classes that a type allows.

Recipes, command-line options, saved models and `--help` all read the same signatures here. The
packages whose classes have short names are given as strings and imported when they are needed.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any, Literal

import docstring_parser

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
"""Packages whose classes can be given by their short names."""

TRUSTED = re.compile(r"(coldness|torch\.optim)(\.[^\W_]\w*)+", re.ASCII)
"""Import paths that need no permission; those of `__main__` and of private names do."""

NETS, MODULE = "coldness.nets", "torch.nn.modules.module.Module"

LISTS = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a class: its type, and its default where it has one."""

    hint: Any
    default: Any = inspect.Parameter.empty
    factory: Callable[[], Any] | None = None

    @property
    def may_be_none(self) -> bool:
        return self.hint is Any or self.default is None or type(None) in options_of(self.hint)

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def usual(self) -> Any:
        """The default, from its factory if the class has one."""
        return self.default if self.factory is None else self.factory()


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
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    factories = {
        field.name: field.default_factory
        for field in fields
        if field.default_factory is not dataclasses.MISSING
    }
    found = {
        name: Argument(hints.get(name, Any), parameter.default, factories.get(name))
        for name, parameter in inspect.signature(cls).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    return dict(list(found.items())[1:]) if given_first else found


def descriptions(cls: type) -> dict[str, str]:
    """Descriptions of the arguments, from the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        text = docstring_parser.parse(owner.__doc__ or "")
        found |= {p.arg_name: " ".join((p.description or "").split()) for p in text.params}
    return found


def summary(cls: type) -> str:
    """The first sentence of a class's docstring."""
    return docstring_parser.parse(cls.__doc__ or "").short_description or ""


def takes_more(cls: type) -> bool:
    """Whether the class takes `**kwargs`, so that unknown names may be valid."""
    parameters = inspect.signature(cls).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def options_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def element_of(hint: Any) -> Any:
    """The type of a list's entries; Any if the type is not a list."""
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
    """The class of arguments that are given without a class name: a single dataclass."""
    whole = [cls for cls in parts_of(hint) if dataclasses.is_dataclass(cls)]
    return next((cls for cls in whole if not inspect.isabstract(cls)), None)


def known_classes(hint: Any) -> dict[str, type]:
    """Classes of coldness and of torch.optim that fit the type, by their short names.

    They are those of PACKAGES, and those beside the base class. A plain module of PyTorch stands
    for a network: those of coldness.nets.
    """
    bases = parts_of(hint)
    any_module = any(f"{base.__module__}.{base.__name__}" == MODULE for base in bases)
    found: dict[str, type] = {}
    beside = [base.__module__ for base in bases if TRUSTED.fullmatch(base.__module__)]
    for package in (NETS,) if any_module else (*PACKAGES, *beside) if bases else ():
        for name, value in vars(import_module(package)).items():
            if inspect.isclass(value) and issubclass(value, bases) and _is_ours(value):
                found[name] = value
    found |= {base.__name__: base for base in bases if _is_ours(base)}
    found.pop("Optimizer", None)  # a base class, though Python does not know it
    return found


def _is_ours(cls: type) -> bool:
    ours = TRUSTED.fullmatch(f"{cls.__module__}.{cls.__name__}") is not None
    return ours and not inspect.isabstract(cls)


def class_path(cls: type) -> str:
    """The import path of a class: that of the outermost package that exports it."""
    module, name = cls.__module__.split("."), cls.__qualname__
    for depth in range(1, len(module)):
        package = ".".join(module[:depth])
        if getattr(import_module(package), name, None) is cls:
            return f"{package}.{name}"
    return f"{cls.__module__}.{name}"


def find_class(name: str, allow_imports: bool = False) -> type | None:
    """The class of a short name or an import path; None if there is none.

    Args:
        name: of the class.
        allow_imports: whether paths outside coldness and torch.optim are imported too.
    """
    if "." in name:
        found = imported(name, allow_imports)
    else:
        places = (f"{package}.{name}" for package in PACKAGES)
        found = next(filter(None, map(imported, places)), None)
    return found if inspect.isclass(found) else None


def imported(path: str, allow_imports: bool = False) -> Any:
    """The object at an import path; None if there is none, or if it must not be imported."""
    module, _, name = path.rpartition(".")
    if not module or not (allow_imports or TRUSTED.fullmatch(path)):
        return None
    try:
        return getattr(import_module(module), name, None)
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


def closest(word: str, names: Iterable[str], likeness: float = 0.5) -> str | None:
    """The name most similar to the word, ignoring case; None if none is similar."""
    known = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(word.casefold(), list(known), n=1, cutoff=likeness)
    return known[near[0]] if near and known[near[0]] != word else None


def nearest(word: str, names: Iterable[str]) -> str:
    """The end of an error message about an unknown word: the name that is probably meant."""
    near = closest(word, names)
    return "" if near is None else f"; did you mean {near!r}?"


def every_field(cls: type, node: Any, at: str = "", given_first: bool = False) -> Iterator[str]:
    """Dotted paths of all fields of a class, through the parts that the node names."""
    for name, argument in arguments(cls, given_first).items():
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
        left_out = value is None and len(options_of(hint)) > 1
        cls, arguments_of = None if left_out else plain_class(hint), value
    if cls is not None:
        yield from every_field(cls, arguments_of, at, is_factory(hint))
