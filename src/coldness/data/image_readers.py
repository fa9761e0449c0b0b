"""Readers of images from folders, image files and .npz files.

No code in a file is executed, and every error message is one line.
"""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from coldness.data.array_files import check_arrays
from coldness.data.attribute_files import attributes_of, read_attributes
from coldness.data.images import ONE_CLASS, BadImages, Pictures

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
"""Endings of image files; other files in a folder are ignored."""

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
"""Formats that are read, whatever the name of a file is: decoders of Pillow itself. Others start
programs, such as Ghostscript for EPS."""

MOST_PIXELS = 50_000_000
"""Most pixels of an image file; a few kilobytes can stand for billions."""

GREY = ("1", "L", "LA")
DEEP = ("I", "F")
"""Modes of Pillow with one channel, and those with more than 8 bits per pixel."""

NAMES = ("images", "labels", "classes", "attributes", "attribute_names")
"""Arrays that are read from .npz files; all but the first may be missing."""

AT_ONCE = 4096
"""Number of images averaged at a time."""

Bytes = NDArray[np.uint8]


def read_folder(folder: Path, size: int | None = None, attributes: Path | None = None) -> Pictures:
    """Reads the images of a folder: one class per folder in it, or one class if there is none.

    The images are in colour if any of them is. Transparency is dropped, and photographs are rotated
    upright by their EXIF data.

    Args:
        folder: folder of images; folders within the folder of a class belong to that class.
        size: crop every image to its central square and average it to size x size; None to keep
            the size.
        attributes: text or .csv file with the attributes of the images (attribute_files.py); None
            if they have none.
    """
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    folders = [path for path in inside if path.is_dir()]
    here = [path for path in inside if _is_image(path)]
    if {"train", "test"} <= {path.name for path in folders}:
        raise BadImages(f"{folder} holds train and test: give them as path and as test_path")
    if folders and here:
        raise BadImages(
            f"{folder} must hold either images or folders of classes, got both: {here[0].name} is "
            "an image beside folders"
        )
    found = {path.name: sorted(filter(_is_image, path.rglob("*"))) for path in folders}
    found = found or {ONE_CLASS: here}
    if not any(found.values()):
        raise BadImages(f"{folder} holds no images; their names must end in {', '.join(ENDINGS)}")
    for name, files in found.items():
        if not files:
            raise BadImages(f"class {name} has no images in {folder / name}")
    files = [file for members in found.values() for file in members]
    labels = [k for k, members in enumerate(found.values()) for _ in members]
    names = [file.relative_to(folder).as_posix() for file in files]
    known = None if attributes is None else read_attributes(attributes, names)
    images = stacked(((str(file), _open(file)) for file in files), size)
    return Pictures(images, torch.tensor(labels), tuple(found), known)


def read_image(file: Path, size: int | None = None) -> Tensor:
    """Reads one image file, uint8 (1, C, H, W); `size` is that of `read_folder`."""
    return stacked([(str(file), _open(file))], size)


def read_npz(
    path: Path, size: int | None = None, classes: Sequence[str] = (), labelled: bool = True
) -> Pictures:
    """Reads the images of an .npz file.

    Args:
        path: file with `images`, uint8 or floats in [0, 1], of shape (N, H, W, C) if the last size
            is 1 or 3, else (N, C, H, W), or (N, H, W); `labels`, integers (N,), if there are
            classes; `classes`, their names, if they have names; `attributes` (N, A), 0 and 1 or -1
            and 1, if there are attributes; and `attribute_names` (A,), if they have names.
        size: crop every image to its central square and average it to size x size; None to keep
            the size.
        classes: class names to use if the file has none, such as those of the training part.
        labelled: whether to read labels, classes and attributes.
    """
    arrays = _arrays(path, NAMES if labelled else NAMES[:1])
    pixels = _as_bytes(_channels_first(arrays["images"], path), path)
    images = averaged(torch.from_numpy(pixels), size, str(path))
    attributes = attributes_of(arrays, len(images), path)
    if "labels" not in arrays:
        none = torch.zeros(len(images), dtype=torch.int64)
        return Pictures(images, none, (ONE_CLASS,), attributes)
    labels = arrays["labels"]
    if not np.issubdtype(labels.dtype, np.integer):
        raise BadImages(f"labels of {path} must be integers, got {labels.dtype}")
    if labels.shape != (len(images),):
        raise BadImages(
            f"{path} holds {len(images)} images but labels of shape {labels.shape}: "
            "there must be one label per image"
        )
    names = [str(name) for name in arrays["classes"].ravel()] if "classes" in arrays else classes
    most = len(names) or len(images)
    bad = np.flatnonzero((labels < 0) | (labels >= most))
    if len(bad):
        raise BadImages(
            f"labels of {path} must be in 0 ... {most - 1}, because there are {most} "
            f"{'classes' if names else 'images'}; got {labels[bad[0]]} at index {bad[0]}"
        )
    names = names or [str(k) for k in range(int(labels.max()) + 1)]
    return Pictures(images, torch.from_numpy(labels.astype(np.int64)), tuple(names), attributes)


def pictures_of(images: NDArray[Any]) -> Pictures:
    """Converts an array of images, in a form that `read_npz` accepts, without classes."""
    x = torch.from_numpy(_as_bytes(_channels_first(images, "data"), "data"))
    return Pictures(x, torch.zeros(len(x), dtype=torch.int64), (ONE_CLASS,))


def stacked(images: Iterable[tuple[str, Image.Image]], size: int | None = None) -> Tensor:
    """Stacks opened images, given with their names, into uint8 (N, C, H, W)."""
    arrays: list[Tensor] = []
    first = ""
    for name, image in images:
        array = averaged(torch.from_numpy(_pixels(name, image))[None], size, name)[0]
        first = first or name
        if arrays and array.shape[1:] != arrays[0].shape[1:]:
            raise BadImages(
                f"images must have the same size: {first} is {_size(arrays[0])}, {name} is "
                f"{_size(array)}; the option size crops and scales them to one size"
            )
        arrays.append(array)
    channels = max(len(array) for array in arrays)
    return torch.stack([array.expand(channels, -1, -1) for array in arrays])


def averaged(images: Tensor, size: int | None, name: str) -> Tensor:
    """Averages the central squares of uint8 images (N, C, H, W) by area to size x size."""
    if size is None:
        return images
    height, width = images.shape[2:]
    side = min(height, width)
    if not 1 <= size <= side:
        raise BadImages(
            f"size must be in 1 ... {side}, because {name} is {_size(images)}; got {size}"
        )
    top, left = (height - side) // 2, (width - side) // 2
    square = images[:, :, top : top + side, left : left + side]
    parts = [adaptive_avg_pool2d(x.float(), size).round().byte() for x in square.split(AT_ONCE)]
    return torch.cat(parts)


def _is_image(path: Path) -> bool:
    hidden = path.name.startswith(".")
    return path.is_file() and named_as_image(path) and not hidden


def named_as_image(path: Path) -> bool:
    """Whether the name ends like that of an image file; there need not be such a file."""
    return path.suffix.lower() in ENDINGS


def _open(file: Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of many pixels, which are refused below
            image = Image.open(file, formats=FORMATS)
        with image:
            if image.width * image.height > MOST_PIXELS:
                size = f"{image.height:,} x {image.width:,}"
                raise BadImages(f"{file} is {size}; at most {MOST_PIXELS:,} pixels are read")
            return ImageOps.exif_transpose(image)
    except BadImages:
        raise
    # Pillow's decoders raise many kinds of errors for broken files.
    except Exception as error:
        raise BadImages(f"{file} cannot be read as an image: {_line(error)}") from error


def _pixels(name: str, image: Image.Image) -> Bytes:
    """Returns the pixels of an image, (C, H, W)."""
    if image.mode.startswith(DEEP):
        raise BadImages(
            f"{name} must have 8 bits per channel or fewer, got more (Pillow mode {image.mode})"
        )
    upright = ImageOps.exif_transpose(image)
    if image.mode == "P":
        upright = upright.convert("RGBA")
    array = np.array(upright.convert("L" if image.mode in GREY else "RGB"))
    return np.ascontiguousarray(np.atleast_3d(array).transpose(2, 0, 1))


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Reads those of the named arrays that the file holds; the first must be there."""
    try:
        check_arrays(path)
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, NpzFile):
                raise BadImages(f"{path} must be an .npz file, got a single array")
            if names[0] not in loaded.files:
                raise BadImages(f"{path} must hold an array called {names[0]}, got {loaded.files}")
            return {name: loaded[name] for name in names if name in loaded.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, BadImages):
            raise
        line = _line(error)
        if "pickle" in line:
            line = "it holds Python objects, which are not loaded, for safety"
        raise BadImages(f"{path} cannot be read: {line}") from error


def _channels_first(images: NDArray[Any], path: Path | str) -> NDArray[Any]:
    shape = images.shape
    if len(shape) == 3:
        images = images[:, None]
    elif len(shape) == 4 and shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or images.shape[1] not in (1, 3) or not images.size:
        raise BadImages(
            f"images of {path} must be (N, H, W, C) or (N, C, H, W) with 1 or 3 channels, or "
            f"(N, H, W), got {shape}"
        )
    return images


def _as_bytes(images: NDArray[Any], path: Path | str) -> Bytes:
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    if not np.issubdtype(images.dtype, np.floating):
        raise BadImages(f"images of {path} must be uint8 or floats in [0, 1], got {images.dtype}")
    bad = np.flatnonzero(~np.isfinite(images).all((1, 2, 3)))
    if len(bad):
        raise BadImages(f"image {bad[0]} of {path} has a pixel that is NaN or infinite")
    bad = np.flatnonzero(((images < 0) | (images > 1)).any((1, 2, 3)))
    if len(bad):
        low, high = images[bad[0]].min(), images[bad[0]].max()
        raise BadImages(
            f"images of {path} are floats and must be in [0, 1], "
            f"but image {bad[0]} has values from {low:g} to {high:g}"
        )
    return np.ascontiguousarray((255 * images).round().astype(np.uint8))


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _size(image: Tensor) -> str:
    """Returns height x width as text."""
    return " x ".join(str(n) for n in image.shape[-2:])
