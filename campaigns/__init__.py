"""Fault campaigns: what a run loses when it is killed, damaged, or given something wrong.

`python -m campaigns` from the root of the repository; docs/reliability.md says what is tested. A
campaign is a module with

    COUNT, QUICK: int                                       faults, in full and in CI
    def run(count: int, seed: int, folder: Path) -> Tally

and a line in CAMPAIGNS. It writes into `folder` only, which is empty at first.
"""

from __future__ import annotations

from campaigns.tally import Tally

CAMPAIGNS: tuple[str, ...] = (
    "kills", "signals", "disk", "folders", "flips", "recipes", "data_files"
)  # fmt: skip
"""Modules of this package, in the order in which they run."""

__all__ = ["CAMPAIGNS", "Tally"]
