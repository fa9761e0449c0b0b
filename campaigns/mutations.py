"""Mutated recipes: packaged ones and ones made of the real signatures, with things put wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import yaml

from coldness.signatures import (
    arguments,
    class_path,
    element_of,
    is_factory,
    known_classes,
    parts_of,
)
from coldness.training.recipe import packaged
from coldness.training.settings import Settings

WILD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**63, -(2**70), 10**300, 0.0, -0.5, 1e-320, 1e308,
    float("inf"),
    float("-inf"), float("nan"), "", " ", "5", "1e999", "null", "yes", "...", "Langevin", "Adam",
    "os.system", "coldness.__main__.main", "coldness.training.settings.Settings", "torch.optim.SGD",
    "../../etc/passwd", "/dev/zero", "a\nb", "\u202e\u0000", "żółć", "🦊" * 40, "x" * 5000, "a.b.c",
    "{class_path: MLP}", "[1, 2", "&a *a", "!!python/name:os.system", [], {}, [[]], [None],
    [1, "a"],
    {"class_path": None}, {"class_path": 5}, {"class_path": "Langevin", "init_args": [1]},
    {"init_args": {}}, {"class_path": "MLP", "dict_kwargs": {"a": 1}}, {"": 1}, {5: 6}, {"a.b": 1},
)  # fmt: skip
"""Values for any field."""

TAME: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    3,
    0.5,
    -0.5,
    1e-3,
    "",
    "a",
    "Langevin",
    [],
    [1],
    {},
)
"""Values with which a run that can be built is small."""

SMALL = ("mixture2d", "mixture2d-convergent", "rings2d", "rings10d", "rings10d-hybrid", "two-modes")
"""Recipes whose runs are built at once."""

OVERSIZED = {
    "a deep list": "[" * 3000 + "]" * 3000,
    "a deep mapping": "{a: " * 3000 + "1" + "}" * 3000,
    "an alias in itself": "&a [*a]",
    "aliases of aliases": "[&a [1, 2], "
    + ", ".join(f"&{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi"))
    + "]",
}  # fmt: skip
"""Text that no list of Python could be written as."""


def mutated(random: Random, tame: bool) -> str:
    """The text of one recipe.

    Args:
        random: where all choices come from.
        tame: of a small recipe, with small numbers.
    """
    known = packaged()
    name = random.choice(SMALL if tame else sorted(known))
    text = known[name].read_text()
    node = _made(random, tame) if random.random() < 0.3 else yaml.safe_load(text)
    if not isinstance(node, dict):
        return str(node)
    for _ in range(random.randint(1, 4)):
        random.choice(CHANGES)(node, random, TAME if tame else WILD)
    text = yaml.safe_dump(node, allow_unicode=random.random() < 0.5, sort_keys=False)
    return text if tame or random.random() < 0.7 else _misspelt(text, random)


def _made(random: Random, tame: bool) -> dict[str, Any]:
    """A recipe of random parts, by the signature of Settings."""
    fields = arguments(Settings)
    chosen = [n for n, a in fields.items() if a.required or random.random() < 0.3]
    made = {name: _value(fields[name].hint, random, 3, tame) for name in chosen}
    made["data"] = {"class_path": "Mixture2D"} if tame else made["data"]
    return made


def _value(hint: Any, random: Random, depth: int, tame: bool) -> Any:
    """A value for an argument of this type; often a part with arguments of its own."""
    values = TAME if tame else WILD
    if parts_of(element_of(hint)):
        count = random.randint(0, 2)
        return [_value(element_of(hint), random, depth - 1, tame) for _ in range(count)]
    known = list(known_classes(hint).values())
    if not known or depth == 0 or random.random() < 0.1:
        return copy.deepcopy(random.choice(values))
    cls = random.choice(known)
    fields = arguments(cls, is_factory(hint))
    chosen = [n for n, a in fields.items() if a.required or random.random() < 0.3]
    given = {name: _value(fields[name].hint, random, depth - 1, tame) for name in chosen}
    return {"class_path": random.choice([cls.__name__, class_path(cls)]), "init_args": given}


def _places(node: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every mapping and list of a node, with every key."""
    found = [] if found is None else found
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        found.append((node, key))
        if isinstance(node[key], (dict, list)):
            _places(node[key], found)
    return found


Change = Callable[[dict[str, Any], Random, tuple[Any, ...]], None]


def _replace(node: dict[str, Any], random: Random, values: tuple[Any, ...]) -> None:
    holder, key = random.choice(_places(node) or [(node, "data")])
    holder[key] = copy.deepcopy(random.choice(values))


def _remove(node: dict[str, Any], random: Random, values: tuple[Any, ...]) -> None:
    holder, key = random.choice(_places(node) or [({0: 0}, 0)])
    del holder[key]


def _add(node: dict[str, Any], random: Random, values: tuple[Any, ...]) -> None:
    holder = random.choice([node, *(h for h, _ in _places(node) if isinstance(h, dict))])
    name = random.choice([*arguments(Settings), "base", "set", "temperature", "config", "x", "ż"])
    holder[name] = copy.deepcopy(random.choice(values))


def _swap(node: dict[str, Any], random: Random, values: tuple[Any, ...]) -> None:
    places = _places(node)
    if len(places) > 1:
        (a, k), (b, m) = random.sample(places, 2)
        a[k], b[m] = copy.deepcopy(b[m]), copy.deepcopy(a[k])


def _wrap(node: dict[str, Any], random: Random, values: tuple[Any, ...]) -> None:
    holder, key = random.choice(_places(node) or [(node, "data")])
    value = holder.get(key) if isinstance(holder, dict) else holder[key]
    for _ in range(random.choice([1, 2, 30])):
        value = [value] if random.random() < 0.5 else {"init_args": value}
    holder[key] = value


CHANGES: tuple[Change, ...] = (_replace, _replace, _remove, _add, _swap, _wrap)


def _misspelt(text: str, random: Random) -> str:
    """The text with something that YAML alone can say, or cannot."""
    at = random.randrange(len(text) + 1)
    lines = text.splitlines()
    kind = random.randrange(6)
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + random.choice("\t\"'{}[]&*!|>%@`:#\x07\x85\ufeff,-?") + text[at:]
    if kind == 2:
        random.shuffle(lines)
        return "\n".join(lines)
    if kind == 3:
        return f"{text}\nextra: {random.choice(list(OVERSIZED.values()))}\n"
    if kind == 4:
        return f"{text}\niterations: {random.choice(['9' * 6000, '1:2:3', '0x1', '2001-99-99'])}\n"
    base = random.choice(["recipe.yaml", "mixture2d", ".", "x" * 400])
    return "\n".join([f"base: {base}", "set:", *(f"  {line}" for line in lines)])
