"""Training: settings, the loop, checkpoints and the guard."""

from coldness.training.fit import Interrupted, fit
from coldness.training.guard import Diverged, Guard
from coldness.training.loop import Training
from coldness.training.settings import Evaluation, Settings

__all__ = ["Diverged", "Evaluation", "Guard", "Interrupted", "Settings", "Training", "fit"]
