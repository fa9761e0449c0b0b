"""Verdicts as tables of the terminal: the answers of one run, or of several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from coldness.cli.console import console
from coldness.metrics import COMPARED, QUESTIONS, metric
from coldness.trust import Answer, Verdict
from coldness.trust.answers import number
from coldness.trust.comparison import best, main_metrics
from coldness.trust.density_answer import likelihood_line

COLOURS = {"yes": "green", "partly": "yellow", "no": "red", "not measured": "dim"}


def trust_table(verdict: Verdict) -> Table:
    """One row per question: the answer, what was measured, and what it means."""
    table = Table(show_lines=True)
    for title in ("question", "answer", "measured", "what it means"):
        table.add_column(title, no_wrap=title == "answer")
    for answer in verdict.answers.values():
        measured, text = escape(answer.measured), escape(answer.text)
        table.add_row(answer.question, _badge(answer), measured, text)
    return table


def comparison_table(
    names: Sequence[str],
    runs: Sequence[Mapping[str, float]],
    verdicts: Sequence[Verdict],
    marked: bool,
) -> Table:
    """One column per run: answers with their metrics, then the main metrics, the best with a star.

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
        answers = [verdict.answers[topic] for verdict in verdicts]
        cells = [f"{_badge(a)}\n[dim]{escape(_first(a.measured))}[/]" for a in answers]
        table.add_row(question, *cells, end_section=True)
    stars = best(runs) if marked else {}
    values = [main_metrics(metrics) for metrics in runs]
    for key in COMPARED:
        if any(key in found for found in values):
            at = stars.get(key, [])
            cells = [_cell(found.get(key), k in at) for k, found in enumerate(values)]
            table.add_row(metric(key).short_title, *cells)
    return table


def as_data(verdict: Verdict) -> dict[str, Any]:
    """A verdict for JSON."""
    answers = {
        topic: {
            "question": answer.question,
            "grade": answer.grade,
            "measured": answer.measured,
            "text": answer.text,
        }
        for topic, answer in verdict.answers.items()
    }
    return {"summary": verdict.summary, "answers": answers}


def _first(measured: str) -> str:
    """Of several parts."""
    return measured.partition(";")[0]


def _badge(answer: Answer) -> str:
    return f"[{COLOURS[answer.grade]} bold]{answer.grade}[/]"


def _cell(value: float | None, is_best: bool) -> str:
    if value is None:
        return "[dim]-[/]"
    return f"[bold]{number(value)} *[/]" if is_best else number(value)


def print_verdict(verdict: Verdict, metrics: Mapping[str, float]) -> None:
    """The verdict of the report, in the terminal."""
    console.print(f"[bold]{escape(verdict.summary)}[/]")
    for answer in verdict.answers.values():
        measured = escape(answer.measured)
        console.print(f"  {answer.question:<42} [bold]{answer.grade}[/]  {measured}")
    console.print(f"  {'log-likelihood of test points':<42} {likelihood_line(metrics)}")
