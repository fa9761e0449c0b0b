"""KLs of a study's runs whose bracket is too loose to compare them.

Where KL is not an integral on a grid, it has the bracket of log Z (trust/density_answer.py). A
loose one overlaps with everything: the order of two such KLs says nothing about the runs. Its ends,
kl_low and kl_high, are bounds, and claims that name one of them are about that bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coldness.trust.density_answer import bracket

COLUMN = "kl_bracket"
"""Column of the table: the state of the bracket of a run's KL; None where KL needs no bracket."""

OF_KL = ("kl", "kl_per_dimension")

TEXT = "loose bracket"


def kl_bracket(metrics: Mapping[str, float]) -> str | None:
    """The state of the bracket of a run's KL, for its row; None without KL or on a grid."""
    return None if "kl" not in metrics or "tv" in metrics else bracket(metrics)


def is_loose(row: Mapping[str, Any], column: str) -> bool:
    """Whether this column of a run is a KL with a loose bracket.

    A row of an earlier version has no column for it, but the ends of KL, which are as far apart as
    those of log Z.
    """
    if column not in OF_KL or row.get(column) is None:
        return False
    if COLUMN in row:
        return bool(row[COLUMN] == "loose")
    there = {key: value for key, value in row.items() if value is not None}
    if "tv" in there or "kl_low" not in there or "kl_high" not in there:
        return False
    return bracket({**there, "log_z_low": row["kl_low"], "log_z_high": row["kl_high"]}) == "loose"
