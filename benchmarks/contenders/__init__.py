"""Contenders: one module each, with `chain(batch, steps)` and `iteration()`.

Both give a function that does the work once, or None where the contender has no such work.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from benchmarks.toy import Chain, Iteration

MODULES = {
    "coldness": "ours",
    "reference-style": "reference_style",
    "torchebm": "with_torchebm",
    "ebmkit": "with_ebmkit",
    "bare-compiled": "bare_compiled",
}
RIVALS = {"torchebm": "torchebm", "ebm": "ebmkit"}
"""Libraries that may be missing: import name and name."""


class Contender(Protocol):
    def chain(self, batch: int, steps: int) -> Chain: ...

    def iteration(self) -> Iteration | None: ...


class Missing(Exception):
    """A rival library is not installed."""


def load(name: str) -> Contender:
    """The contender of that name; Missing where its library is not there."""
    try:
        return cast(Contender, import_module(f"benchmarks.contenders.{MODULES[name]}"))
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in RIVALS:
            raise
        install = 'pip install -c constraints.txt ".[bench]"'
        raise Missing(f"{RIVALS[library]} is not installed: {install}") from error
