"""The report of one or several runs: a verdict, and one self-contained page."""

from coldness.report.page import write_report

__all__ = ["write_report"]
