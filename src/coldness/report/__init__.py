"""The report of one or several runs: a verdict, and one self-contained page."""

from coldness.report.page import write_report
from coldness.trust.verdict import Answer, Verdict, judge

__all__ = ["Answer", "Verdict", "judge", "write_report"]
