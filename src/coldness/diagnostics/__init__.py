"""Diagnostics: metrics of runs, chains and banks, as pure functions of arrays."""

from coldness.diagnostics.losses import paired_covariance, signal_to_noise

__all__ = ["paired_covariance", "signal_to_noise"]
