"""Data: streams of examples, with the exact density where it is known."""

from coldness.data.attributes import Attributes
from coldness.data.augmentation import Augmentation, CropFlip
from coldness.data.base import Attributed, Data, HeldOut, KnownDensity, Labelled
from coldness.data.digits import Digits
from coldness.data.given import TestPoints, as_data, domain_of, fingerprint, tensor_of, test_data
from coldness.data.image_files import Images
from coldness.data.images import ImageData, Pictures
from coldness.data.modes import SeparatedModes
from coldness.data.points import Points
from coldness.data.shapes import Shapes
from coldness.data.synthetic import EmbeddedRings, Mixture2D, Rings2D, Rings10D

__all__ = [
    "Attributed",
    "Attributes",
    "Augmentation",
    "CropFlip",
    "Data",
    "Digits",
    "EmbeddedRings",
    "HeldOut",
    "ImageData",
    "Images",
    "KnownDensity",
    "Labelled",
    "Mixture2D",
    "Pictures",
    "Points",
    "Rings2D",
    "Rings10D",
    "SeparatedModes",
    "Shapes",
    "TestPoints",
    "as_data",
    "domain_of",
    "fingerprint",
    "tensor_of",
    "test_data",
]
