"""Verdicts as tables of the terminal: the answers of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from coldness.trust.answers import QUESTIONS, Answer
from coldness.trust.comparison import FIGURES, best, main_figures
from coldness.trust.verdict import Verdict, number

COLOURS = {"yes": "green", "partly": "yellow", "no": "red", "not measured": "dim"}


def trust_table(verdict: Verdict) -> Table:
    """One row per question: the answer, the metrics behind it, and what it means."""
    table = Table(show_lines=True)
    for title in ("question", "answer", "metrics", "what it means"):
        table.add_column(title, no_wrap=title == "answer")
    for answer in verdict.answers:
        figure, sentence = escape(answer.figure), escape(answer.sentence)
        table.add_row(answer.question, _badge(answer), figure, sentence)
    return table


def comparison_table(
    names: Sequence[str],
    runs: Sequence[Mapping[str, float]],
    verdicts: Sequence[Verdict],
    marked: bool,
) -> Table:
    """One column per run: answers with their metrics, then main metrics, the best with a star.

    Args:
        names: of the runs.
        runs: their metrics.
        verdicts: on them.
        marked: whether metrics can be compared.
    """
    table = Table(show_lines=False)
    table.add_column("")
    for name in names:
        table.add_column(escape(name), overflow="fold")
    for topic, question in QUESTIONS.items():
        answers = [verdict[topic] for verdict in verdicts]
        cells = [f"{_badge(a)}\n[dim]{escape(_first(a.figure))}[/]" for a in answers]
        table.add_row(question, *cells, end_section=True)
    stars = best(runs) if marked else {}
    values = [main_figures(metrics) for metrics in runs]
    for row in FIGURES:
        if any(row.key in found for found in values):
            at = stars.get(row.key, [])
            cells = [_cell(found.get(row.key), k in at) for k, found in enumerate(values)]
            table.add_row(row.label, *cells)
    return table


def as_data(verdict: Verdict) -> dict[str, Any]:
    """A verdict for JSON."""
    answers = {
        a.topic: {
            "question": a.question,
            "answer": a.answer,
            "figure": a.figure,
            "sentence": a.sentence,
        }
        for a in verdict.answers
    }
    return {"summary": verdict.summary, "answers": answers}


def _first(figure: str) -> str:
    """Of a figure with several parts."""
    return figure.partition(";")[0]


def _badge(answer: Answer) -> str:
    return f"[{COLOURS[answer.answer]} bold]{answer.answer}[/]"


def _cell(value: float | None, is_best: bool) -> str:
    if value is None:
        return "[dim]-[/]"
    return f"[bold]{number(value)} *[/]" if is_best else number(value)
