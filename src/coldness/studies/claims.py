"""Claims: statements about the runs of a study, checked on its table.

A claim of a study file has `says` (a sentence), `check` (one of those below), `column` (a metric of
the table), `where` (which runs: a level or a list of levels for each axis named, and for `block`)
and the further arguments of the check:

    falls, rises     the column is monotone along the axis `along`
    drops            it falls by more than `factor` from the first to the last level of `along`
    lowest           `level` of the axis `along` has the smallest value
    agree            levels of `along` do not differ by more than seeds explain: one-way analysis of
                     variance, p >= 0.05 divided by the number of settings it is checked at
    within           it is at most `factor` times the column `of`
    beyond           it is more than `factor` times the column `of`
    exceeds, below   in every run it exceeds `value`, or is below it; a run that diverged exceeds
    completes        no run diverged

All but the last three use means over seeds. falls, rises, drops, lowest and agree are checked at
every combination of the other settings, along levels in the order of the study. A setting with a
run that diverged counts as infinite. If a run is missing, or if a KL that is compared has a loose
bracket (loose.py), the answer is None: not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from scipy.stats import f_oneway

from coldness.metrics import find
from coldness.studies.loose import TEXT, is_loose

Record = dict[str, Any]
"""One run in the table of a study: block, levels, seed and metrics."""

Verdict = tuple[bool | None, str]

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Outcome:
    """The result of a claim: whether it holds (None: not measured), and the numbers."""

    says: str
    holds: bool | None
    measured: str


def judge_claims(
    claims: Sequence[Mapping[str, Any]],
    rows: Sequence[Record],
    places: Sequence[Mapping[str, Any]],
    axes: Sequence[str],
) -> list[Outcome]:
    """Checks every claim of a study on the rows of its table.

    Args:
        claims: as in the study's file.
        rows: of finished runs.
        places: block and levels of every run of the grid, finished or not.
        axes: columns that the study varies, apart from the seed; `block` is one of them.
    """
    outcomes = []
    for claim in claims:
        where = claim.get("where") or {}
        asked = {k: v for k, v in claim.items() if k not in ("says", "check", "where")}
        chosen = [row for row in rows if is_meant(row, where)]
        runs = sum(is_meant(place, where) for place in places)
        holds, measured = None, f"{len(chosen)} of {runs} runs"
        if len(chosen) == runs:
            holds, measured = CHECKS[claim["check"]](chosen, axes, **asked)
        outcomes.append(Outcome(str(claim["says"]), holds, measured))
    return outcomes


def is_meant(place: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a run at this place is one that a claim's `where` selects."""
    return all(
        axis in place and place[axis] in (levels if isinstance(levels, list) else [levels])
        for axis, levels in where.items()
    )


# Means over seeds.


def mean(rows: Sequence[Record], column: str) -> float | None:
    """Mean over seeds: infinitely bad if a run or its chains diverged, None if a run is missing.

    None also where the bracket of a KL is loose. Columns that end in `_best` were reached before a
    run diverged, and count as they are.
    """
    values = [row.get(column) for row in rows]
    lost = column.replace("energy_distance", "lost_chains")
    diverged = not column.endswith("_best") and any(
        row.get("diverged_at") is not None for row in rows
    )
    if diverged or (lost != column and any(row.get(lost) for row in rows)):
        entry = find(column)
        return -math.inf if entry is not None and entry.better == "higher" else math.inf
    if any(is_loose(row, column) for row in rows):
        return None
    there = [value for value in values if value is not None]
    return fmean(there) if there and len(there) == len(values) else None


def _by_level(rows: Sequence[Record], along: str) -> dict[Any, list[Record]]:
    levels: dict[Any, list[Record]] = {}
    for row in rows:
        levels.setdefault(row[along], []).append(row)
    return levels


def _settings(rows: Sequence[Record], axes: Sequence[str], along: str) -> dict[str, list[Record]]:
    """Groups of rows that differ only in `along` and the seed, by a name for the group."""
    others = [axis for axis in axes if axis != along and len({r.get(axis) for r in rows}) > 1]
    groups: dict[str, list[Record]] = {}
    for row in rows:
        name = " ".join(_level(axis, row.get(axis)) for axis in others)
        groups.setdefault(name, []).append(row)
    return groups


def _level(axis: str, level: Any) -> str:
    return str(level) if isinstance(level, str) else f"{axis} {level}"


def _everywhere(
    rows: Sequence[Record],
    axes: Sequence[str],
    column: str,
    along: str,
    holds: Callable[[dict[Any, float]], bool],
) -> Verdict:
    """Applies a check to the means at every combination of the other settings."""
    answers: list[bool | None] = []
    texts = []
    for name, group in _settings(rows, axes, along).items():
        values = {level: mean(of, column) for level, of in _by_level(group, along).items()}
        whole = {level: value for level, value in values.items() if value is not None}
        answers.append(holds(whole) if len(whole) == len(values) else None)
        shown = ", ".join(
            f"{level}: {_shown(of, column)}" for level, of in _by_level(group, along).items()
        )
        texts.append(_named(name, shown))
    return _all(answers), "; ".join(texts)


def _all(answers: Sequence[bool | None]) -> bool | None:
    """False if any answer is False; else None if any is None; else True."""
    if False in answers:
        return False
    return None if None in answers else True


def _number(value: float | None) -> str:
    if value is None:
        return "not measured"
    return "diverged" if math.isinf(value) else format(value, ".3g")


def _shown(rows: Sequence[Record], column: str) -> str:
    """The mean over seeds as text, with the reason where a loose bracket leaves none."""
    value = mean(rows, column)
    loose = value is None and any(is_loose(row, column) for row in rows)
    return f"{_number(value)} ({TEXT})" if loose else _number(value)


def _named(name: str, shown: str) -> str:
    return f"{name}: {shown}" if name else shown


def _compared(
    rows: Sequence[Record],
    axes: Sequence[str],
    column: str,
    of: str,
    holds: Callable[[float, float], bool],
) -> Verdict:
    """Applies a check to the means of two columns at every setting."""
    answers: list[bool | None] = []
    texts = []
    for name, group in _settings(rows, axes, "").items():
        a, b = mean(group, column), mean(group, of)
        answers.append(None if a is None or b is None else holds(a, b))
        texts.append(_named(name, f"{_shown(group, column)} against {_shown(group, of)}"))
    return _all(answers), "; ".join(texts)


# Checks.


def _falls(rows: Sequence[Record], axes: Sequence[str], column: str, along: str) -> Verdict:
    return _everywhere(rows, axes, column, along, lambda m: _is_falling(list(m.values())))


def _rises(rows: Sequence[Record], axes: Sequence[str], column: str, along: str) -> Verdict:
    return _everywhere(rows, axes, column, along, lambda m: _is_falling(list(m.values())[::-1]))


def _is_falling(values: Sequence[float]) -> bool:
    return all(a > b for a, b in pairwise(values))


def _drops(
    rows: Sequence[Record], axes: Sequence[str], column: str, along: str, factor: float
) -> Verdict:
    def drops(values: dict[Any, float]) -> bool:
        first, *_, last = values.values()
        return first > factor * last

    return _everywhere(rows, axes, column, along, drops)


def _lowest(
    rows: Sequence[Record], axes: Sequence[str], column: str, along: str, level: Any
) -> Verdict:
    def is_lowest(values: dict[Any, float]) -> bool:
        return all(values[level] < value for other, value in values.items() if other != level)

    return _everywhere(rows, axes, column, along, is_lowest)


def _agree(rows: Sequence[Record], axes: Sequence[str], column: str, along: str) -> Verdict:
    answers: list[bool | None] = []
    texts = []
    settings = _settings(rows, axes, along)
    for name, group in settings.items():
        levels: list[list[float]] = [
            [row[column] for row in of if row.get(column) is not None]
            for of in _by_level(group, along).values()
        ]
        if any(is_loose(row, column) for row in group):
            answers.append(None)
            texts.append(_named(name, f"not measured ({TEXT})"))
        elif sum(len(values) for values in levels) < len(group):
            answers.append(None)
            texts.append(_named(name, "a metric is missing"))
        elif min(len(values) for values in levels) < 2:
            answers.append(None)
            texts.append(_named(name, "not measured: needs at least two seeds"))
        else:
            p = float(f_oneway(*levels).pvalue)
            answers.append(p >= SIGNIFICANT / len(settings))
            between = [fmean(values) for values in levels]
            texts.append(_named(name, f"{min(between):.3g} to {max(between):.3g}, p = {p:.2g}"))
    return _all(answers), "; ".join(texts)


def _within(
    rows: Sequence[Record], axes: Sequence[str], column: str, of: str, factor: float = 1.0
) -> Verdict:
    def is_within(value: float, other: float) -> bool:
        return math.isfinite(value) and value <= factor * other

    return _compared(rows, axes, column, of, is_within)


def _beyond(
    rows: Sequence[Record], axes: Sequence[str], column: str, of: str, factor: float = 1.0
) -> Verdict:
    def is_beyond(value: float, other: float) -> bool:
        return math.isfinite(other) and value > factor * other

    return _compared(rows, axes, column, of, is_beyond)


def _exceeds(rows: Sequence[Record], axes: Sequence[str], column: str, value: float) -> Verdict:
    values = [mean([row], column) for row in rows]
    answers = [None if each is None else each > value for each in values]
    return _all(answers), ", ".join(_shown([row], column) for row in rows)


def _below(rows: Sequence[Record], axes: Sequence[str], column: str, value: float) -> Verdict:
    values = [mean([row], column) for row in rows]
    answers = [None if each is None else each < value for each in values]
    return _all(answers), ", ".join(_shown([row], column) for row in rows)


def _completes(rows: Sequence[Record], axes: Sequence[str]) -> Verdict:
    bad = [
        f"{row['run']} at {row['diverged_at']}" for row in rows if row["diverged_at"] is not None
    ]
    done = len(rows) - len(bad)
    return not bad, f"{done} of {len(rows)} runs" + (f"; diverged: {', '.join(bad)}" if bad else "")


CHECKS: dict[str, Callable[..., Verdict]] = {
    "falls": _falls,
    "rises": _rises,
    "drops": _drops,
    "within": _within,
    "beyond": _beyond,
    "exceeds": _exceeds,
    "below": _below,
    "lowest": _lowest,
    "agree": _agree,
    "completes": _completes,
}
