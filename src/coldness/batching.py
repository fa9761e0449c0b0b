"""Batching: many examples in parts that fit in memory.

    in training      `at_once` of a recipe: parts whose activations are recomputed in the backward
                     pass
    in evaluation    parts whose number of examples depends on the size of an example

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
"""Largest number of values per part: 341 images of 3 x 32 x 32, for which one layer of a wide
network takes about 200 MB."""

_most: ContextVar[int | None] = ContextVar("most", default=None)


def checkpointed(
    function: Callable[..., Tensor], size: int | None, x: Tensor, *more: Tensor | None
) -> Tensor:
    """function(x, *more), (N, ...), with gradients and the activations of one part in memory.

    Args:
        function: of examples, and of tensors with one entry per example.
        size: examples per part; None for all at once.
        x: examples (N, ...).
        more: tensors (N, ...), or None for a missing one.
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


def activation_bytes(function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> int:
    """Bytes per example that the backward pass of a function of examples (N, ...) needs.

    Measured on one and on two examples: what both need, such as weights, is not counted.
    """
    one, two = (_saved_bytes(function, torch.zeros(count, *shape)) for count in (1, 2))
    return max(0, two - one)


def _saved_bytes(function: Callable[[Tensor], Tensor], x: Tensor) -> int:
    found: dict[int, int] = {}

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return saved

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = function(x.requires_grad_(True))  # its graph keeps what is saved apart
    del result
    return sum(found.values())


@contextmanager
def at_most(count: int | None) -> Iterator[None]:
    """Limit parts to `count` points within this context; None for no such limit."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def parts(points: Tensor) -> tuple[Tensor, ...]:
    """Points (N, ...), split into parts."""
    return points.split(at_once(points.shape[1:]))


def at_once(shape: tuple[int, ...]) -> int:
    """Number of points of this shape per part."""
    count = max(1, min(POINTS_AT_ONCE, VALUES_AT_ONCE // max(1, math.prod(shape))))
    most = _most.get()
    return count if most is None else min(count, most)
