"""Estimators with the conventions of scikit-learn, for tables.

EnergyDensity       log p in nats: fit, score_samples, score, sample
EnergyDetector      outliers: fit, decision_function, predict, explain
EnergyClassifier    a classifier with a density: predict_proba, score_samples
pyod.EnergyDetector the detector with the conventions of PyOD
"""

from coldness.estimators.classifier import EnergyClassifier
from coldness.estimators.density import EnergyDensity
from coldness.estimators.detector import EnergyDetector

__all__ = ["EnergyClassifier", "EnergyDensity", "EnergyDetector"]
