"""Data: streams of examples, with their exact law where it is known."""

from coldness.data.base import Data, HeldOut, KnownDensity, Labelled
from coldness.data.points import Points
from coldness.data.synthetic import EmbeddedRings, Mixture2D, Rings2D, Rings10D

__all__ = [
    "Data",
    "EmbeddedRings",
    "HeldOut",
    "KnownDensity",
    "Labelled",
    "Mixture2D",
    "Points",
    "Rings2D",
    "Rings10D",
]
