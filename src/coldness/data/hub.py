"""Images from the Hugging Face hub.

They are read with the library `datasets`, an optional dependency that is imported only here:
pip install "coldness[hub]"
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from coldness.data.image_readers import stacked
from coldness.data.images import ONE_CLASS, BadImages, Pictures

KNOWN: dict[str, tuple[str, ...]] = {
    "cifar10": ("uoft-cs/cifar10",),
    "cifar100": ("uoft-cs/cifar100",),
    "svhn": ("ufldl-stanford/svhn", "cropped_digits"),
    "mnist": ("ylecun/mnist",),
    "fashion_mnist": ("zalando-datasets/fashion_mnist",),
}
"""Short names, with the name of the data set on the hub and its configuration if it has several."""


def read_hub(name: str, size: int | None = None) -> tuple[Pictures, Pictures | None]:
    """Reads the parts `train` and `test` of a data set; the second is None if it has no `test`.

    The first column of images is read, and the first column of class labels if there is one.

    Args:
        name: one of KNOWN, or OWNER/NAME.
        size: crop every image to its central square and average it to size x size; None to keep
            the size.
    Raises:
        BadImages: if `datasets` is not installed, or the download fails.
    """
    try:
        datasets = import_module("datasets")
    except ImportError as error:
        where = f"; or {name}_train.npz and {name}_test.npz in $COLDNESS_DATA"
        raise BadImages(
            f'{name} has to be downloaded, which needs: pip install "coldness[hub]"'
            + where * (name in KNOWN)
        ) from error
    try:
        parts = datasets.load_dataset(*KNOWN.get(name, (name,)))
    # The network and the library of the hub raise too many kinds of errors to list.
    except Exception as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadImages(f"{name} cannot be downloaded: {line}") from error
    if "train" not in parts:
        raise BadImages(f"{name} must have a part train on the hub, got {', '.join(parts)}")
    train, test = (
        _pictures(parts[part], f"{name} {part}", datasets, size) if part in parts else None
        for part in ("train", "test")
    )
    assert train is not None
    return train, test


def _pictures(rows: Any, name: str, datasets: Any, size: int | None) -> Pictures:
    kinds = rows.features
    images = next((key for key, kind in kinds.items() if isinstance(kind, datasets.Image)), None)
    label = next(
        (key for key, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)), None
    )
    if images is None:
        raise BadImages(f"{name} must have a column of images, got {', '.join(kinds)}")
    x = stacked(((f"{name} {k}", row[images]) for k, row in enumerate(rows)), size)
    if label is None:
        return Pictures(x, torch.zeros(len(x), dtype=torch.int64), (ONE_CLASS,))
    labels, classes = torch.tensor(rows[label]), tuple(kinds[label].names)
    if not bool(((labels >= 0) & (labels < len(classes))).all()):
        raise BadImages(f"{name} has images without a label on the hub")
    return Pictures(x, labels, classes)
