"""Contenders: one module each and work, with a chain and an iteration.

On the toy `chain(batch, steps)`, on JEM `chain()`, and `iteration()`: each gives a function that
does the work once, or None where the contender has no such work.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from benchmarks.toy import Chain, Iteration

TOY = {
    "coldness": "ours",
    "reference-style": "reference_style",
    "torchebm": "with_torchebm",
    "ebmkit": "with_ebmkit",
    "bare-compiled": "bare_compiled",
}
JEM = {
    "coldness": "jem_ours",
    "coldness-eager": "jem_ours_eager",
    "reference-style": "jem_reference_style",
    "ebmkit": "jem_ebmkit",
    "bare-autocast": "jem_bare_autocast",
    "bare-compiled": "jem_bare_compiled",
}
FLOORS = ("bare-autocast", "bare-compiled")
"""Chains that nobody trains with."""

RIVALS = {"torchebm": "torchebm", "ebm": "ebmkit"}
"""Libraries that may be missing: import name and name."""


class Contender(Protocol):
    def chain(self, batch: int, steps: int) -> Chain: ...

    def iteration(self) -> Iteration | None: ...


class JEMContender(Protocol):
    def chain(self) -> Chain: ...

    def iteration(self) -> Iteration | None: ...


class Missing(Exception):
    """A rival library is not installed."""


def load(name: str) -> Contender:
    """The contender of that name on the toy; Missing where its library is not there."""
    return cast(Contender, _module(TOY[name]))


def load_jem(name: str) -> JEMContender:
    """The contender of that name on JEM; Missing where its library is not there."""
    return cast(JEMContender, _module(JEM[name]))


def _module(name: str) -> Any:
    try:
        return import_module(f"benchmarks.contenders.{name}")
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in RIVALS:
            raise
        install = 'pip install -c constraints.txt ".[bench]"'
        raise Missing(f"{RIVALS[library]} is not installed: {install}") from error
