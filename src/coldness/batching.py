"""Many examples in parts, as many at a time as there is memory for.

    in training      `at_once` of a recipe: parts whose activations are computed again in backward
    in evaluation    parts by the size of an example, and no more than that

References:
    Training Deep Nets with Sublinear Memory Cost (Chen et al., 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

POINTS_AT_ONCE = 20_000

VALUES_AT_ONCE = 2**20
"""Of points in many dimensions: 341 images of 3 x 32 x 32, of which a layer of a wide network is
some 200 MB."""

_most: ContextVar[int | None] = ContextVar("most", default=None)


def checkpointed(
    function: Callable[..., Tensor], size: int | None, x: Tensor, *more: Tensor | None
) -> Tensor:
    """function(x, *more), (N, ...), with gradients: `size` examples in memory; null for all.

    Args:
        function: of examples and what belongs to each of them.
        size: of a part.
        x: examples (N, ...).
        more: tensors (N, ...), or null where there is none.
    """
    if size is None or size >= len(x):
        return function(x, *more)
    columns = [[None] * -(-len(x) // size) if m is None else m.split(size) for m in more]
    return torch.cat(
        [
            checkpoint(function, *part, use_reentrant=False)
            for part in zip(x.split(size), *columns, strict=True)
        ]
    )


@contextmanager
def at_most(count: int | None) -> Iterator[None]:
    """No more than `count` points in a part meanwhile; null for no such limit."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def parts(points: Tensor) -> tuple[Tensor, ...]:
    """Points (N, ...) in parts."""
    return points.split(at_once(points.shape[1:]))


def at_once(shape: tuple[int, ...]) -> int:
    """Points of that shape in a part."""
    count = max(1, min(POINTS_AT_ONCE, VALUES_AT_ONCE // max(1, math.prod(shape))))
    most = _most.get()
    return count if most is None else min(count, most)
