"""YAML from elsewhere, read with bounds: plain data of limited size and depth, and nothing else.

A file of a few hundred bytes can stand for billions of values by aliases that name each other, or
for endless ones by an alias inside of what it names. So values are counted while the text is read,
with those that an alias repeats, and how deep they lie. Dates, sets and bytes are no plain data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MOST_CHARACTERS = 2**18
MOST_VALUES = 20_000
MOST_DEPTH = 60
"""Bounds of a recipe. The largest packaged one has 5,000 characters and 120 values, 9 deep."""

MOST_OF_CARD = 2**24
"""Most characters, and most values, of the card of a model, which may name columns of tables."""

SHOWN = 400
"""Most characters of a message. Longer ones keep their beginning and their end."""

PLAIN = (str, int, float, bool, type(None))


class BadDocument(ValueError):
    """Text that is no YAML, or that exceeds the bounds; the message is one line."""


def read_yaml(text: str, characters: int = MOST_CHARACTERS, values: int = MOST_VALUES) -> Any:
    """The plain data in the text.

    Args:
        text: of the document.
        characters: the most that are read.
        values: the most values, those that aliases repeat included.
    Raises:
        BadDocument: the text cannot be read.
    """
    if len(text) > characters:
        raise BadDocument(f"it holds {len(text):,} characters; at most {characters:,} are read")
    try:
        found = _Bounded(text, values).get_single_data()
    except BadDocument:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadDocument(one_line(error)) from error
    _check_plain(found)
    return found


class _Bounded(yaml.SafeLoader):
    """Counts the values of a document, and their depth, before any of them is made."""

    def __init__(self, text: str, most: int) -> None:
        super().__init__(text)
        self.most, self.values, self.depth = most, 0, 0
        self.sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        before, known = self.values, self.check_event(yaml.AliasEvent)
        self.values += 1
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise BadDocument(f"it is nested more than {MOST_DEPTH} levels deep")
        node = super().compose_node(parent, index)
        if known and id(node) not in self.sizes:
            raise BadDocument("an alias stands inside of what it names")
        self.values += self.sizes[id(node)] if known else 0
        if self.values > self.most:
            raise BadDocument(f"it holds more than {self.most:,} values, with those of aliases")
        self.depth -= 1
        self.sizes.setdefault(id(node), self.values - before)
        return node


def _check_plain(value: Any) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_plain(key)
            _check_plain(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_plain(inner)
    elif not isinstance(value, PLAIN):
        kind = type(value).__name__
        raise BadDocument(f"it holds a {kind}, which is no plain value; put text in quotes")


def is_file(path: Path) -> bool:
    """Whether there is a file, for names too that no file could have."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def one_line(error: BaseException) -> str:
    """The message of an error, on one line of limited length."""
    return shortened(" ".join(str(error).split()) or type(error).__name__)


def counted(count: int, what: str) -> str:
    """1 row, 2 rows, 1,000 rows."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def shortened(text: str, most: int = SHOWN) -> str:
    """The text; where it is too long, its beginning and its end with dots between."""
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 5]} ... {text[-end:]}"
