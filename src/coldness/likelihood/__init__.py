"""Likelihood: log Z by annealed importance sampling and by walkers, and potentials in float64."""

from coldness.likelihood.ais import AIS, log_z
from coldness.likelihood.bracket import LogZ
from coldness.likelihood.walkers import Estimate, Population, Walkers

__all__ = ["AIS", "Estimate", "LogZ", "Population", "Walkers", "log_z"]
