"""Chains: where they start, and the sources of negatives that they make."""

from coldness.chains.adaptation import StepAdaptation
from coldness.chains.bank import Bank
from coldness.chains.base import Start
from coldness.chains.data import DataStart
from coldness.chains.noise import GaussianNoise, UniformNoise
from coldness.chains.source import Source

__all__ = [
    "Bank",
    "DataStart",
    "GaussianNoise",
    "Source",
    "Start",
    "StepAdaptation",
    "UniformNoise",
]
