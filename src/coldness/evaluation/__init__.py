"""Evaluation: errors of densities, log-likelihoods of data, and quality of samples."""

from coldness.evaluation.density import compare_on_grid, log_density_on_grid
from coldness.evaluation.evaluate import evaluate
from coldness.evaluation.samples import energy_distance, neighbour_share
from coldness.likelihood import AIS, LogZ, log_z

__all__ = [
    "AIS",
    "LogZ",
    "compare_on_grid",
    "energy_distance",
    "evaluate",
    "log_density_on_grid",
    "log_z",
    "neighbour_share",
]
