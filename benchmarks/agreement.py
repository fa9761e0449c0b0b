"""Fairness: all contenders must run the same chain, or their times mean nothing.

Means and mean squares of where chains end are compared with coldness's, with a bound of five
standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from benchmarks.toy import Chain

CALLS = 50
STANDARD_ERRORS = 5


def check(chains: Mapping[str, Chain]) -> None:
    """Raises where a contender's chains end elsewhere than coldness's."""
    moments = {name: _moments(chain) for name, chain in chains.items()}
    mean, error = moments["coldness"]
    for name, (other, other_error) in moments.items():
        far = (other - mean).abs() / (error.square() + other_error.square()).sqrt().clamp(min=1e-12)
        if name != "coldness" and not bool((far < STANDARD_ERRORS).all()):
            raise RuntimeError(
                f"{name} runs another chain than coldness: mean and mean square of x are "
                f"{other.tolist()}, not {mean.tolist()}"
            )


def _moments(chain: Chain) -> tuple[Tensor, Tensor]:
    """Mean and mean square of x, and their standard errors."""
    x = torch.cat([chain() for _ in range(CALLS)]).double()
    values = torch.cat([x, x.square()], 1)
    return values.mean(0), values.std(0) / len(values) ** 0.5
