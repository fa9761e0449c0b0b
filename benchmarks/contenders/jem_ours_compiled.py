"""coldness on JEM with its chain compiled, which takes half a minute once, and memory."""

from __future__ import annotations

from benchmarks.contenders import jem_ours
from benchmarks.toy import Chain, Iteration


def chain() -> Chain:
    return jem_ours.chain(compiled=True)


def iteration() -> Iteration:
    return jem_ours.iteration(compiled=True)
