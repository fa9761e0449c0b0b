"""Training: settings, the loop, checkpoints and the guard."""

from coldness.guard.policy import Diverged, Guard
from coldness.training.fit import Interrupted, fit
from coldness.training.loop import Training
from coldness.training.settings import Evaluation, Settings

__all__ = ["Diverged", "Evaluation", "Guard", "Interrupted", "Settings", "Training", "fit"]
