"""Objectives: the contrast, and terms that are added to it."""

from coldness.objectives.base import Batch, Term, names_of
from coldness.objectives.byol import BYOL
from coldness.objectives.classification import CrossEntropy
from coldness.objectives.contrast import Contrast, Weights
from coldness.objectives.energy_l2 import EnergyL2
from coldness.objectives.frozen import Frozen, Labels
from coldness.objectives.guidance import Guidance
from coldness.objectives.mae import MAE
from coldness.objectives.masked import Masked
from coldness.objectives.simclr import SimCLR
from coldness.objectives.teachers import Teacher

__all__ = [
    "BYOL",
    "MAE",
    "Batch",
    "Contrast",
    "CrossEntropy",
    "EnergyL2",
    "Frozen",
    "Guidance",
    "Labels",
    "Masked",
    "SimCLR",
    "Teacher",
    "Term",
    "Weights",
    "names_of",
]
