"""Energies: E(x), its coldness c, and the potential U = c E."""

from coldness.energies.analytic import Gaussian, GaussianMixture, PlanarRings, RadialRings
from coldness.energies.base import DriftNoise, Energy, Given, NetworkEnergy
from coldness.energies.classifier import ClassifierEnergy
from coldness.energies.compose import Mixture, Sum, Tempered
from coldness.energies.coordinates import Coordinates
from coldness.energies.coupling import check_coordinates, check_uncoupled
from coldness.energies.scalar import ScalarEnergy

__all__ = [
    "ClassifierEnergy",
    "Coordinates",
    "DriftNoise",
    "Energy",
    "Gaussian",
    "GaussianMixture",
    "Given",
    "Mixture",
    "NetworkEnergy",
    "PlanarRings",
    "RadialRings",
    "ScalarEnergy",
    "Sum",
    "Tempered",
    "check_coordinates",
    "check_uncoupled",
]
