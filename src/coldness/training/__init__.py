"""Training: settings, the loop, checkpoints and the guard."""

from coldness.training.guard import Diverged
from coldness.training.loop import Interrupted, Training, fit
from coldness.training.settings import Evaluation, Settings

__all__ = ["Diverged", "Evaluation", "Interrupted", "Settings", "Training", "fit"]
