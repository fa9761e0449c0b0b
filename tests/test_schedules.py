"""Schedules over training."""

from __future__ import annotations

import math

import pytest

from coldness.schedules import Cosine, Geometric, Linear, Schedule, WarmUp, value_at


def values(schedule: Schedule, n: int) -> list[float]:
    return [schedule.at(t, n) for t in range(n)]


def test_geometric_multiplies_down_to_its_floor() -> None:
    assert values(Geometric(8.0, 0.5, 1.0), 6) == pytest.approx([8, 4, 2, 1, 1, 1])
    # The Anatomy paper's flowers: from 0.1 by 0.99995 an iteration to 5e-4, after 105,964.
    flowers = Geometric(0.1, 0.99995, 5e-4)
    assert flowers.at(100_000, 200_000) == pytest.approx(0.1 * math.exp(-5.000125), rel=1e-5)
    assert flowers.at(105_900, 200_000) > 5e-4
    assert flowers.at(106_000, 200_000) == 5e-4


def test_linear_by_equal_differences() -> None:
    assert values(Linear(1.0, 3.0), 5) == pytest.approx([1, 1.5, 2, 2.5, 3])
    assert values(Linear(1.0, 0.0, part=0.5), 9) == pytest.approx([1, 0.75, 0.5, 0.25, *[0] * 5])
    assert values(Linear(2.0, 5.0), 1) == [2]


def test_cosine_from_start_to_end() -> None:
    seen = values(Cosine(3.0, 1.0), 5)
    assert seen == pytest.approx([3, 2 + math.sqrt(0.5), 2, 2 - math.sqrt(0.5), 1])
    assert Cosine().at(0, 1) == 1


def test_warm_up_multiplies_another_schedule() -> None:
    assert values(WarmUp(4), 6) == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1])
    seen = values(WarmUp(2, Linear(1.0, 0.0)), 5)
    assert seen == pytest.approx([0.5, 0.75, 0.5, 0.25, 0])


def test_a_number_is_a_schedule_that_stays() -> None:
    assert value_at(3, 7, 10) == 3.0
    assert isinstance(value_at(3, 7, 10), float)
    assert value_at(Linear(0.0, 9.0), 7, 10) == pytest.approx(7)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Geometric(rate=0.0),
        lambda: Geometric(rate=1.01),
        lambda: Linear(0.0, 1.0, part=0.0),
        lambda: Linear(0.0, 1.0, part=1.5),
        lambda: WarmUp(0),
    ],
)
def test_senseless_arguments_raise(wrong) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()
