"""Numbers of the study `guard`: failures with and without a guard, compared with healthy runs.

Every block is one failure, with three runs per seed: `healthy` (the cause removed), `off` (the
guard only warns) and `rollback`. From their time series:

    failure       the block; none for healthy runs
    guard         off or rollback
    diverged_at   the onset in the run without a guard (diagnostics/onset.py): of the gap, of the
                  gradient, or of GradScale downwards, whichever is first
    detected_at   the guard's first alarm
    recovered     the run was completed, and its kl is at most TOLERANCE times baseline_kl; None
                  (not measured) where the bracket of one of them is loose (loose.py)
    baseline_kl   kl of the healthy run
    actions       actions of the guard
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from coldness.diagnostics.onset import onset
from coldness.runs.reader import read_columns
from coldness.studies.claims import Record
from coldness.studies.loose import TEXT, is_loose
from coldness.studies.number import Number, number

SHOWN = {
    "block": "Block",
    "failure": "Failure",
    "guard": "Guard",
    "diverged_at": "Diverged at iteration",
    "detected_at": "First alarm at iteration",
    "recovered": "Recovered",
    "kl": "KL(data || model), nats",
    "baseline_kl": "KL of the healthy run, nats",
    "actions": "Actions of the guard",
}
"""Columns that a report shows of every run, with their headings."""

TOLERANCE = 1.2
DELAY = 50
"""Most iterations between onset and alarm."""

RECOVERED = 7 / 8
"""Fraction of the failures that must be recovered from."""


def guard_rows(rows: Sequence[Record], runs: Path) -> list[Record]:
    """The rows of the grid with the columns above."""
    result = []
    for row in rows:
        level = row.get("guard")
        healthy = _beside(rows, row, "healthy") if level is not None else row
        off = _beside(rows, row, "off")
        new = {**row, "failure": "none", "guard": "rollback", "baseline_kl": None}
        loose = is_loose(row, "kl")
        if healthy is not None:
            new["baseline_kl"] = healthy["kl"]
            loose = loose or is_loose(healthy, "kl")
        if level in ("off", "rollback"):
            new |= {"failure": row["block"], "guard": level}
            if off is not None and healthy is not None:
                new["diverged_at"] = _onset(runs / off["run"], runs / healthy["run"])
        new["recovered"] = _is_recovered(new, row["diverged_at"] is None, loose)
        result.append(new)
    return result


def guard_numbers(
    rows: Sequence[Record], runs: Path, quick: bool, stage: Callable[[str], None]
) -> list[Number]:
    """Numbers that summarise the rows."""
    stage("failures")
    rows = guard_rows(rows, runs)
    off = [row for row in rows if row["failure"] != "none" and row["guard"] == "off"]
    guarded = [row for row in rows if row["failure"] != "none" and row["guard"] == "rollback"]
    healthy = [row for row in rows if row["failure"] == "none"]
    numbers = []
    if off:
        failed = [row for row in off if row["diverged_at"] is not None and not row["recovered"]]
        numbers.append(_count("Without a guard, every failure occurs", failed, off, "all", 1.0))
        late = [row for row in off if not _delay(row) <= DELAY]
        worst = max((_delay(row) for row in off), default=np.nan)
        numbers.append(
            number(
                f"Every failure is detected within {DELAY} iterations of its onset",
                "",
                f"at most {DELAY}",
                f"at most {worst:g}" + _names(late, "; not "),
                not late,
            )
        )
        saved = [row for row in guarded if row["recovered"]]
        claim = f"With rollback, kl is at most {TOLERANCE:g} times that of the healthy run"
        unknown = [row for row in guarded if row["recovered"] is None]
        numbers.append(_count(claim, saved, guarded, "at least 7 of 8", RECOVERED, unknown))
    alarms = [row for row in healthy if row["detected_at"] is not None]
    numbers.append(
        number(
            "No alarm in healthy runs",
            "",
            "none",
            f"{len(alarms)} in {len(healthy)} runs" + _names(alarms, ": "),
            not alarms,
        )
    )
    return numbers


def _beside(rows: Sequence[Record], row: Record, level: str) -> Record | None:
    """The run of the same block and seed with another level of `guard`."""
    same = (
        r
        for r in rows
        if (r["block"], r["seed"], r.get("guard")) == (row["block"], row["seed"], level)
    )
    return next(same, None)


def _is_recovered(row: Record, ended: bool, loose: bool) -> bool | None:
    kl, baseline = row["kl"], row["baseline_kl"]
    if not ended or kl is None or baseline is None:
        return False
    return None if loose else bool(kl <= TOLERANCE * baseline)


def _onset(run: Path, healthy: Path) -> int | None:
    """The first of the onsets of gap, gradient and GradScale."""
    bad, good = (read_columns(folder) for folder in (run, healthy))
    found = [
        onset(np.abs(bad["d"]), np.abs(good["d"])),
        onset(bad["parameter_gradient"], good["parameter_gradient"]),
        onset(bad["grad_scale"], good["grad_scale"], downwards=True),
    ]
    return min((t for t in found if t is not None), default=None)


def _delay(row: Record) -> float:
    if row["detected_at"] is None or row["diverged_at"] is None:
        return np.nan
    return float(row["detected_at"] - row["diverged_at"])


def _count(
    claim: str,
    good: Sequence[Record],
    rows: Sequence[Record],
    expected: str,
    share: float,
    unknown: Sequence[Record] = (),
) -> Number:
    """How many rows are good; not measured if the unknown ones decide."""
    bad = [row for row in rows if row not in good and row not in unknown]
    measured = f"{len(good)} of {len(rows)}" + _names(bad, "; not ")
    measured += _names(unknown, f"; not measured ({TEXT}): ")
    least = share * len(rows)
    open_ended = len(good) < least <= len(good) + len(unknown)
    return number(claim, "", expected, measured, None if open_ended else len(good) >= least)


def _names(rows: Sequence[Record], before: str) -> str:
    return before + ", ".join(dict.fromkeys(str(row["block"]) for row in rows)) if rows else ""
