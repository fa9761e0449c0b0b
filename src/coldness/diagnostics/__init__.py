"""Diagnostics: what the metrics of a run say, as pure functions of arrays."""

from coldness.diagnostics.losses import paired_covariance, signal_to_noise

__all__ = ["paired_covariance", "signal_to_noise"]
