"""Energies: E(x), its coldness c, and the potential U = c E."""

from coldness.energies.analytic import Gaussian, GaussianMixture, PlanarRings, RadialRings
from coldness.energies.base import NOTHING, DriftNoise, Energy, Given, Kept, NetworkEnergy
from coldness.energies.classifier import ClassifierEnergy
from coldness.energies.compose import Mixture, Sum, Tempered
from coldness.energies.coordinates import Coordinates
from coldness.energies.coupling import check_coordinates, check_uncoupled
from coldness.energies.latent import LatentEnergy, MultiHeadEnergy, SphericalEnergy
from coldness.energies.reference import FittedMixture
from coldness.energies.scalar import ScalarEnergy

__all__ = [
    "NOTHING",
    "ClassifierEnergy",
    "Coordinates",
    "DriftNoise",
    "Energy",
    "FittedMixture",
    "Gaussian",
    "GaussianMixture",
    "Given",
    "Kept",
    "LatentEnergy",
    "Mixture",
    "MultiHeadEnergy",
    "NetworkEnergy",
    "PlanarRings",
    "RadialRings",
    "ScalarEnergy",
    "SphericalEnergy",
    "Sum",
    "Tempered",
    "check_coordinates",
    "check_uncoupled",
]
