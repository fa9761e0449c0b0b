"""What every answer of a verdict is made of: a question, a grade, and figures as text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Grade = Literal["yes", "partly", "no", "not measured"]
Topic = Literal["samples", "chains", "density", "others", "training"]

QUESTIONS: dict[Topic, str] = {
    "samples": "Does it generate from noise?",
    "chains": "Do long chains keep the quality?",
    "density": "Is its density right?",
    "others": "Does it recognise what is not data?",
    "training": "Was training healthy?",
}
"""What people ask of a model, in the order that reports answer it."""

ENOUGH_SAMPLES = 1000
"""With fewer, the error of a figure is so large that "yes" would mean little; it is "partly"."""


@dataclass(frozen=True)
class Answer:
    """To one question: the grade, the figure behind it, and a plain sentence."""

    topic: Topic
    answer: Grade
    figure: str
    sentence: str

    @property
    def question(self) -> str:
        return QUESTIONS[self.topic]


def grade(value: float, yes: float, partly: float) -> Grade:
    """Of a figure that should be small; NaN is a no."""
    return "yes" if value < yes else "partly" if value < partly else "no"


def worst(*grades: Grade) -> Grade:
    return max(grades, key=("yes", "partly", "no").index)


def number(value: float, digits: int = 3) -> str:
    """To so many digits, without an exponent where it can be read without."""
    if not math.isfinite(value):
        return "infinite" if math.isinf(value) else "not a number"
    whole = min(10**digits, 1000)
    if value == 0 or 1e-4 <= abs(value) < whole:
        return f"{value:.{digits}g}"
    if whole <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.{digits - 1}e}"
