"""Claims: what a study's runs are to show, checked on means over the seeds of its table.

A claim of a study file has `says` (a sentence), `check` (one of those below), `column` (of the
table), `where` (which rows: a value or a list of values for each column named) and what the check
asks for beside:

    falls, rises     the column is monotone along the axis `along`
    drops            it falls by more than `factor` from the first to the last level of `along`
    within           it is at most `factor` times the column `of`
    exceeds          it exceeds `value`, or the run diverged
    lowest           `level` of the axis `along` has the smallest of all
    agree            levels of `along` differ in their means no more than seeds do within a level
    completes        no run diverged

falls, rises, drops, lowest and agree are asked at every combination of the other settings. A check
gives whether the claim holds, or None where runs are missing, and the figures behind that as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

Row = Mapping[str, Any]
Verdict = tuple[bool | None, str]


@dataclass(frozen=True)
class Outcome:
    """What came of a claim: whether it holds (None: not measured), and the figures."""

    says: str
    holds: bool | None
    measured: str


def judge_claims(
    claims: Sequence[Mapping[str, Any]], rows: Sequence[Row], axes: Sequence[str]
) -> list[Outcome]:
    """Every claim of a study against the rows of its table.

    Args:
        claims: as in the study's file.
        rows: of finished runs.
        axes: columns that the study varies, beside the seed; `block` among them.
    """
    outcomes = []
    for claim in claims:
        asked = {k: v for k, v in claim.items() if k not in ("says", "check", "where")}
        chosen = [row for row in rows if _is_meant(row, claim.get("where") or {})]
        check = CHECKS[claim["check"]]
        holds, measured = check(chosen, axes, **asked) if chosen else (None, "no runs yet")
        outcomes.append(Outcome(str(claim["says"]), holds, measured))
    return outcomes


def _is_meant(row: Row, where: Mapping[str, Any]) -> bool:
    return all(
        row.get(column) in (levels if isinstance(levels, list) else [levels])
        for column, levels in where.items()
    )


# Means over seeds.


def means(rows: Sequence[Row], column: str, along: str) -> dict[Any, float | None]:
    """Mean over seeds at each level of an axis; None where a run diverged or is not there."""
    levels: dict[Any, list[float | None]] = {}
    for row in rows:
        levels.setdefault(row[along], []).append(row.get(column))
    return {level: _mean(values) for level, values in levels.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if there and len(there) == len(values) else None


def _settings(rows: Sequence[Row], axes: Sequence[str], along: str) -> list[tuple[str, list[Row]]]:
    """Rows that differ in `along` and the seed alone, with a name for what they share."""
    others = [axis for axis in axes if axis != along and len({r.get(axis) for r in rows}) > 1]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(axis) for axis in others), []).append(row)
    return [(" ".join(_level(o, k) for o, k in zip(others, key, strict=True)), group)
            for key, group in groups.items()]  # fmt: skip


def _level(axis: str, level: Any) -> str:
    return str(level) if isinstance(level, str) else f"{axis} {level}"


def _everywhere(
    rows: Sequence[Row],
    axes: Sequence[str],
    column: str,
    along: str,
    holds: Callable[[dict[Any, float]], bool],
) -> Verdict:
    """Asks the same of the means at every combination of the other settings."""
    answers: list[bool | None] = []
    texts = []
    for name, group in _settings(rows, axes, along):
        values = means(group, column, along)
        whole = {level: v for level, v in values.items() if v is not None}
        answers.append(holds(whole) if len(whole) == len(values) else None)
        texts.append(f"{name}: {_figures(values)}" if name else _figures(values))
    return _all(answers), "; ".join(texts)


def _all(answers: Sequence[bool | None]) -> bool | None:
    """False if any is; None if any is not known; else True."""
    if False in answers:
        return False
    return None if None in answers else True


def _figures(values: Mapping[Any, float | None]) -> str:
    return ", ".join(
        f"{level}: {'diverged' if v is None else format(v, '.3g')}" for level, v in values.items()
    )


# Checks.


def _falls(rows: Sequence[Row], axes: Sequence[str], column: str, along: str) -> Verdict:
    return _everywhere(rows, axes, column, along, lambda m: _sorted(m, descending=True))


def _rises(rows: Sequence[Row], axes: Sequence[str], column: str, along: str) -> Verdict:
    return _everywhere(rows, axes, column, along, lambda m: _sorted(m, descending=False))


def _sorted(values: Mapping[Any, float], descending: bool) -> bool:
    ordered = [values[level] for level in sorted(values)]
    return ordered == sorted(set(ordered), reverse=descending)


def _drops(
    rows: Sequence[Row], axes: Sequence[str], column: str, along: str, factor: float
) -> Verdict:
    return _everywhere(rows, axes, column, along, lambda m: m[min(m)] > factor * m[max(m)])


def _lowest(
    rows: Sequence[Row], axes: Sequence[str], column: str, along: str, level: Any
) -> Verdict:
    return _everywhere(
        rows, axes, column, along, lambda m: level in m and m[level] == min(m.values())
    )


def _agree(rows: Sequence[Row], axes: Sequence[str], column: str, along: str) -> Verdict:
    answers: list[bool | None] = []
    texts = []
    for name, group in _settings(rows, axes, along):
        levels: dict[Any, list[Any]] = {}
        for row in group:
            levels.setdefault(row[along], []).append(row.get(column))
        if any(value is None for values in levels.values() for value in values):
            answers.append(None)
            texts.append(f"{name}: a run diverged")
            continue
        between = [fmean(values) for values in levels.values()]
        apart = max(between) - min(between)
        spread = max(max(values) - min(values) for values in levels.values())
        answers.append(apart <= spread)
        texts.append(f"{name}: means differ by {apart:.3g}, seeds by {spread:.3g}")
    return _all(answers), "; ".join(texts)


def _within(
    rows: Sequence[Row], axes: Sequence[str], column: str, of: str, factor: float = 1.0
) -> Verdict:
    answers: list[bool | None] = []
    texts = []
    for name, group in _settings(rows, axes, ""):
        a, b = (_mean([row.get(c) for row in group]) for c in (column, of))
        answers.append(None if a is None or b is None else a <= factor * b)
        shown = "diverged" if a is None or b is None else f"{a:.3g} against {b:.3g}"
        texts.append(f"{name}: {shown}" if name else shown)
    return _all(answers), "; ".join(texts)


def _exceeds(rows: Sequence[Row], axes: Sequence[str], column: str, value: float) -> Verdict:
    answers, texts = [], []
    for row in rows:
        diverged, figure = row.get("diverged_at"), row.get(column)
        answers.append(diverged is not None or (figure is not None and figure > value))
        texts.append(f"diverged at {diverged}" if diverged is not None else f"{figure:.3g}")
    return all(answers), ", ".join(texts)


def _completes(rows: Sequence[Row], axes: Sequence[str]) -> Verdict:
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
    "exceeds": _exceeds,
    "lowest": _lowest,
    "agree": _agree,
    "completes": _completes,
}
