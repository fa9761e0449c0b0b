"""Your own images, or well-known data sets by name.

A path is a folder of images, an .npz file, or a name such as cifar10. For a name, NAME_train.npz
and NAME_test.npz, or NAME.npz, are first looked for in the folder that the environment variable
COLDNESS_DATA names. If they are not there, the data set is downloaded from the Hugging Face hub,
which needs `pip install "coldness[hub]"`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from coldness.data.augmentation import Augmentation
from coldness.data.hub import KNOWN, read_hub
from coldness.data.image_readers import ENDINGS, named_as_image, read_folder, read_image, read_npz
from coldness.data.images import BadImages, ImageData, Pictures

FOLDER = "COLDNESS_DATA"


class Images(ImageData):
    """Images of equal size from a folder, a file or the Hugging Face hub.

    Args:
        path: folder with one folder of images per class, or with images without classes; .npz
            file with `images` and, if there are classes, `labels`; name such as cifar10; or
            hub:OWNER/NAME.
        test_path: path of the test part, in the same forms; None (null in YAML) if it has none.
        held_out: fraction of every class kept for testing if there is no test part.
        split_seed: seed of the random split.
        validation: fraction of every class of the training part kept for choosing when to stop.
        limit: largest number of training images, with the same fractions of classes; None (null
            in YAML) for all.
        size: crop images to their central square and average them by area to size x size pixels;
            None (null in YAML) to keep their size.
        augmentation: augmentation of training batches; None (null in YAML) for none.
        dequantise: whether to add uniform noise of one of 256 levels.
        attributes_path: file with the attributes of the images of a folder: CelebA's list_attr text
            file, or a .csv file with a header and the names of images in the first column; None
            (null in YAML) for none. Those of an .npz file are in it, as `attributes` (N, A).
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
        attributes_path: str | None = None,
    ) -> None:
        listed = None if attributes_path is None else _found(attributes_path, path, test_path)
        train, test = _read(path, size, attributes=listed)
        if train is None:
            raise BadImages(f"{path} has a test part in {os.environ[FOLDER]} but no training part")
        if test_path is not None:
            own, of_test = _read(test_path, size, train.classes, attributes=listed)
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
    """Reads images uint8 (N, C, H, W) without labels, from the test part if there is one.

    Args:
        path: a path as of `Images`, or one image file, such as three.png.
        size: crop images to their central square and average them to size x size; None to keep
            their size.
    Raises:
        BadImages: if they cannot be read; the message is one line.
    """
    at = Path(path)
    if named_as_image(at) and not at.is_dir():
        if not at.is_file():
            raise BadImages(f"there is no file {path}{_where(at)}")
        return read_image(at, size)
    if at.is_file() and at.suffix != ".npz":
        raise BadImages(
            f"{path} must be an image file ({', '.join(ENDINGS)}), a folder of images, an .npz "
            "file or a name"
        )
    train, test = _read(path, size, labelled=False)
    pictures = test or train
    assert pictures is not None
    return pictures.images


def _read(
    path: str,
    size: int | None,
    classes: tuple[str, ...] = (),
    labelled: bool = True,
    attributes: Path | None = None,
) -> tuple[Pictures | None, Pictures | None]:
    """Reads the training part and the test part; if there is only one part, it comes first."""
    at = Path(path)
    if at.suffix == ".npz":
        if not at.is_file():
            raise BadImages(f"there is no file {path}{_where(at)}")
        return read_npz(at, size, classes, labelled), None
    if at.is_dir():
        return read_folder(at, size, attributes), None
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
            f"there is no folder {path}{_where(at)}, no {path}.npz or {path}_train.npz in "
            f"{os.environ.get(FOLDER) or f'${FOLDER}, which is not set'}, and no known name "
            f"{path}; known names are {', '.join(KNOWN)}"
        )
    train = test = None
    if "train" in files:
        train = read_npz(files["train"], size, classes, labelled)
        classes = classes or train.classes
    if "test" in files:
        test = read_npz(files["test"], size, classes, labelled)
    return train, test


def _by_name(name: str) -> dict[str, Path]:
    """Finds the files of a name in the folder COLDNESS_DATA, by part; a single file is train."""
    if not os.environ.get(FOLDER):
        return {}
    folder = Path(os.environ[FOLDER])
    files = {part: folder / f"{name}_{part}.npz" for part in ("train", "test")}
    found = {part: file for part, file in files.items() if file.is_file()}
    single = folder / f"{name}.npz"
    return found or ({"train": single} if single.is_file() else {})


def _with_classes(pictures: Pictures, classes: tuple[str, ...]) -> Pictures:
    """Renumbers the labels of the test part to match the class names of the training part."""
    for name in pictures.classes:
        if name not in classes:
            raise BadImages(f"class {name} of the test part must also be in the training part")
    numbers = torch.tensor([classes.index(name) for name in pictures.classes])
    return replace(pictures, labels=numbers[pictures.labels], classes=classes)


def _found(file: str, *paths: str | None) -> Path:
    """Checks that there is a file, and a folder of images that it belongs to."""
    if not any(path is not None and Path(path).is_dir() for path in paths):
        raise BadImages(
            "attributes_path is for folders of images: the attributes of an .npz file must be in "
            "it, as an array called attributes"
        )
    if not Path(file).is_file():
        raise BadImages(f"there is no file {file}{_where(Path(file))}")
    return Path(file)


def _where(path: Path) -> str:
    return "" if path.is_absolute() else f" in {Path.cwd()}"
