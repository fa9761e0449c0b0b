"""A number of a study: what theory expects, what was measured, and whether they agree."""

from __future__ import annotations

from typing import Any

Number = dict[str, Any]


def number(claim: str, equation: str, expected: str, measured: str, holds: bool | None) -> Number:
    """As a flat row: claim, equation, expected, measured, holds (None: not measured)."""
    return {
        "claim": claim,
        "equation": equation,
        "expected": expected,
        "measured": measured,
        "holds": None if holds is None else bool(holds),
    }
