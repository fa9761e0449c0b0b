"""Objectives: the contrast, and terms that are added to it."""

from coldness.objectives.base import Batch, Term, names_of
from coldness.objectives.classification import CrossEntropy
from coldness.objectives.contrast import Contrast, Weights
from coldness.objectives.energy_l2 import EnergyL2

__all__ = ["Batch", "Contrast", "CrossEntropy", "EnergyL2", "Term", "Weights", "names_of"]
