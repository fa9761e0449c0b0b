"""Why a row is unusual: the columns in which U rises most steeply, and on which side they are.

    slope_j = dU / dy_j,     y in whitened coordinates, in nats per standard deviation

Positive where a value is too high, negative where it is too low. It says what to change to make a
row likelier; it is no proof of a cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

REASONS = 3
"""Columns that are named for a row."""

STANDS_OUT = 0.25
"""A column is named only if its gradient is at least this fraction of the largest."""

Array = NDArray[np.float64]


def explained(models: Any, points: Tensor) -> Array:
    """The gradient of U in whitened coordinates for every column of a table, (N, C).

    Args:
        models: of the same table, over which it is averaged.
        points: rows in the units of the models.
    """
    total = torch.zeros(points.shape, dtype=torch.float64)
    for model in models:
        own = next(model.energy.parameters())
        y = model.energy.coordinates.whiten(points.to(own)).detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(model.energy.white(y).sum(), y)
        total += slope.double().cpu() / len(models)
    return models[0].domain.units.per_column(total).numpy()


def named_columns(slopes: Array) -> list[list[int]]:
    """For every row (N, C), the columns with the largest gradients, the largest first."""
    found = []
    for row in slopes:
        order = [int(j) for j in np.argsort(-np.abs(row))[:REASONS]]
        least = STANDS_OUT * abs(row[order[0]])
        found.append([j for j in order if row[j] and abs(row[j]) >= least])
    return found


def reasons(slopes: Array, names: Sequence[str], categories: Sequence[Sequence[str]]) -> list[str]:
    """For every row (N, C), the columns with the largest gradients, and on which side they are.

    Args:
        slopes: the gradients.
        names: of the columns.
        categories: of each column, which are on no side; empty for numbers.
    """
    return [
        ", ".join(f"{names[j]} {_side(row[j], bool(categories[j]))}" for j in told)
        for row, told in zip(slopes, named_columns(slopes), strict=True)
    ]


def _side(slope: float, category: bool) -> str:
    return "unusual" if category else "too high" if slope > 0 else "too low"
