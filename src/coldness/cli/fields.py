"""Help on the fields of recipes, from signatures and docstrings: all in short, or those of a part.

--help                         every field of a run
--sources.0.kernel.help        classes that the field takes, and the one that the recipe names
--sources.0.kernel.help HMC    the fields of one class
"""

from __future__ import annotations

import argparse
import typing
from typing import Any, Literal

import yaml

from coldness.configuration import ConfigurationError, describe
from coldness.signatures import (
    Argument,
    arguments,
    descriptions,
    element_of,
    find_class,
    is_factory,
    known_classes,
    nearest,
    parts_of,
    plain_class,
    summary,
    type_text,
)

MORE = """\
Classes take fields of their own: --data.help lists the classes of a field, --data.help Digits the
fields of a class.
"""
TEMPERATURE = """\
`--temperature.drift A --temperature.noise S` sets the energy's coldness and the step size of every
kernel from a paper's pair of coefficients.
"""


def fields_overview(settings: type) -> str:
    """Every field of a run, those of its dataclasses included."""
    lists = _Lists()
    lists.add("recipe fields, as --FIELD VALUE or --FIELD=VALUE", settings, "")
    return f"{lists.text()}\n{MORE}" + (TEMPERATURE if "energy" in arguments(settings) else "")


def field_help(settings: type, path: str, name: str | None, node: dict[str, Any]) -> str:
    """Help on the field at a path.

    Args:
        settings: the class whose fields a recipe has.
        path: dotted, of a part: `data`, `sources.0.kernel`.
        name: of the class whose fields are shown; None for that of the recipe.
        node: the recipe's fields; empty where there is no recipe.
    Raises:
        ConfigurationError: there is no such field or class.
    """
    argument, given = _at(settings, path, node)
    hint = argument.hint
    if parts_of(element_of(hint)):  # a list, shown by its entries
        hint, path = element_of(hint), f"{path}.0"
    known = known_classes(hint)
    if name is not None:
        return _of_class(_class(name, known, hint, path), hint, path)
    lines = []
    if len(known) > 1:
        width = max(map(len, known))
        lines.append(f"--{path} takes {type_text(hint)}, one of")
        lines += [f"  {n:<{width}}  {summary(cls)}" for n, cls in known.items()]
        lines.append(f"--{path}.help CLASS lists the fields of a class.")
    cls = _named(given) or plain_class(hint)
    if cls is not None:
        lines += ["", _of_class(cls, hint, path)] if lines else [_of_class(cls, hint, path)]
    if not lines:
        raise ConfigurationError(f"--{path} has no fields: it is {type_text(hint)}")
    return "\n".join(lines)


def _class(name: str, known: dict[str, type], hint: Any, path: str) -> type:
    cls = known.get(name.rpartition(".")[2])
    if cls is None:
        raise ConfigurationError(
            f"--{path}: there is no {type_text(hint)} {name!r}{nearest(name, known)}"
        )
    return cls


def _of_class(cls: type, hint: Any, path: str) -> str:
    lists = _Lists()
    lists.add(
        f"{cls.__name__}: {summary(cls).rstrip('.')}", cls, path, given_first=is_factory(hint)
    )
    return lists.text()


def _at(settings: type, path: str, node: dict[str, Any]) -> tuple[Argument, Any]:
    """The argument at a path, and what the recipe holds there."""
    argument, done = Argument(settings), ""
    given: Any = node
    for step in path.split("."):
        here = argument.hint
        if step.isdigit():
            argument = Argument(element_of(here))
            there = isinstance(given, list) and int(step) < len(given)
            given = given[int(step)] if there else None
        else:
            known = _fields(here, given, step)
            if step not in known:
                near = nearest(step, known)
                raise ConfigurationError(f"there is no option --{done}{step}{near}")
            argument = known[step]
            holder = given.get("init_args", given) if isinstance(given, dict) else {}
            given = (holder or {}).get(step)
        done += f"{step}."
    return argument, given


def _fields(hint: Any, given: Any, step: str) -> dict[str, Argument]:
    """Fields of the class that the recipe names, or of one that has the field asked for."""
    known = known_classes(hint)
    candidates = [_named(given), plain_class(hint), *known.values()]
    classes = [cls for cls in candidates if cls is not None]
    found = [arguments(cls, is_factory(hint)) for cls in classes]
    return next((fields for fields in found if step in fields), found[0] if found else {})


def _named(given: Any) -> type | None:
    name = given.get("class_path") if isinstance(given, dict) else given
    return find_class(name) if isinstance(name, str) else None


class _Lists:
    """Fields laid out by argparse: name, type, help and default."""

    def __init__(self) -> None:
        self._parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)

    def add(self, title: str, cls: type, path: str, given_first: bool = False) -> None:
        """A group of the fields of a class; dataclasses among them have groups of their own."""
        group = self._parser.add_argument_group(title)
        texts, later = descriptions(cls), []
        known = arguments(cls, given_first)
        for name, argument in known.items():
            here = f"{path}.{name}" if path else name
            own = plain_class(argument.hint)
            if not path and own is not None and argument.hint is own:
                later.append((f"{here}: {texts.get(name, '').rstrip('.')}", own, here))
                continue
            text = texts.get(name, "").rstrip(".")
            text += "" if "(default" in text else _default(argument)
            if known_classes(argument.hint) or known_classes(element_of(argument.hint)):
                text += f"; see --{here}.help"
            group.add_argument(
                f"--{here}", metavar=_metavar(argument.hint), help=text.replace("%", "%%")
            )
        if not known:
            group.description = "no fields"
        for arguments_of_group in later:
            self.add(*arguments_of_group)

    def text(self) -> str:
        return self._parser.format_help().strip() + "\n"


def _metavar(hint: Any) -> str:
    """A type in the columns of --help: `float|Schedule`, `[int, ...]`, `auto|never`."""
    if typing.get_origin(hint) is Literal:
        return "|".join(map(str, typing.get_args(hint)))
    entry = element_of(hint)
    if entry is not Any:
        none = "|None" if Argument(hint).may_be_none else ""
        return f"[{_metavar(entry)}, ...]{none}"
    return type_text(hint).replace(" or ", "|")


def _default(argument: Argument) -> str:
    """The default in brackets, as YAML."""
    if argument.required:
        return " (required)"
    try:
        node = describe(argument.usual)
    except ConfigurationError:
        return ""
    if isinstance(node, dict) and "class_path" in node:
        shown = node["class_path"].rpartition(".")[2]
        given = {k: v for k, v in node["init_args"].items() if not isinstance(v, dict)}
        shown += f"({', '.join(f'{k}={v}' for k, v in given.items())})" if given else ""
    else:
        text = yaml.safe_dump(node, default_flow_style=True, width=10**6)
        shown = text.removesuffix("...\n").strip()
    return f" (default {shown})"
