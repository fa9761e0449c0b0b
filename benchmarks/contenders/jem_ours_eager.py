"""coldness on JEM with its chain not compiled, as where there is no C++ compiler."""

from __future__ import annotations

from benchmarks.contenders import jem_ours
from benchmarks.toy import Chain, Iteration


def chain() -> Chain:
    return jem_ours.chain(compiled=False)


def iteration() -> Iteration:
    return jem_ours.iteration(compiled=False)
