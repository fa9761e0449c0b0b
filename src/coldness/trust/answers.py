"""The parts of every answer of a verdict: a question, a grade, and the metrics behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from coldness.metrics import QUESTIONS, Topic

Grade = Literal["yes", "partly", "no", "not measured"]

ORDER: dict[Grade, int] = {"not measured": -1, "no": 0, "partly": 1, "yes": 2}
"""How much trust a grade gives; what was not measured gives none."""

KL_YES = 0.05
"""Nats. The mean log-likelihood of data is then within 0.05 of the best possible. The same limit
holds for KL(model || data), which says whether the model has mass where there is no data."""

KL_PARTLY = 1.0
"""Nats. Beyond it, a point of the data is on average more than e times too unlikely."""

TV_YES = math.sqrt(KL_YES / 2)
"""What Pinsker's inequality, tv <= sqrt(kl / 2), allows at KL_YES."""

TV_PARTLY = 0.5
"""Half of the model's mass is misplaced."""

ENOUGH_SAMPLES = 1000
"""With fewer samples, metrics are too uncertain for a "yes", which becomes "partly"."""


@dataclass(frozen=True)
class Answer:
    """The answer to one question.

    Args:
        topic: which question.
        grade: yes, partly, no or not measured.
        measured: the numbers behind the grade, as text.
        text: what the grade means, in plain sentences.
        metrics: entries of metrics.json that the answer is based on.
    """

    topic: Topic
    grade: Grade
    measured: str
    text: str
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def question(self) -> str:
        return QUESTIONS[self.topic]


class Noted(Mapping[str, float]):
    """Metrics that record which of them were looked up: those that an answer is based on.

    Iterating over keys records nothing.
    """

    def __init__(self, metrics: Mapping[str, float]) -> None:
        self.metrics = metrics
        self.noted: dict[str, float] = {}

    def __getitem__(self, key: str) -> float:
        value = self.noted[key] = self.metrics[key]
        return value

    def __contains__(self, key: object) -> bool:
        if key in self.metrics:
            self.noted[str(key)] = self.metrics[str(key)]
            return True
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)


def grade(value: float, yes: float, partly: float) -> Grade:
    """The grade of a metric that should be small; NaN is a no."""
    return "yes" if value < yes else "partly" if value < partly else "no"


def worst(*grades: Grade) -> Grade:
    return max(grades, key=("yes", "partly", "no").index)


def number(value: float, digits: int = 3) -> str:
    """The value to this many digits, without an exponent where it is readable without one."""
    if not math.isfinite(value):
        return "infinite" if math.isinf(value) else "NaN"
    whole = min(10**digits, 1000)
    if value == 0 or 1e-4 <= abs(value) < whole:
        return f"{value:.{digits}g}"
    if whole <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"
