"""Evaluation: how right a density is, and how right samples are."""

from coldness.evaluation.density import compare_on_grid, log_density_on_grid
from coldness.evaluation.evaluate import evaluate
from coldness.evaluation.samples import energy_distance

__all__ = ["compare_on_grid", "energy_distance", "evaluate", "log_density_on_grid"]
