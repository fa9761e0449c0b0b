"""The study of the guard: what its table says of runs whose series are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coldness.studies.rescues import DELAY, guard_numbers, guard_rows

ROW = {"block": "bad", "seed": 0, "kl": 1.0, "diverged_at": None, "detected_at": None}


def write(folder: Path, d: list[float], scale: float = 0.9) -> None:
    folder.mkdir(parents=True)
    lines = [f"{t},{value},1,{scale}" for t, value in enumerate(d)]
    (folder / "metrics.csv").write_text(
        "\n".join(["iteration,d,parameter_gradient,grad_scale", *lines]) + "\n"
    )


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, Any]]:
    """A gap that runs away at iteration 60 of 100, seen at 70, saved at 1.1 times the kl."""
    write(tmp_path / "healthy", 100 * [-2.0])
    write(tmp_path / "off", [*(60 * [-2.0]), *(40 * [-900.0])])
    write(tmp_path / "rollback", 100 * [-2.0])
    write(tmp_path / "plain", 100 * [-2.0])
    seen = {"detected_at": 70}
    return [
        {**ROW, "guard": "healthy", "run": "healthy"},
        {**ROW, "guard": "off", "run": "off", "kl": 1e9, **seen},
        {**ROW, "guard": "rollback", "run": "rollback", "kl": 1.1, **seen},
        {**ROW, "block": "well", "run": "plain"},
    ]


def test_every_row_says_what_failed_when_and_whether_it_was_saved(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    healthy, off, rollback, plain = guard_rows(rows, tmp_path)
    for row in (healthy, plain):
        assert (row["failure"], row["guard"], row["recovered"]) == ("none", "rollback", True)
    assert (off["failure"], off["guard"], off["recovered"]) == ("bad", "off", False)
    assert (rollback["failure"], rollback["guard"], rollback["recovered"]) == (
        "bad",
        "rollback",
        True,
    )
    assert off["diverged_at"] == rollback["diverged_at"] == 60
    assert off["baseline_kl"] == rollback["baseline_kl"] == 1.0


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, None),
        ({1: {"kl": 1.0}}, 0),  # no failure at all
        ({1: {"detected_at": 61 + DELAY}}, 1),
        ({1: {"detected_at": None}}, 1),
        ({2: {"kl": 1.3}}, 2),
        ({2: {"kl": None, "diverged_at": 80}}, 2),
        ({3: {"detected_at": 5}}, 3),
    ],
)
def test_each_claim_can_fail(
    changed: dict[int, dict[str, Any]],
    broken: int | None,
    rows: list[dict[str, Any]],
    tmp_path: Path,
) -> None:
    for k, values in changed.items():
        rows[k] |= values
    numbers = guard_numbers(rows, tmp_path, False, lambda stage: None)
    assert [n["holds"] for n in numbers] == [k != broken for k in range(4)]


def test_starvation_is_an_onset_too(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    write(tmp_path / "starved", 100 * [-2.0], scale=0.01)
    rows[1]["run"] = "starved"
    assert guard_rows(rows, tmp_path)[1]["diverged_at"] == 0


def test_a_loose_bracket_is_no_recovery_and_no_failure(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    rows[2]["kl_bracket"] = "loose"
    assert guard_rows(rows, tmp_path)[2]["recovered"] is None
    claim = guard_numbers(rows, tmp_path, False, lambda stage: None)[2]
    assert claim["holds"] is None
    assert "not measured (loose bracket): bad" in claim["measured"]
