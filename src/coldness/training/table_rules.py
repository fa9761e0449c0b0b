"""What the recipe `table` decides by the size of a table: rows n and columns d, and nothing else.

Work is counted and never timed, so that results repeat. An iteration evaluates the energy at
`batch_size` chains for some steps; what an evaluation costs is dominated by the kernels of the
reference, at most KERNELS of them, so iterations are the budget.

The rules were chosen by the mean over eight tables (docs/tables-measured.md), not for each. AUROC
hardly depends on them: from 20 to 40 groups, bandwidths from 0.5 to 0.85 and ridges from 1e-4 to
1e-3 the mean stays within 0.002.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from coldness.documents import counted

Budget = Literal["fast", "default", "best"]
Purpose = Literal["density", "detection"]

ITERATIONS: dict[Budget, int] = {"fast": 100, "default": 400, "best": 800}
MEMBERS: dict[Budget, int] = {"fast": 1, "default": 1, "best": 4}

KERNELS = 4000
"""Most rows that become kernels of the reference; their number is the cost of an evaluation."""

ROWS_PER_GROUP, MOST_GROUPS = 30, 40
"""Mean number of rows in a group of the reference where it is not chosen, and most groups."""

BANDWIDTH, RIDGE, SHRINKAGE = 0.7, 1e-3, 3.0
"""Of the reference where they are not chosen by held-out rows."""

TRIED = (1, 2, 4, 8, 16, 32)
"""Numbers of groups to choose from where the density itself is wanted."""

BACKGROUND = 0.005
"""Weight of the broad component where the density itself is wanted: rows far from all others would
cost thousands of nats. It lowers AUROC by 0.002, so detection has none."""

FEWEST_TO_STOP = 195
"""Rows below which there is no validation part to stop by; training is then very short."""

WITHOUT_STOPPING = 20
"""Iterations of such a training."""

WIDTHS = (64, 128)
WIDE_FROM = 1000
"""Widths of the network's layers below and from this many rows."""


@dataclass(frozen=True)
class Decisions:
    """What is decided for a table.

    Args:
        changes: fields of the recipe by dotted path, as `Recipe.read` takes them.
        said: one sentence per decision, for people.
        members: number of trainings with different seeds whose densities are averaged.
    """

    changes: dict[str, Any]
    said: tuple[str, ...]
    members: int = 1


def decide(
    rows: int, columns: int, budget: Budget = "default", purpose: Purpose = "density"
) -> Decisions:
    """Decides for a table with this many rows in its training part and this many columns.

    Args:
        rows: of the training part.
        columns: of the table as the model sees it.
        budget: amount of work: `fast`, `default` (about a minute on one core) or `best`.
        purpose: what the model is for: log-densities, or the ranking of unusual rows.
    """
    width = WIDTHS[rows >= WIDE_FROM]
    stops = rows >= FEWEST_TO_STOP
    iterations = ITERATIONS[budget] if stops else WITHOUT_STOPPING
    reference, about = _reference(rows, purpose)
    changes: dict[str, Any] = {
        "iterations": iterations,
        "energy.net.widths": [width] * 3,
        "energy.reference": {"class_path": "FittedMixture", "init_args": reference},
    }
    if not stops:
        changes["stop"] = None
    until = (
        f"Training takes at most {iterations} iterations (budget {budget}) and keeps the weights "
        "with the best held-out log-likelihood."
        if stops
        else f"Training takes {iterations} iterations: there are too few rows to stop by."
    )
    said = (
        about,
        f"The network has three layers of {width} units, for {counted(rows, 'row')} of "
        f"{counted(columns, 'column')}.",
        until,
    )
    return Decisions(changes, said, MEMBERS[budget])


def _reference(rows: int, purpose: Purpose) -> tuple[dict[str, Any], str]:
    """Arguments of the fitted reference, and a sentence about it."""
    kernels = f"at most {KERNELS} kernels" if rows > KERNELS else "one kernel per row"
    if purpose == "density":
        return (
            {
                "groups": list(TRIED),
                "kernels": KERNELS,
                "background": BACKGROUND,
            },
            f"The reference density has {kernels}; groups, bandwidth and ridge are chosen by "
            "held-out log-likelihood.",
        )
    groups = max(1, min(MOST_GROUPS, rows // ROWS_PER_GROUP))
    return (
        {
            "groups": [groups],
            "bandwidths": [BANDWIDTH],
            "ridges": [RIDGE],
            "shrinkages": [SHRINKAGE],
            "kernels": KERNELS,
            "background": 0.0,
        },
        f"The reference density has {kernels}, in {counted(groups, 'group')} with bandwidth "
        f"{BANDWIDTH:g}.",
    )
