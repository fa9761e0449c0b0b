"""Training: recipes, construction, the iteration, and the loop around it."""

from coldness.training.build import build
from coldness.training.fit import fit
from coldness.training.loop import Training
from coldness.training.settings import Evaluation, Settings

__all__ = ["Evaluation", "Settings", "Training", "build", "fit"]
