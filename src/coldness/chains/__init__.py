"""Chains: their starts, the sources of negatives made of them, and step-size adaptation."""

from coldness.chains.adaptation import StepAdaptation
from coldness.chains.bank import Bank
from coldness.chains.base import Adaptation, Start
from coldness.chains.data import DataStart
from coldness.chains.data_noise import StepNoise
from coldness.chains.inverse_norm import InverseNormSteps
from coldness.chains.noise import FittedNoise, GaussianNoise, LikeData, UniformNoise
from coldness.chains.reference import ReferenceStart
from coldness.chains.source import Source
from coldness.chains.weighted_bank import WeightedBank

__all__ = [
    "Adaptation",
    "Bank",
    "DataStart",
    "FittedNoise",
    "GaussianNoise",
    "InverseNormSteps",
    "LikeData",
    "ReferenceStart",
    "Source",
    "Start",
    "StepAdaptation",
    "StepNoise",
    "UniformNoise",
    "WeightedBank",
]
