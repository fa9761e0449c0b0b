"""The doctor: finds problems of a recipe before it is trained."""

from coldness.doctor.combinations import combinations
from coldness.doctor.examination import Examination, examine
from coldness.doctor.finding import Check, Finding
from coldness.doctor.noise import too_noisy
from coldness.doctor.temperature import known_scale, temperature_lines

__all__ = [
    "Check",
    "Examination",
    "Finding",
    "combinations",
    "examine",
    "known_scale",
    "temperature_lines",
    "too_noisy",
]
