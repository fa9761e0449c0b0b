"""Data: streams of examples, with their exact law where it is known."""

from coldness.data.base import Data, KnownDensity
from coldness.data.synthetic import Mixture2D, Rings2D, Rings10D

__all__ = ["Data", "KnownDensity", "Mixture2D", "Rings2D", "Rings10D"]
