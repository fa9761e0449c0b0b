"""Images: pixels kept as bytes, shown to the model in [-1, 1].

    x = 2 k / (L - 1) - 1       pixel values k = 0 ... L-1
    x = 2 (k + u) / L - 1       dequantised: u ~ U(0, 1), anew at every draw

L is 256 for files. The data's own units are pixel values, k or k + u, and
log p(k + u) = log p(x) - D log(L / 2): where dequantised, -log2 p / D is bits per dimension.

Batches are drawn uniformly with replacement and independently of each other, those with labels as
those without: the generator is the only state. Only what is drawn is turned into floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from coldness.data.augmentation import Augmentation
from coldness.data.base import Labelled
from coldness.domain import Domain, Pixels

MARGIN = 1.15
"""The box of images, which are in [-1, 1]."""

FINENESS = 2**16
"""u is a multiple of 1 / FINENESS: then k + u is exact in float32 and never rounds up to k + 1."""

ONE_CLASS = "all"
"""Name of the class of images without classes."""


class BadImages(ValueError):
    """Images that nothing can be learned from, in one line."""


@dataclass(frozen=True)
class Pictures:
    """Images and their classes, as they are read.

    images: uint8 (N, C, H, W). labels: int64 (N,), in 0 ... K-1. classes: K names.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def at(self, index: Tensor) -> Pictures:
        return Pictures(self.images[index], self.labels[index], self.classes)


class ImageData(Labelled):
    """Images in memory.

    Args:
        pictures: for training, and for testing where `test` is None.
        test: for testing alone.
        held_out: share of every class kept for testing where there is no test part.
        split_seed: of the draw of the parts.
        validation: share of every class of the training part that is never trained on nor tested:
            for choosing when to stop.
        limit: at most so many training images, of all classes as before.
        augmentation: of training batches; never of test or validation images.
        dequantise: add uniform noise of one level; in test and validation images it is fixed.
        levels: L, number of pixel values.
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
            raise BadImages(f"test images are {_size(test)} and training images {_size(train)}")
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
        self.augmentation, self.dequantise = augmentation, dequantise
        self.levels, self._units = levels, Pixels((levels if dequantise else levels - 1) / 2)
        self.box = MARGIN
        if augmentation is not None:  # refuses now what it cannot do
            augmentation(train.images[:1], torch.Generator())

    def __deepcopy__(self, memo: dict[int, Any]) -> ImageData:
        """Itself: nothing in it ever changes."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._train.images.shape[1:])

    @property
    def train(self) -> Tensor:  # type: ignore[override]
        """All of them as floats, 4 bytes a pixel: batches come from `sample`."""
        return self._fixed(self._train)

    @property
    def test(self) -> Tensor:  # type: ignore[override]
        return self._fixed(self._test)

    @property
    def validation(self) -> Tensor:  # type: ignore[override]
        """(V, C, H, W); V = 0 where no share was asked for."""
        return self._fixed(self._validation)

    @property
    def domain(self) -> Domain:
        return Domain(self.shape, self._units, self.classes)

    def from_bytes(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return self.shown(images * ((self.levels - 1) / 255), generator)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Drawn from the training part with replacement, augmented and dequantised."""
        return self.sample_labelled(count, generator)[0]

    def sample_labelled(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        drawn = self._train.at(torch.randint(len(self._train), (count,), generator=generator))
        images = drawn.images
        if self.augmentation is not None:
            images = self.augmentation(images, generator)
        return self.shown(images, generator), drawn.labels

    def reference(self, count: int, generator: torch.Generator) -> Tensor:
        return self._drawn_from(self._test, count, generator)

    def pair(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        train = self._drawn_from(self._train, count, generator)
        return train, self.reference(count, generator)

    def _drawn_from(self, part: Pictures, count: int, generator: torch.Generator) -> Tensor:
        """Without repetition, no more than the training and the test part have."""
        count = min(count, len(self._train), len(self._test))
        order = torch.randperm(len(part), generator=generator)[:count]
        return self.shown(part.images[order], generator)

    def shown(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Pixel values 0 ... L-1 in the coordinates of the model, dequantised where data is."""
        x = images.float()
        if self.dequantise:
            u = torch.randint(FINENESS, x.shape, generator=generator, dtype=torch.float32)
            x += u / FINENESS
        return self.into_model(x)

    def _fixed(self, part: Pictures) -> Tensor:
        """All of a part, the same at every call."""
        return self.shown(part.images, torch.Generator().manual_seed(0))


def _share(share: float, name: str) -> float:
    if not 0 < share < 1:
        raise BadImages(f"{name} must be between 0 and 1, got {share:g}")
    return share


def _split(
    pictures: Pictures, share: float, generator: torch.Generator, exact: bool = False
) -> tuple[Pictures, Pictures]:
    """The rest and the share, each in the old order.

    The share is that of every class to the nearest image; where it is to be exact, that of all
    images, with those that are left over in the classes that lost most of one by rounding down.
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


def _size(pictures: Pictures) -> str:
    return " x ".join(str(n) for n in pictures.images.shape[1:])
