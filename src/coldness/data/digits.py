"""Handwritten digits included in scikit-learn: 1,797 images of 8 x 8, pixel values 0 ... 16.

References:
    Optical Recognition of Handwritten Digits (Alpaydin, Kaynak, 1998), UCI Machine Learning
    Repository; only the test set.
"""

from __future__ import annotations

from importlib import import_module

import torch

from coldness.data.augmentation import Augmentation
from coldness.data.images import ImageData, Pictures

LEVELS = 17


class Digits(ImageData):
    """Handwritten digits, 8 x 8 pixels with values 0 ... 16, in ten classes of 174 to 183 images.

    Args:
        held_out: fraction of every class kept for testing.
        split_seed: seed of the random split.
        validation: fraction of every class of the training part kept for choosing when to stop.
        augmentation: augmentation of training batches, such as CropFlip(1, flip=False); None for
            none.
        dequantise: whether to add uniform noise of one level.
    """

    def __init__(
        self,
        held_out: float = 0.2,
        split_seed: int = 0,
        validation: float = 0.0,
        augmentation: Augmentation | None = None,
        dequantise: bool = False,
    ) -> None:
        digits = import_module("sklearn.datasets").load_digits()  # the import takes a second
        pictures = Pictures(
            torch.from_numpy(digits.images).to(torch.uint8)[:, None],
            torch.from_numpy(digits.target).long(),
            tuple(str(k) for k in range(10)),
        )
        super().__init__(
            pictures,
            held_out=held_out,
            split_seed=split_seed,
            validation=validation,
            augmentation=augmentation,
            dequantise=dequantise,
            levels=LEVELS,
        )
