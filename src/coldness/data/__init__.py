"""Data: streams of examples, with the exact density where it is known."""

from coldness.data.attributes import Attributes
from coldness.data.augmentation import Augmentation, Compose, CropFlip, Flip
from coldness.data.base import Attributed, Data, HeldOut, KnownDensity, Labelled
from coldness.data.blur import Blur
from coldness.data.colour import ColourJitter, Grey
from coldness.data.digits import Digits
from coldness.data.geometry import Affine
from coldness.data.given import (
    TestPoints,
    as_data,
    domain_of,
    fingerprint,
    in_model,
    read_rows,
    tensor_of,
    test_data,
)
from coldness.data.image_files import Images
from coldness.data.images import ImageData, Pictures
from coldness.data.modes import SeparatedModes
from coldness.data.points import Points
from coldness.data.resized_crop import ResizedCrop
from coldness.data.shapes import Shapes
from coldness.data.synthetic import EmbeddedRings, Mixture2D, Rings2D, Rings10D
from coldness.data.table import Table
from coldness.data.table_units import TableUnits

__all__ = [
    "Affine",
    "Attributed",
    "Attributes",
    "Augmentation",
    "Blur",
    "ColourJitter",
    "Compose",
    "CropFlip",
    "Data",
    "Digits",
    "EmbeddedRings",
    "Flip",
    "Grey",
    "HeldOut",
    "ImageData",
    "Images",
    "KnownDensity",
    "Labelled",
    "Mixture2D",
    "Pictures",
    "Points",
    "ResizedCrop",
    "Rings2D",
    "Rings10D",
    "SeparatedModes",
    "Shapes",
    "Table",
    "TableUnits",
    "TestPoints",
    "as_data",
    "domain_of",
    "fingerprint",
    "in_model",
    "read_rows",
    "tensor_of",
    "test_data",
]
