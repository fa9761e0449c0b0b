"""Readers of attributes, 0 and 1 or -1 and 1, for images in folders and in .npz files.

CelebA's form: the number of images, then the names of attributes, then one line per image.

    202599
    Young Male Smiling
    000001.jpg  1 -1  1

A .csv file: a header and one line per image, whose file name comes first.

    file,Young,Male,Smiling
    000001.jpg,1,0,1

File names are relative to the folder of images, or have no folder if that is enough to find them.
Every image of a folder needs a line; lines of other images are ignored, so that one file serves
the training part and the test part.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from coldness.data.attributes import Attributes
from coldness.data.images import BadImages

NUMBERS = {"0": 0, "1": 1, "-1": -1}

Lines = list[tuple[int, list[str]]]
"""Lines that are not empty, with their number and the words in them."""


def read_attributes(path: Path, files: Sequence[str]) -> Attributes:
    """Reads the attributes of images.

    Args:
        path: .csv file, or text file in CelebA's form.
        files: names of the images, relative to their folder.
    Raises:
        BadImages: if the file cannot be used; the message is one line.
    """
    names, lines = _read_csv(path) if path.suffix.lower() == ".csv" else _read_text(path)
    for name in names:
        if name in NUMBERS:
            raise BadImages(f"{path} must name its attributes before the first image, got {name}")
    rows: dict[str, list[int]] = {}
    for number, (file, *words) in lines:
        where = f"line {number} of {path}"
        if len(words) != len(names):
            raise BadImages(f"{where} has {len(words)} values, but there are {len(names)} names")
        for word, name in zip(words, names, strict=True):
            if word not in NUMBERS:
                raise BadImages(f"{where} must have 0, 1 or -1 for {name}, got {word}")
        if file in rows:
            raise BadImages(f"{where} names {file}, which has a line already")
        rows[file] = [NUMBERS[word] for word in words]
    twins = Counter(_bare(file) for file in files)
    values = np.array([rows[_name(file, rows, twins, path)] for file in files])
    return _attributes(values, tuple(names), path)


def attributes_of(arrays: Mapping[str, NDArray[Any]], count: int, path: Path) -> Attributes | None:
    """Returns the attributes among the arrays of an .npz file; None if there are none.

    Args:
        arrays: `attributes` (N, A), and `attribute_names` (A,) if they have names.
        count: N, the number of images.
        path: of the file, for messages.
    """
    if "attributes" not in arrays:
        if "attribute_names" in arrays:
            raise BadImages(f"{path} has attribute_names but no array called attributes")
        return None
    values = arrays["attributes"]
    if values.ndim != 2 or len(values) != count or not values.size:
        raise BadImages(
            f"{path} holds {count} images but attributes of shape {values.shape}: "
            "there must be one row per image and one column per attribute"
        )
    if values.dtype.kind not in "biuf":
        raise BadImages(f"attributes of {path} must be numbers, got {values.dtype}")
    if "attribute_names" not in arrays:
        return _attributes(values, tuple(f"attribute_{k}" for k in range(values.shape[1])), path)
    names = tuple(str(name) for name in arrays["attribute_names"].ravel())
    if len(names) != values.shape[1]:
        raise BadImages(f"{path} has {values.shape[1]} attributes but {len(names)} attribute_names")
    return _attributes(values, names, path)


def _read_text(path: Path) -> tuple[list[str], Lines]:
    text = _text(path).splitlines()
    lines = [(k, line.split()) for k, line in enumerate(text, 1) if line.strip()]
    if len(lines) < 3 or len(lines[0][1]) != 1 or not lines[0][1][0].isdecimal():
        raise BadImages(
            f"{path} must hold the number of images, then the names of attributes, then a line per "
            "image; only files that end in .csv may have commas and a header"
        )
    count, rows = int(lines[0][1][0]), lines[2:]
    if len(rows) != count:
        raise BadImages(f"{path} says that it has {count} images, but it has {len(rows)}")
    return lines[1][1], rows


def _read_csv(path: Path) -> tuple[list[str], Lines]:
    reader = csv.reader(_text(path).splitlines())
    try:
        lines = [(reader.line_num, [word.strip() for word in row]) for row in reader if row]
    except csv.Error as error:
        raise BadImages(f"{path} cannot be read: {error}") from error
    if len(lines) < 2 or len(lines[0][1]) < 2:
        raise BadImages(f"{path} must have a header with names of attributes and a line per image")
    return lines[0][1][1:], lines[1:]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadImages(f"{path} must be a text file") from error


def _bare(file: str) -> str:
    """Returns a file name without its folder."""
    return file.rpartition("/")[2]


def _name(file: str, rows: Mapping[str, Any], twins: Mapping[str, int], path: Path) -> str:
    """Returns the name under which an image has a line; twins: images per name without folder."""
    if file in rows:
        return file
    bare = _bare(file)
    if bare not in rows:
        raise BadImages(f"{path} has no line for the image {file}")
    if twins[bare] > 1:
        raise BadImages(f"{path} must name {file} with its folder: other images are called {bare}")
    return bare


def _attributes(values: NDArray[Any], names: tuple[str, ...], path: Path) -> Attributes:
    found = set(np.unique(values).tolist())
    other = sorted(found - {-1, 0, 1})
    if other or {-1, 0} <= found:
        got = f"{other[0]:g}" if other else "0 and -1"
        raise BadImages(f"attributes of {path} must be 0 and 1, or -1 and 1, got {got}")
    try:
        return Attributes(torch.from_numpy(values > 0), names)
    except ValueError as error:
        raise BadImages(f"{path}: {error}") from error
