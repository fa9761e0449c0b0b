"""Attributes of images: reading them, parts, the saved domain, and every way to be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import coldness
from coldness.cards import MARK
from coldness.cli.main import main
from coldness.data import Attributes, Digits, ImageData, Images, Mixture2D, Pictures
from coldness.data.image_files import read_images
from coldness.data.images import BadImages
from coldness.domain import Domain, Pixels
from coldness.energies import ScalarEnergy
from coldness.nets import MLP

NAMES = ("young", "smiling")
COUNT = 20


def images() -> np.ndarray:
    """Every image has its number as the value of all pixels."""
    return np.arange(COUNT, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)


def values() -> np.ndarray:
    """Of image k: whether k is even, and whether it is at least 10."""
    k = np.arange(COUNT)
    return np.stack([k % 2 == 0, k >= 10], 1)


def expected(data: ImageData, x: torch.Tensor) -> list[list[bool]]:
    return [[k % 2 == 0, k >= 10] for k in data.original(x)[:, 0, 0, 0].round().int().tolist()]


def saved(folder: Path, name: str = "images.npz", **arrays: Any) -> str:
    np.savez(folder / name, **arrays)
    return str(folder / name)


def folder_of(path: Path, classes: bool = False) -> Path:
    for k, pixels in enumerate(images()):
        inside = path / ("a" if k < 12 else "b") if classes else path
        inside.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(inside / f"{k:02}.png")
    return path


def as_text(names: str = "young smiling", count: object = COUNT) -> str:
    rows = [f"{k:02}.png {2 * int(a) - 1} {2 * int(b) - 1}" for k, (a, b) in enumerate(values())]
    return "\n".join([str(count), names, *rows]) + "\n"


def as_csv(header: str = "file,young,smiling") -> str:
    rows = [f"{k:02}.png,{int(a)},{int(b)}" for k, (a, b) in enumerate(values())]
    return "\n".join([header, *rows]) + "\n"


def checked(data: ImageData) -> None:
    """Every part has the attributes of its own images."""
    assert data.attributed is data
    assert data.attribute_names == data.domain.attributes == NAMES
    assert data.attribute_groups == {}
    for name in ("train", "test", "validation"):
        assert len(getattr(data, name))
        found = getattr(data, f"{name}_attributes")
        assert found.dtype == torch.bool
        assert found.tolist() == expected(data, getattr(data, name))


# What the data says.


def test_data_without_attributes_says_so() -> None:
    assert Mixture2D().attributed is None
    data = Digits()
    assert data.attributed is None
    assert data.domain.attributes == data.attribute_names == ()
    assert data.train_attributes.shape == (len(data.train), 0)


def test_attributes_that_do_not_fit_together_are_refused() -> None:
    one = torch.tensor([[True, False], [True, True]])
    for names, groups, message in (
        (("a",), {}, r"1 attributes need values of shape \(N, 1\), got \(2, 2\)"),
        (("a", "a"), {}, "attribute a is named twice"),
        (("a", ""), {}, "attribute 1 has no name"),
        (("a", "b"), {"of": ("a", "c")}, "attribute c of a group must be one of"),
        (("a", "b"), {"of": ("a",), "to": ("a",)}, "attribute a of a group must be one of"),
        (("a", "b"), {"colour": ("a", "b")}, "example 1 must have exactly one colour"),
    ):
        with pytest.raises(ValueError, match=message):
            Attributes(one, names, groups)


# Reading.


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float32, "signed"])
def test_attributes_in_an_npz_file(kind: Any, tmp_path: Path) -> None:
    given = 2 * values().astype(int) - 1 if kind == "signed" else values().astype(kind)
    path = saved(tmp_path, images=images(), attributes=given, attribute_names=NAMES)
    checked(Images(path, held_out=0.3, validation=0.3))
    assert len(read_images(path)) == COUNT


def test_attributes_beside_labels_and_without_names(tmp_path: Path) -> None:
    path = saved(tmp_path, images=images(), attributes=values(), labels=np.arange(COUNT) % 2)
    data = Images(path, validation=0.2, limit=10)
    assert data.attribute_names == ("attribute_0", "attribute_1")
    assert data.classes == ("0", "1")
    assert data.train_attributes.tolist() == expected(data, data.train)
    assert data.train_labels.tolist() == [int(not even) for even, _ in expected(data, data.train)]


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize(("name", "text"), [("list_attr.txt", as_text()), ("attr.csv", as_csv())])
def test_attributes_of_a_folder(name: str, text: str, classes: bool, tmp_path: Path) -> None:
    """With or without folders of classes; the file may lie among the images and say more."""
    folder = folder_of(tmp_path / "folder", classes)
    (folder / name).write_text("\ufeff" * name.endswith("csv") + text)
    data = Images(str(folder), held_out=0.3, validation=0.3, attributes_path=str(folder / name))
    checked(data)
    (folder / ("a/03.png" if classes else "03.png")).unlink()
    fewer = Images(str(folder), held_out=0.3, validation=0.3, attributes_path=str(folder / name))
    checked(fewer)
    assert Images(str(folder)).attributed is None


def test_equal_names_in_two_folders_need_their_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder_of(tmp_path / "folder" / name)
    path, folder = tmp_path / "attr.csv", str(tmp_path / "folder")
    path.write_text(as_csv())
    with pytest.raises(BadImages, match=r"must name a/00\.png with its folder: other images are"):
        Images(folder, attributes_path=str(path))
    rows = [f"{of}/{k:02}.png,{int(of == 'a')}" for of in "ab" for k in range(COUNT)]
    path.write_text("\n".join(["file,in a", *rows]))
    data = Images(folder, attributes_path=str(path))
    assert torch.equal(data.train_attributes[:, 0], data.train_labels == 0)


def test_a_test_part_of_its_own(tmp_path: Path) -> None:
    """Its attributes may be in another order, and one file serves two folders."""
    train = saved(tmp_path, images=images(), attributes=values(), attribute_names=NAMES)
    other = {"attributes": values()[:, ::-1], "attribute_names": NAMES[::-1]}
    test = saved(tmp_path, "t.npz", images=images(), **other)
    checked(Images(train, test, validation=0.2))
    folder = folder_of(tmp_path / "folder", classes=True)
    (tmp_path / "attr.txt").write_text(as_text())
    parts = str(folder / "a"), str(folder / "b")
    checked(Images(*parts, validation=0.2, attributes_path=str(tmp_path / "attr.txt")))
    mixed = Images(train, parts[1], validation=0.2, attributes_path=str(tmp_path / "attr.txt"))
    checked(mixed)


# What is refused.

ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "few rows": ({"attributes": values()[1:]}, r"20 images but attributes of shape \(19, 2\)"),
    "one column": ({"attributes": values()[:, 0]}, r"attributes of shape \(20,\)"),
    "none": ({"attributes": values()[:, :0]}, r"attributes of shape \(20, 0\)"),
    "two": ({"attributes": 2 * values()}, "must be 0 and 1, or -1 and 1, got 2"),
    "both": ({"attributes": -1 * values()}, "must be 0 and 1, or -1 and 1, got 0 and -1"),
    "half": ({"attributes": values() / 2}, "or -1 and 1, got 0.5"),
    "nan": ({"attributes": np.where(values(), np.nan, 1)}, "or -1 and 1, got nan"),
    "text": ({"attributes": values().astype(str)}, "attributes of .* must be numbers"),
    "few names": ({"attributes": values(), "attribute_names": ["a"]}, "2 attributes but 1 attr"),
    "twice": ({"attributes": values(), "attribute_names": ["a", "a"]}, "a is named twice"),
    "no name": ({"attributes": values(), "attribute_names": ["a", ""]}, "attribute 1 has no name"),
    "names alone": ({"attribute_names": NAMES}, "attribute_names but no array called attributes"),
}


@pytest.mark.parametrize(("arrays", "message"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadImages, match=message) as caught:
        Images(saved(tmp_path, images=images(), **arrays))
    assert "\n" not in str(caught.value)


TEXTS: dict[str, tuple[str, bytes, str]] = {
    "count": ("a.txt", as_text(count=19).encode(), "says that it has 19 images, but it has 20"),
    "no count": ("a.txt", as_text(count="young").encode(), "must hold the number of images, then"),
    "csv as text": ("a.txt", as_csv().encode(), "only files that end in .csv may have commas"),
    "empty": ("a.txt", b"", "must hold the number of images, then the names"),
    "names missing": ("a.txt", as_text(names="00.png 1 -1").encode(), "must name its attributes"),
    "few names": ("a.txt", as_text("young").encode(), r"line 3 of .* has 2 values, .* 1 names"),
    "twice": ("a.txt", as_text("young young").encode(), "attribute young is named twice"),
    "value": (
        "a.txt", as_text().replace("03.png -1 -1", "03.png -1 2").encode(),
        "line 6 of .* must have 0, 1 or -1 for smiling, got 2",
    ),
    "mixed": (
        "a.txt", as_text().replace("03.png -1", "03.png 0").encode(), "got 0 and -1",
    ),
    "unknown image": (
        "a.txt", as_text().replace("03.png", "3.png").encode(), "has no line for the image 03.png",
    ),
    "line twice": (
        "a.txt", as_text().replace("04.png", "03.png").encode(),
        "line 7 of .* names 03.png, which has a line already",
    ),
    "not text": ("a.txt", b"\xff\xfe\x00\x01", "must be a text file"),
    "csv empty": ("a.csv", b"", "must have a header with names of attributes"),
    "csv names": ("a.csv", as_csv("00.png,1,0").encode(), "must name its attributes .* got 1"),
    "csv alone": ("a.csv", b"file\n00.png\n", "must have a header with names of attributes"),
    "csv value": ("a.csv", as_csv().replace("05.png,0", "05.png,yes").encode(), "got yes"),
    "csv short": ("a.csv", as_csv().replace("05.png,0,", "05.png,").encode(), "line 7 of .* 1 val"),
    "csv missing": ("a.csv", as_csv().replace("19.png,0,1\n", "").encode(), "image 19.png"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), TEXTS.values(), ids=TEXTS)
def test_files_that_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "folder")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadImages, match=message) as caught:
        Images(str(folder), attributes_path=str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_parts_with_other_attributes_are_refused(tmp_path: Path) -> None:
    train = saved(tmp_path, images=images(), attributes=values(), attribute_names=NAMES)
    plain = saved(tmp_path, "p.npz", images=images())
    names = ["a", "b"]
    other = saved(tmp_path, "o.npz", images=images(), attributes=values(), attribute_names=names)
    for paths, name in (
        ((train, other), "a"),
        ((train, plain), "smiling"),
        ((plain, train), "smi"),
    ):
        with pytest.raises(BadImages, match=f"attribute {name}.* is in only one of the training"):
            Images(*paths)
    with pytest.raises(BadImages, match="attributes_path is for folders of images"):
        Images(train, attributes_path=train)
    folder = folder_of(tmp_path / "folder")
    with pytest.raises(BadImages, match=r"there is no file /.*/nothing\.txt"):
        Images(str(folder), attributes_path=str(tmp_path / "nothing.txt"))


# Models and the command line.


def test_names_are_saved_with_the_model_and_older_models_have_none(tmp_path: Path) -> None:
    domain = Domain((1, 2, 2), Pixels(127.5), ("all",), NAMES)
    energy = ScalarEnergy(MLP(4, (8,)))
    energy.build(domain)
    folder = coldness.Model(energy, domain).save(tmp_path / "model")
    assert coldness.load(folder).domain == domain
    card = folder / "model.yaml"
    text = card.read_text()
    older = {k: v for k, v in yaml.safe_load(text).items() if k != "attributes"}
    card.write_text(f"{MARK}\n{yaml.safe_dump(older)}")
    assert coldness.load(folder).domain == Domain((1, 2, 2), Pixels(127.5), ("all",))


def test_bad_attributes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, listed = folder_of(tmp_path / "folder"), tmp_path / "list attr: 1.txt"
    listed.write_text(as_text(count=19))
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "data: Images\nenergy: {class_path: ScalarEnergy, init_args: {net: MLP}}\n"
        "temperature: {drift: 1.0, noise: 0.05}\noptimiser: Adam\n"
        "sources: [{start: GaussianNoise, kernel: Langevin, steps: 2}]\n"
    )
    words = ["--data.path", str(folder), "--data.attributes_path", str(listed)]
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"coldness: {listed} says that it has 19 images, but it has 20"
    assert not (tmp_path / "run").exists()


def test_parts_of_pictures_keep_their_attributes() -> None:
    known = Attributes(torch.from_numpy(values()), NAMES)
    pictures = Pictures(
        torch.from_numpy(images())[:, None], torch.zeros(COUNT, dtype=torch.int64), ("all",), known
    )
    some = pictures.at(torch.tensor([3, 12]))
    assert some.attributes is not None
    assert some.attributes.values.tolist() == [[False, False], [True, True]]
    assert some.attributes.names == NAMES
