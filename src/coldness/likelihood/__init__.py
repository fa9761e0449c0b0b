"""Likelihood: log Z by annealed importance sampling, and potentials in float64."""

from coldness.likelihood.ais import AIS, log_z
from coldness.likelihood.bracket import LogZ

__all__ = ["AIS", "LogZ", "log_z"]
