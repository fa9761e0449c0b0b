"""Trust: five questions about a trained model, answered from its metrics. No files, no HTML."""

from coldness.trust.answers import Answer, Grade
from coldness.trust.verdict import THRESHOLDS, Verdict, verdict_on

__all__ = ["THRESHOLDS", "Answer", "Grade", "Verdict", "verdict_on"]
