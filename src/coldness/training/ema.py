"""Exponential moving average of the weights: e <- decay * e + (1 - decay) * w.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), reference code,
    for an average that begins late and is updated before the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Average:
    """How weights are averaged.

    Args:
        decay: fraction of the average that is kept per update, in (0, 1).
        begin: iteration at which averaging begins; before, the average is the weights themselves.
        first: update the average before the weights of an iteration, so that it lags by one update.
    """

    decay: float
    begin: int = 0
    first: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.decay < 1:
            raise ValueError(f"ema must be between 0 and 1, got {self.decay}")
        if self.begin < 0:
            raise ValueError(f"begin of ema must be >= 0, got {self.begin}")


class MovingAverage:
    """Average of a module's parameters, which can replace them temporarily.

    Args:
        module: whose parameters are averaged.
        how: settings of the average.
    """

    def __init__(self, module: nn.Module, how: Average) -> None:
        self.how = how
        self._parameters: list[Tensor] = list(module.parameters())
        self.average = [p.detach().clone() for p in self._parameters]

    @torch.no_grad()
    def update(self, t: int) -> None:
        """Called once per iteration t, before or after the weights are updated."""
        share = 1.0 if t < self.how.begin else 1 - self.how.decay
        torch._foreach_lerp_(self.average, self._parameters, share)

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
