"""Images: pixels stored as bytes and scaled to [-1, 1] for the model.

    x = 2 k / (L - 1) - 1       pixel values k = 0 ... L-1
    x = 2 (k + u) / L - 1       dequantised: u ~ U(0, 1), new at every draw

L is 256 for files. The data's own units are pixel values, k or k + u, and
log p(k + u) = log p(x) - D log(L / 2). For dequantised images, -log2 p / D is bits per dimension.

Batches, with or without labels, are drawn uniformly with replacement and independently of each
other; the generator is the only state. Only images that are drawn are converted to floats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from coldness.data.attributes import Attributes
from coldness.data.augmentation import Augmentation
from coldness.data.base import Attributed, Labelled
from coldness.domain import Domain, Pixels

MARGIN = 1.15
"""The box of images, whose values are in [-1, 1]."""

FINENESS = 2**16
"""u is a multiple of 1 / FINENESS: then k + u is exact in float32 and never rounds up to k + 1."""

ONE_CLASS = "all"
"""Name of the only class of images without classes."""


LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey value, as in picture files."""


class BadImages(ValueError):
    """Images that cannot be used; the message is one line."""


@dataclass(frozen=True)
class Pictures:
    """Images with their classes and attributes, as read from files.

    images: uint8 (N, C, H, W). labels: int64 (N,), in 0 ... K-1. classes: K names. attributes: of
    the N images; None if there are none.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    attributes: Attributes | None = None

    def __len__(self) -> int:
        return len(self.images)

    def at(self, index: Tensor) -> Pictures:
        attributes = None if self.attributes is None else self.attributes.at(index)
        return Pictures(self.images[index], self.labels[index], self.classes, attributes)


class ImageData(Labelled, Attributed):
    """Images in memory.

    Args:
        pictures: images for training, and for testing if `test` is None.
        test: images for testing only; None to split them off.
        held_out: fraction of every class kept for testing if there is no test part.
        split_seed: seed of the random split.
        validation: fraction of every class of the training part kept for choosing when to stop,
            which is never used for training or testing.
        limit: largest number of training images, with the same fractions of classes; None for all.
        augmentation: augmentation of training batches, not of test or validation images; pixels are
            rounded to whole values after it; None for none.
        dequantise: whether to add uniform noise of one level; it is fixed for test and validation
            images.
        levels: L, the number of pixel values.
    """

    def __init__(
        self,
        pictures: Pictures,
        test: Pictures | None = None,
        held_out: float = 0.1,
        split_seed: int = 0,
        validation: float = 0.0,
        limit: int | None = None,
        augmentation: Augmentation | None = None,
        dequantise: bool = False,
        levels: int = 256,
    ) -> None:
        generator = torch.Generator().manual_seed(split_seed)
        train = pictures
        _check_classes(train, "training")
        if test is None:
            train, test = _split(train, _share(held_out, "held_out"), generator)
            _check_classes(test, "testing", f" at held_out {held_out:g}")
            _check_classes(train, "training", f" at held_out {held_out:g}")
        elif test.images.shape[1:] != train.images.shape[1:]:
            raise BadImages(
                f"test images are {_size(test)} and training images {_size(train)}: "
                "both must have the same size"
            )
        else:
            test = _with_attributes(test, _attributes(train).names)
        kept = train.at(torch.arange(0))
        if validation:
            train, kept = _split(train, _share(validation, "validation"), generator)
            _check_classes(kept, "validation", f" at validation {validation:g}")
            _check_classes(train, "training", f" at validation {validation:g}")
        if limit is not None and limit < len(train):
            _, train = _split(train, max(limit, 0) / len(train), generator, exact=True)
            _check_classes(train, "training", f" at limit {limit}")
        self._train, self._test, self._validation = train, test, kept
        self.classes = train.classes
        self.train_labels, self.test_labels = train.labels, test.labels
        self.validation_labels = kept.labels
        known = _attributes(train)
        self.attribute_names, self.attribute_groups = known.names, known.groups
        self.train_attributes, self.test_attributes = known.values, _attributes(test).values
        self.validation_attributes = _attributes(kept).values
        self.augmentation, self.dequantise = augmentation, dequantise
        self.levels, self._units = levels, Pixels((levels if dequantise else levels - 1) / 2)
        self.box = MARGIN
        if augmentation is not None:  # fails now, not in training, if it does not fit the images
            self._augmented(train.images[:1], augmentation, torch.Generator())

    def __deepcopy__(self, memo: dict[int, Any]) -> ImageData:
        """Returns the object itself, because it never changes."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._train.images.shape[1:])

    @property
    def train(self) -> Tensor:  # type: ignore[override]
        """All training images as floats, 4 bytes per value; use `sample` for batches."""
        return self._fixed(self._train)

    @property
    def test(self) -> Tensor:  # type: ignore[override]
        return self._fixed(self._test)

    @property
    def validation(self) -> Tensor:  # type: ignore[override]
        """Validation images (V, C, H, W); V = 0 if the argument validation is 0."""
        return self._fixed(self._validation)

    @property
    def domain(self) -> Domain:
        return Domain(self.shape, self._units, self.classes, self.attribute_names)

    def from_bytes(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return self.shown(images * ((self.levels - 1) / 255), generator)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws from the training part with replacement, then augments and dequantises."""
        return self.sample_labelled(count, generator)[0]

    def sample_labelled(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(self._train), (count,), generator=generator)
        images = self._train.images[index]
        if self.augmentation is not None:
            images = self._augmented(images, self.augmentation, generator)
        return self.shown(images, generator), self.train_labels[index]

    def _augmented(
        self, images: Tensor, augmentation: Augmentation, generator: torch.Generator
    ) -> Tensor:
        """Changes bytes 0 ... L-1; where pixels are not only moved, as floats that are rounded."""
        if augmentation.moves_pixels:
            return augmentation(images, generator)
        half = (self.levels - 1) / 2
        x = augmentation(images.float() / half - 1, generator)
        return ((x + 1) * half).round().clamp(0, self.levels - 1)

    def reference(self, count: int, generator: torch.Generator) -> Tensor:
        return self._drawn_from(self._test, count, generator)

    def pair(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        train = self._drawn_from(self._train, count, generator)
        return train, self.reference(count, generator)

    def _drawn_from(self, part: Pictures, count: int, generator: torch.Generator) -> Tensor:
        """Draws from a part without replacement, at most the size of the smaller part."""
        count = min(count, len(self._train), len(self._test))
        order = torch.randperm(len(part), generator=generator)[:count]
        return self.shown(part.images[order], generator)

    def shown(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Converts pixel values 0 ... L-1 to the units of the model; dequantises if set."""
        x = images.float()
        if self.dequantise:
            u = torch.randint(FINENESS, x.shape, generator=generator, dtype=torch.float32)
            x += u / FINENESS
        return self.into_model(x)

    def _fixed(self, part: Pictures) -> Tensor:
        """Returns all images of a part, with the same noise at every call."""
        return self.shown(part.images, torch.Generator().manual_seed(0))


def _share(share: float, name: str) -> float:
    if not 0 < share < 1:
        raise BadImages(f"{name} must be between 0 and 1, got {share:g}")
    return share


def _split(
    pictures: Pictures, share: float, generator: torch.Generator, exact: bool = False
) -> tuple[Pictures, Pictures]:
    """Returns the rest and a fraction `share` of the images, each in the original order.

    The fraction holds for every class, rounded to the nearest image. If `exact`, the total number
    is exact too: counts are rounded down, and the classes with the largest remainders get the
    images that are left over.
    """
    parts = share * torch.bincount(pictures.labels, minlength=len(pictures.classes)).double()
    counts = parts.round().long()
    if exact:
        counts = parts.floor().long()
        left = round(share * len(pictures)) - int(counts.sum())
        counts[(parts - counts).argsort(descending=True, stable=True)[:left]] += 1
    taken = torch.zeros(len(pictures), dtype=torch.bool)
    for k, count in enumerate(counts.tolist()):
        members = (pictures.labels == k).nonzero()[:, 0]
        order = members[torch.randperm(len(members), generator=generator)]
        taken[order[:count]] = True
    return pictures.at(~taken), pictures.at(taken)


def _check_classes(pictures: Pictures, purpose: str, why: str = "") -> None:
    counts = torch.bincount(pictures.labels, minlength=len(pictures.classes))
    if not bool(counts.all()):
        name = pictures.classes[int((counts == 0).nonzero()[0])]
        raise BadImages(f"class {name} has no images for {purpose}{why}")


def _attributes(part: Pictures) -> Attributes:
    """Returns the attributes of a part, with no names and values (N, 0) if there are none."""
    return part.attributes or Attributes(torch.zeros(len(part), 0, dtype=torch.bool), ())


def _with_attributes(test: Pictures, names: tuple[str, ...]) -> Pictures:
    """Returns the test part with its attributes in the order of those of the training part."""
    own = _attributes(test)
    only_one = set(names) ^ set(own.names)
    if only_one:
        raise BadImages(
            f"attribute {min(only_one)} is in only one of the training part and the test part: "
            "both must have the same attributes"
        )
    return replace(test, attributes=own.ordered(names))


def _size(pictures: Pictures) -> str:
    return " x ".join(str(n) for n in pictures.images.shape[1:])


def in_channels(x: Tensor, channels: int) -> Tensor:
    """Images (N, C, H, W) in one channel or three: colours as grey values, or grey as colour."""
    if channels == 1 and x.shape[1] == 3:
        x = (x * torch.tensor(LUMA).reshape(3, 1, 1)).sum(1, keepdim=True)
    return x.expand(-1, channels, -1, -1)
