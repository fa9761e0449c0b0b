"""Likelihood: log Z by annealed importance sampling, and potentials in float64."""

from coldness.likelihood.ais import AIS, LogZ, log_z

__all__ = ["AIS", "LogZ", "log_z"]
