"""The guard: what watches a run.

It sees every logged figure, a block of iterations at a time, so that it never makes the device wait
inside an iteration. A figure that is not finite ends the run, before anything of it is saved: the
last checkpoint stays the last good one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


class Diverged(RuntimeError):
    """A run met a number that is not finite.

    Args:
        iteration: where.
        figures: all that was logged there.
    """

    exit_code = 3

    def __init__(self, iteration: int, figures: Mapping[str, float]) -> None:
        self.iteration = iteration
        self.figures = dict(figures)
        bad = [name for name, value in figures.items() if not math.isfinite(value)]
        good = [f"{name} {value:.4g}" for name, value in figures.items() if name not in bad]
        super().__init__(
            f"diverged at iteration {iteration}: {', '.join(bad)} not finite ({', '.join(good)})"
        )


def check(rows: Sequence[Mapping[str, float]]) -> None:
    """Raises Diverged at the first row with a number that is not finite."""
    for row in rows:
        if not all(math.isfinite(value) for value in row.values()):
            figures = {name: value for name, value in row.items() if name != "iteration"}
            raise Diverged(int(row["iteration"]), figures)
