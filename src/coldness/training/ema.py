"""Exponential moving average of the weights: e <- decay * e + (1 - decay) * w."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """Average of a module's parameters, which can replace them temporarily.

    Args:
        module: whose parameters are averaged.
        decay: fraction of the average that is kept per update, in (0, 1).
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self._parameters: list[Tensor] = list(module.parameters())
        self.average = [p.detach().clone() for p in self._parameters]

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self.average, self._parameters, 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The module holds the average inside the block, and its own weights after it."""
        own = [p.detach().clone() for p in self._parameters]
        self._copy(self.average)
        try:
            yield
        finally:
            self._copy(own)

    def load(self, average: list[Tensor]) -> None:
        for mine, saved in zip(self.average, average, strict=True):
            mine.copy_(saved)

    @torch.no_grad()
    def _copy(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(value)
