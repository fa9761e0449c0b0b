"""Parts as plain data, as in YAML files: checked against signatures and turned into objects.

A part is written as its class and its arguments,

    {class_path: Langevin, init_args: {step_size: 0.001}}

or as its class alone where no argument is needed: `Langevin`. Where only one class is possible, as
in `sources`, the arguments stand alone. `construct` makes the part; `describe` is the inverse.

Nothing from outside coldness and torch.optim is imported unless that is allowed: every string is
a bare name, a number, or the full name of a class from there. Names of data files may be anything;
they are recognised by their keys.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from pathlib import PurePath
from typing import Any, TypeVar

from jsonargparse import ArgumentParser, Namespace

from coldness.documents import one_line, shortened
from coldness.signatures import (
    TRUSTED,
    Argument,
    arguments,
    class_path,
    closest,
    element_of,
    every_field,
    imported,
    is_factory,
    known_classes,
    nearest,
    options_of,
    parts_of,
    plain_class,
    takes_more,
    type_text,
)

Part = TypeVar("Part")

BARE = re.compile(r"[\w-]*", re.ASCII)
FILES = ("path", "test_path", "attributes_path", "ood")
"""Keys of files that are read as data; their values may be any string."""
NAMES = ("column_names", "category_names", "target")
"""Keys of names in tables, which may be any string too."""
SURE = 0.8
"""Least similarity of the names of fields in different parts for one to be suggested."""


class ConfigurationError(ValueError):
    """A configuration is wrong; the message is one line of limited length."""

    def __init__(self, message: str) -> None:
        super().__init__(shortened(message))


class UnknownField(ConfigurationError):
    """A field that does not exist.

    Args:
        path: of the field, with dots.
        near: path of the field that is probably meant; None if no field is similar.
    """

    def __init__(self, path: str, near: str | None) -> None:
        self.path, self.near = path, near
        super().__init__(f"there is no field {path!r}" + self.hint())

    def hint(self, prefix: str = "") -> str:
        """The end of a message; `prefix` goes before the path."""
        return "" if self.near is None else f"; did you mean '{prefix}{self.near}'?"


def construct(
    signature: type[Part],
    node: Any,
    *,
    allow_imports: bool = False,
    live: Mapping[str, Any] | None = None,
) -> Part:
    """The object that a node describes.

    Args:
        signature: its class, or a base class of it.
        node: plain data; arguments alone are those of `signature` itself.
        allow_imports: let it name classes from outside coldness and torch.optim.
        live: arguments that are objects already; they replace those of the node.
    Raises:
        ConfigurationError: the node is wrong; the message is one line. Errors of the constructors
            themselves pass through.
    """
    cls, given = _top(signature, node, allow_imports)
    parser, values = _parsed(cls, given, set(live or {}))
    return cls(**vars(parser.instantiate(values)), **(live or {}))


def complete(signature: type, node: Any, *, allow_imports: bool = False) -> str:
    """The arguments of a class as YAML, with all defaults filled in; nothing is constructed."""
    parser, values = _parsed(*_top(signature, node, allow_imports))
    return parser.dump(values, skip_unset=False)


def describe(part: Any) -> Any:
    """The node that describes a part: class and arguments, read from its attributes.

    Raises:
        ConfigurationError: a part does not keep an argument under the argument's own name.
    """
    if part is None or isinstance(part, (bool, str)):
        return part
    if isinstance(part, (int, float)):
        return int(part) if isinstance(part, int) else float(part)
    if isinstance(part, PurePath):
        return str(part)
    if hasattr(part, "tolist"):  # tensors and arrays
        return part.tolist()
    cls = type(part)
    if isinstance(part, (list, tuple)) or cls.__name__ == "ModuleList":
        return [describe(entry) for entry in part]
    if isinstance(part, dict):
        return {str(name): describe(value) for name, value in part.items()}
    if callable(part) and (inspect.isroutine(part) or inspect.isclass(part)):
        raise ConfigurationError(f"{part!r} is a function or a class, which cannot be described")
    values = {name: _kept(part, name) for name in arguments(cls)}
    if takes_more(cls):
        raise ConfigurationError(f"{cls.__name__} takes **kwargs, which it does not keep by name")
    return {"class_path": class_path(cls), "init_args": values}


def _kept(part: Any, name: str) -> Any:
    cls = type(part).__name__
    try:
        value = getattr(part, name)
    except AttributeError:
        raise ConfigurationError(f"{cls} does not keep its argument {name!r}") from None
    if inspect.ismethod(value):
        raise ConfigurationError(f"{cls} has a method in place of its argument {name!r}")
    return describe(value)


def check_imports(node: Any, key: str = "") -> None:
    """Raises an error for every string that could name or hide code from elsewhere.

    A string is a bare name, a number, several of these with commas between them, or a class of ours
    by its full name. Anything else could be an import path, a file to read on, or a mapping in
    quotes that is parsed again.
    """
    for name, value in _strings(node, key):
        harmless = all(BARE.fullmatch(e) or _is_number(e) for e in re.split(", *", value))
        if name not in (*FILES, *NAMES) and not harmless and not TRUSTED.fullmatch(value):
            raise ConfigurationError(
                f"{value!r} names, or may lead to, code from outside coldness: "
                "add --allow-imports if you trust it"
            )


def _strings(node: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, str):
        yield key, node
    elif isinstance(node, dict):
        for name, value in node.items():
            if not isinstance(name, str) or name == "config" or not BARE.fullmatch(str(name)):
                raise UnknownField(str(name), None)
            yield from _strings(value, str(name))
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value, key)


def _top(signature: type, node: Any, allow_imports: bool) -> tuple[type, dict[str, Any]]:
    """The class, and its checked arguments."""
    if not allow_imports:
        check_imports(node)
    check = _Check(signature, node, allow_imports)
    if isinstance(node, str) or (isinstance(node, dict) and "class_path" in node):
        cls, given = check.named(signature, node, "")
    elif inspect.isabstract(signature):
        raise ConfigurationError(check.needs_class(signature, ""))
    else:
        cls, given = signature, check.given(signature, node, "")
    assert cls is not None
    return cls, given


class _Check:
    """Checks a node against signatures: names of fields and classes, and types of values.

    The result has full names of classes; everything else is unchanged.
    """

    def __init__(self, signature: type, node: Any, allow_imports: bool) -> None:
        self.signature, self.node, self.allow_imports = signature, node, allow_imports

    def given(
        self,
        cls: type,
        node: Any,
        at: str,
        *,
        usual: Iterable[str] = (),
        given_first: bool = False,
    ) -> dict[str, Any]:
        """The checked arguments of a class; those in `usual` have a value already."""
        if not isinstance(node, dict):
            raise ConfigurationError(f"{at or cls.__name__} must hold fields, got {_short(node)}")
        known, result = arguments(cls, given_first), {}
        for name, value in node.items():
            path = _join(at, name)
            if not isinstance(name, str):
                raise UnknownField(path, None)
            if name in known:
                result[name] = self.value(known[name], value, path)
            elif takes_more(cls):
                result[name] = value
            else:
                raise UnknownField(path, self._near(path, known))
        missing = [n for n in known if known[n].required and n not in {*node, *usual}]
        if missing:
            raise ConfigurationError(
                f"{at + ': ' if at else ''}{cls.__name__} needs {', '.join(missing)}"
            )
        return result

    def value(self, argument: Argument, value: Any, at: str) -> Any:
        """The checked value of one argument."""
        hint = argument.hint
        element = Argument(element_of(hint))
        if isinstance(value, list) and parts_of(element.hint):
            return [self.value(element, entry, f"{at}.{k}") for k, entry in enumerate(value)]
        number = isinstance(value, str) and _is_number(value)
        if not parts_of(hint) or not isinstance(value, (str, dict)) or number:
            return _converted(argument, value, at)
        plain = plain_class(hint)
        if isinstance(value, dict) and "class_path" not in value and plain is not None:
            return self._tried(hint, plain, self.given(plain, value, at), at)
        # jsonargparse completes a part from the default in its place, maybe of another class.
        usual = argument.usual if isinstance(argument.usual, parts_of(hint)) else None
        if isinstance(value, dict) and "class_path" not in value:
            if usual is None:
                raise ConfigurationError(self.needs_class(hint, at))
            value = {"class_path": class_path(type(usual)), "init_args": value}
        cls, given = self.named(hint, value, at, () if usual is None else arguments(type(usual)))
        if cls is None:
            return value
        if cls is plain and len(options_of(hint)) == 1:
            return given
        return {"class_path": class_path(cls), "init_args": given}

    def _tried(self, hint: Any, cls: type, given: dict[str, Any], at: str) -> dict[str, Any]:
        """Raises errors of a part where jsonargparse tries a union and would hide them."""
        if len(options_of(hint)) > 1:
            try:
                construct(cls, given, allow_imports=self.allow_imports)
            except (ValueError, TypeError) as error:
                raise ConfigurationError(f"{at}: {one_line(error)}") from error
        return given

    def named(
        self, hint: Any, value: Any, at: str, usual: Iterable[str] = ()
    ) -> tuple[type | None, dict[str, Any]]:
        """Class and arguments of a part; no class if the choice is left to jsonargparse."""
        node = {"class_path": value} if isinstance(value, str) else value
        extra = set(node) - {"class_path", "init_args", "dict_kwargs"}
        if extra:
            name = sorted(map(str, extra))[0]
            raise ConfigurationError(
                f"{_join(at, name)}: arguments of {node['class_path']} go under init_args"
            )
        name, known = node["class_path"], known_classes(hint)
        cls = known.get(name) if isinstance(name, str) else None
        if cls is None and isinstance(name, str) and "." in name:
            cls = imported(name, self.allow_imports)
            if not inspect.isclass(cls) or not issubclass(cls, parts_of(hint)):
                if self.allow_imports and cls is not None:  # a function that makes the part
                    return None, {}
                cls = None
        if cls is None:
            near = nearest(str(name).split(".")[-1], known)
            if len(options_of(hint)) > len(parts_of(hint)):  # it may also be a number, for example
                raise ConfigurationError(
                    f"{at} must be {type_text(hint)}, got {_short(name)}{near}"
                )
            raise ConfigurationError(
                f"{at + ': ' if at else ''}there is no {type_text(hint)} {_short(name)}{near}"
            )
        factory = any(is_factory(option) for option in options_of(hint))
        return cls, self.given(
            cls, node.get("init_args") or {}, at, usual=usual, given_first=factory
        )

    def needs_class(self, hint: Any, at: str) -> str:
        names = ", ".join(known_classes(hint))
        return f"{at or 'it'} must name a class, one of {names}"

    def _near(self, path: str, siblings: Iterable[str]) -> str | None:
        """The field that is probably meant by an unknown one."""
        at, _, name = path.rpartition(".")
        everywhere = sorted(every_field(self.signature, self.node), key=lambda p: p.count("."))
        by_name: dict[str, str] = {}
        for known in everywhere:
            by_name.setdefault(known.rpartition(".")[2], known)
        if name in by_name:
            return by_name[name]
        near = closest(name, siblings)
        if near is not None:
            return _join(at, near)
        near = closest(name, by_name, SURE)
        return None if near is None else by_name[near]


def _parsed(
    cls: type, given: dict[str, Any], skip: Set[str] = frozenset()
) -> tuple[ArgumentParser, Namespace]:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(cls, None, sub_configs=False, skip=set(skip))
    try:
        return parser, parser.parse_object({k: v for k, v in given.items() if k not in skip})
    except (argparse.ArgumentError, ValueError, TypeError) as error:
        raise ConfigurationError(one_line(error)) from error


def _converted(argument: Argument, value: Any, at: str) -> Any:
    """The value as plain data of its type: 1 becomes 1.0 where a float is wanted."""
    if value is None and argument.may_be_none:
        return None
    try:
        if value is None:
            raise TypeError("None")
        return _plain(_parser_of(argument.hint).parse_object({"value": value}).value, value)
    except (argparse.ArgumentError, ValueError, TypeError) as error:
        wanted = type_text(argument.hint)
        raise ConfigurationError(f"{at} must be {wanted}, got {_short(value)}") from error


@lru_cache(maxsize=256)
def _parser_of(hint: Any) -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=hint)
    return parser


def _plain(parsed: Any, given: Any) -> Any:
    if isinstance(parsed, (list, tuple)) and isinstance(given, list):
        return [_plain(a, b) for a, b in zip(parsed, given, strict=True)]
    return parsed if isinstance(parsed, (bool, int, float, str)) else given


def _join(at: str, name: Any) -> str:
    return f"{at}.{name}" if at else str(name)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
