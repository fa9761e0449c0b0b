"""Chains that were run in several parts: batches side by side, or stretches in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.kernels import Chains, StepSchedule


def side_by_side(parts: Sequence[Chains]) -> Chains:
    """Joins batches of chains with the same number of steps."""

    def whole(ends: Sequence[Tensor | None]) -> Tensor | None:
        known = [end for end in ends if end is not None]
        return torch.cat(known) if len(known) == len(parts) else None

    sizes = [len(part.x) for part in parts]
    return Chains(
        torch.cat([part.x for part in parts]),
        _mean(sizes, (part.gradient_norm for part in parts)),
        _mean(sizes, (part.acceptance for part in parts)),
        first=whole([part.first for part in parts]),
        last=whole([part.last for part in parts]),
    )


def in_sequence(stretches: Sequence[Chains], lengths: Sequence[int]) -> Chains:
    """Joins stretches of the same chains, each with its number of steps."""
    if len(stretches) == 1:
        return stretches[0]
    return Chains(
        stretches[-1].x,
        _mean(lengths, (s.gradient_norm for s in stretches)),
        _mean(lengths, (s.acceptance for s in stretches)),
        first=stretches[0].first,
        last=stretches[-1].last,
    )


def _mean(sizes: Sequence[int], values: Iterable[Tensor]) -> Tensor:
    shares = [size / sum(sizes) for size in sizes]
    return torch.stack([s * v for s, v in zip(shares, values, strict=True)]).sum()


def stretch_of(schedule: StepSchedule, first: int, steps: int) -> StepSchedule:
    """The schedule of a stretch, which begins after `first` of all `steps` steps."""
    return schedule if schedule.is_constant else _Stretch(schedule, first, steps)


@dataclass(frozen=True)
class _Stretch(StepSchedule):
    """A stretch of the schedule of a longer chain."""

    whole: StepSchedule
    first: int
    steps: int

    def factors(self, steps: int) -> Tensor:
        return self.whole.factors(self.steps)[self.first : self.first + steps]
