"""Pretraining: encoders that learn from images before there is an energy."""

from coldness.pretraining.run import pretrain
from coldness.pretraining.settings import Pretraining, PretrainingRecipe

__all__ = ["Pretraining", "PretrainingRecipe", "pretrain"]
