"""Your own images, or known ones by name.

A path is a folder of images, an .npz file, or a name: cifar10, say. Of a name, NAME_train.npz and
NAME_test.npz or NAME.npz are looked for in the folder of the environment variable COLDNESS_DATA;
then it is downloaded from the Hugging Face hub, which needs `pip install "coldness[hub]"`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch
from torch import Tensor

from coldness.data.augmentation import Augmentation
from coldness.data.hub import KNOWN, read_hub
from coldness.data.image_readers import read_folder, read_npz
from coldness.data.images import BadImages, ImageData, Pictures

FOLDER = "COLDNESS_DATA"


class Images(ImageData):
    """Images of one size from a folder, a file or the hub.

    Args:
        path: folder with a folder of images for each class, or of images without classes; .npz
            with `images`, and `labels` where there are classes; a name; or hub:OWNER/NAME.
        test_path: the same for the test part, where it has a path of its own.
        held_out: share of every class kept for testing where there is no test part.
        split_seed: of the draw of the parts.
        validation: share of every class of the training part kept for choosing when to stop.
        limit: at most so many training images, of all classes as before.
        size: cut images to their central square, averaged by area to size x size.
        augmentation: of training batches.
        dequantise: add uniform noise of one level in 256.
    """

    def __init__(
        self,
        path: str,
        test_path: str | None = None,
        held_out: float = 0.1,
        split_seed: int = 0,
        validation: float = 0.0,
        limit: int | None = None,
        size: int | None = None,
        augmentation: Augmentation | None = None,
        dequantise: bool = False,
    ) -> None:
        train, test = _read(path, size)
        if train is None:
            raise BadImages(f"{path} has a test part in {os.environ[FOLDER]} and no training part")
        if test_path is not None:
            own, of_test = _read(test_path, size, train.classes)
            test = of_test or own
        if test is not None:
            test = _with_classes(test, train.classes)
        super().__init__(
            train,
            test,
            held_out=held_out,
            split_seed=split_seed,
            validation=validation,
            limit=limit,
            augmentation=augmentation,
            dequantise=dequantise,
        )


def read_images(path: str, size: int | None = None) -> Tensor:
    """Images uint8 (N, C, H, W) to look at, without labels: the test part where there is one.

    Raises:
        BadImages: in one line, what is wrong with them.
    """
    train, test = _read(path, size, labelled=False)
    pictures = test or train
    assert pictures is not None
    return pictures.images


def _read(
    path: str, size: int | None, classes: tuple[str, ...] = (), labelled: bool = True
) -> tuple[Pictures | None, Pictures | None]:
    """The training and the test part, or all in the first where there is one part."""
    at = Path(path)
    if at.suffix == ".npz":
        if not at.is_file():
            raise BadImages(f"there is no file {path}{_where(at)}")
        return read_npz(at, size, classes, labelled), None
    if at.is_dir():
        return read_folder(at, size), None
    if at.is_file():
        raise BadImages(f"{path} must be a folder of images, an .npz file or a name")
    if path.startswith("hub:"):
        return read_hub(path.removeprefix("hub:"), size)
    if not re.fullmatch(r"[\w-]+", path):
        raise BadImages(f"there is no folder {path}{_where(at)}")
    files = _by_name(path)
    if not files and path in KNOWN:
        return read_hub(path, size)
    if not files:
        raise BadImages(
            f"there is no folder {path}{_where(at)}, no {path}.npz nor {path}_train.npz in "
            f"{os.environ.get(FOLDER) or f'${FOLDER}, which is not set'}, and no known name "
            f"{path}; known are {', '.join(KNOWN)}"
        )
    train = test = None
    if "train" in files:
        train = read_npz(files["train"], size, classes, labelled)
        classes = classes or train.classes
    if "test" in files:
        test = read_npz(files["test"], size, classes, labelled)
    return train, test


def _by_name(name: str) -> dict[str, Path]:
    """Files of a name in the folder of the environment, by part; of one file, train."""
    if not os.environ.get(FOLDER):
        return {}
    folder = Path(os.environ[FOLDER])
    files = {part: folder / f"{name}_{part}.npz" for part in ("train", "test")}
    found = {part: file for part, file in files.items() if file.is_file()}
    single = folder / f"{name}.npz"
    return found or ({"train": single} if single.is_file() else {})


def _with_classes(pictures: Pictures, classes: tuple[str, ...]) -> Pictures:
    """Labels of the test part by the classes of the training part, found by name."""
    for name in pictures.classes:
        if name not in classes:
            raise BadImages(f"class {name} of the test part is not one of the training part")
    numbers = torch.tensor([classes.index(name) for name in pictures.classes])
    return Pictures(pictures.images, numbers[pictures.labels], classes)


def _where(path: Path) -> str:
    return "" if path.is_absolute() else f" in {Path.cwd()}"
