"""Fairness: all contenders must run the same chain, or their times mean nothing.

Means and mean squares of where chains end are compared with coldness's, with a bound of five
standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from benchmarks.toy import Chain

CALLS = 50
STANDARD_ERRORS = 5


def check(
    chains: Mapping[str, Chain],
    calls: int = CALLS,
    values: Callable[[Tensor], Tensor] = lambda x: x,
) -> None:
    """Raises where a contender's chains end elsewhere than coldness's.

    Args:
        chains: of the contenders, by name.
        calls: of each.
        values: what is compared of the ends x (B, ...), (B, D); x itself where it is a vector.
    """
    moments = {name: _moments(chain, calls, values) for name, chain in chains.items()}
    mean, error = moments["coldness"]
    for name, (other, other_error) in moments.items():
        far = (other - mean).abs() / (error.square() + other_error.square()).sqrt().clamp(min=1e-12)
        if name != "coldness" and not bool((far < STANDARD_ERRORS).all()):
            raise RuntimeError(
                f"{name} runs another chain than coldness: means and mean squares are "
                f"{other.tolist()}, not {mean.tolist()}"
            )


def _moments(chain: Chain, calls: int, values: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and mean square of the values, and their standard errors."""
    x = torch.cat([values(chain()) for _ in range(calls)]).double()
    both = torch.cat([x, x.square()], 1)
    return both.mean(0), both.std(0) / len(both) ** 0.5
