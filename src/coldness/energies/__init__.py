"""Energies: E(x), its coldness c, and the potential U = c E."""

from coldness.energies.analytic import Gaussian, GaussianMixture, PlanarRings, RadialRings
from coldness.energies.base import Conditional, DriftNoise, Energy
from coldness.energies.classifier import ClassifierEnergy
from coldness.energies.compose import Mixture, Sum, Tempered
from coldness.energies.coordinates import Coordinates
from coldness.energies.coupling import check_uncoupled
from coldness.energies.scalar import ScalarEnergy

__all__ = [
    "ClassifierEnergy",
    "Conditional",
    "Coordinates",
    "DriftNoise",
    "Energy",
    "Gaussian",
    "GaussianMixture",
    "Mixture",
    "PlanarRings",
    "RadialRings",
    "ScalarEnergy",
    "Sum",
    "Tempered",
    "check_uncoupled",
]
