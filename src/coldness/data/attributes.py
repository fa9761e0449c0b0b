"""Attributes of examples: yes-or-no properties, any number of which an example may have.

    values[n, a]    whether example n has attribute a
    groups          attributes that are values of one property, of which every example has exactly
                    one: {"colour": ("red", "green", "blue")}

Not to be confused with classes, of which every example has exactly one and which have one label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class Attributes:
    """Attributes of N examples.

    Args:
        values: bool (N, A).
        names: A different names.
        groups: properties, with the names of their values; an attribute in no group is independent
            of all others.
    Raises:
        ValueError: if these do not fit together; the message is one line.
    """

    values: Tensor
    names: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names(self.names)
        if self.values.dim() != 2 or self.values.shape[1] != len(self.names):
            raise ValueError(
                f"{len(self.names)} attributes need values of shape (N, {len(self.names)}), "
                f"got {tuple(self.values.shape)}"
            )
        grouped = [name for names in self.groups.values() for name in names]
        for name in grouped:
            if name not in self.names or grouped.count(name) > 1:
                raise ValueError(f"attribute {name} of a group must be one of {self.names}, once")
        for group, names in self.groups.items():
            bad = (self.values[:, self.columns(names)].sum(1) != 1).nonzero()
            if len(bad):
                raise ValueError(f"example {int(bad[0])} must have exactly one {group}")

    def columns(self, names: Sequence[str]) -> list[int]:
        """Returns the columns of these attributes."""
        return [self.names.index(name) for name in names]

    def at(self, index: Tensor) -> Attributes:
        """Returns the attributes of some of the examples."""
        return Attributes(self.values[index], self.names, self.groups)

    def ordered(self, names: tuple[str, ...]) -> Attributes:
        """Returns the same attributes in the order of `names`, which must be the same names."""
        return Attributes(self.values[:, self.columns(names)], names, self.groups)


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError, in one line, unless all are names and different."""
    for k, name in enumerate(names):
        if not name:
            raise ValueError(f"attribute {k} has no name")
        if names.index(name) != k:
            raise ValueError(f"attribute {name} is named twice")
