"""A number of a study: what theory expects, what was measured, and whether they agree."""

from __future__ import annotations

from typing import Any

Number = dict[str, Any]


def number(claim: str, equation: str, expected: str, measured: str, holds: bool) -> Number:
    """As a flat row: claim, equation, expected, measured, holds."""
    return {
        "claim": claim,
        "equation": equation,
        "expected": expected,
        "measured": measured,
        "holds": bool(holds),
    }
