"""Images: reading, parts, units, dequantisation, crops and flips; and every way to be wrong."""

from __future__ import annotations

import math
import struct
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

from coldness.cli.main import main
from coldness.data import CropFlip, Digits, ImageData, Images, Pictures
from coldness.data.image_files import FOLDER, read_images
from coldness.data.images import BadImages
from laws import FIVE_SIGMA, assert_mean, assert_share, generator


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def saved(folder: Path, name: str = "images.npz", **arrays: Any) -> str:
    np.savez(folder / name, **arrays)
    return str(folder / name)


def many(count: int = 60, classes: int = 3) -> Pictures:
    """Every image has its number as the value of all pixels."""
    images = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 4, 4)
    return Pictures(images.clone(), torch.arange(count) % classes, tuple("abcdefgh"[:classes]))


def numbers(data: ImageData, x: torch.Tensor) -> list[int]:
    """Of images of `many`, in the coordinates of the model."""
    return data.original(x)[:, 0, 0, 0].round().int().tolist()


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)


# Units.


def test_pixel_values_are_from_minus_one_to_one_and_come_back() -> None:
    k = torch.arange(256, dtype=torch.uint8).reshape(256, 1, 1, 1)
    both = Pictures(k, torch.zeros(256, dtype=torch.int64), ("all",))
    data = ImageData(both, both)
    x = data.train.flatten()
    assert (float(x[0]), float(x[255])) == (-1, 1)
    torch.testing.assert_close(x, 2 * torch.arange(256) / 255 - 1)
    assert torch.equal(data.original(data.train).round().byte(), k)
    assert torch.equal(data.into_model(k.float()), data.train)
    assert data.log_scale == pytest.approx(math.log(127.5))
    assert data.box > 1


def test_dequantised_values_are_uniform_in_the_bin_of_their_pixel() -> None:
    count = 50_000
    for k in (0, 200, 255):
        images = torch.full((1, 1, 1, 1), k, dtype=torch.uint8)
        one = Pictures(images, torch.zeros(1, dtype=torch.int64), ("all",))
        data = ImageData(one, one, dequantise=True)
        x = data.sample(count, generator(1))
        u = data.original(x).double().flatten() - k
        assert torch.equal(data.original(x).floor(), torch.full_like(x, k))
        assert float(x.min()) >= -1
        assert float(x.max()) < 1
        assert_mean(u, 0.5)
        assert_mean((u - 0.5).square(), 1 / 12)
        assert stats.kstest(u.numpy(), stats.uniform.cdf).pvalue > FIVE_SIGMA
        assert data.log_scale == pytest.approx(math.log(128))


def test_dequantised_pixels_are_independent_and_test_images_fixed() -> None:
    data = ImageData(many(), dequantise=True)
    x = data.original(data.sample(5000, generator(2))).double()
    u = (x - x.floor() - 0.5).flatten(1)
    for a, b in ((0, 1), (0, 4), (3, 15)):
        assert_mean(u[:, a] * u[:, b], 0.0)
    assert torch.equal(data.test, data.test)
    assert torch.equal(data.original(data.test).floor()[:, 0, 0, 0], data._test.images[:, 0, 0, 0])


# Parts.


def test_every_image_is_in_one_part_and_every_class_in_proportion() -> None:
    labels = torch.tensor([0] * 30 + [1] * 60 + [2] * 150)
    pictures = Pictures(torch.arange(240).byte().reshape(240, 1, 1, 1), labels, ("a", "b", "c"))
    data = ImageData(pictures, held_out=0.2, validation=0.25)
    parts = [numbers(data, x) for x in (data.train, data.validation, data.test)]
    assert sorted(k for part in parts for k in part) == list(range(240))
    for part, of in zip(
        parts, (data.train_labels, data.validation_labels, data.test_labels), strict=True
    ):
        assert torch.equal(labels[part], of)
    counts = [torch.bincount(of).tolist() for of in (data.train_labels, data.validation_labels)]
    assert counts == [[18, 36, 90], [6, 12, 30]]
    assert torch.bincount(data.test_labels).tolist() == [6, 12, 30]
    again, other = (ImageData(pictures, held_out=0.2, split_seed=seed) for seed in (0, 1))
    assert torch.equal(data.test, again.test)
    assert not torch.equal(data.test, other.test)
    assert len(again.validation) == len(again.validation_labels) == 0


def test_a_limit_leaves_test_and_validation_as_they_were() -> None:
    whole, small = (ImageData(many(), validation=0.2, limit=limit) for limit in (None, 12))
    assert torch.bincount(small.train_labels).tolist() == [4, 4, 4]
    assert set(numbers(small, small.train)) < set(numbers(whole, whole.train))
    assert torch.equal(small.test, whole.test)
    assert torch.equal(small.validation, whole.validation)
    assert len(ImageData(many(), limit=1000).train) == 54
    for limit in range(3, 54):
        counts = torch.bincount(ImageData(many(), limit=limit).train_labels)
        assert int(counts.sum()) == limit
        assert int(counts.max() - counts.min()) <= 1


def test_batches_are_training_images_with_equal_chances_and_their_labels() -> None:
    data = ImageData(many(), held_out=0.5)
    x, labels = data.sample_labelled(20_000, generator(3))
    seen = numbers(data, x)
    assert labels.tolist() == [k % 3 for k in seen]
    assert set(seen) == set(numbers(data, data.train))
    for k in set(seen):
        assert_share(seen.count(k), len(seen), 1 / 30)


def test_samples_are_compared_with_test_images_and_the_floor_with_both() -> None:
    data = ImageData(many(), augmentation=CropFlip(2))
    test, train = (set(numbers(data, x)) for x in (data.test, data.train))
    assert set(numbers(data, data.reference(4000, generator(4)))) == test
    x, y = data.pair(4000, generator(4))
    assert len(set(numbers(data, x))) == len(x) == len(y) == 6
    assert set(numbers(data, x)) <= train
    assert set(numbers(data, y)) == test


def test_digits() -> None:
    data = Digits()
    assert data.shape == (1, 8, 8)
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.classes == tuple("0123456789")
    own = data.original(torch.cat([data.train, data.test]))
    assert own.unique().tolist() == list(range(17))
    assert data.log_scale == pytest.approx(64 * math.log(8))
    assert Digits(dequantise=True).log_scale == pytest.approx(64 * math.log(8.5))
    # The nearest training image has the same label nearly always: labels belong to images.
    nearest = torch.cdist(data.test.flatten(1), data.train.flatten(1)).argmin(1)
    agree = data.train_labels[nearest] == data.test_labels
    assert float(agree.double().mean()) > 0.97


# Crops and flips.


def test_a_crop_of_a_constant_image_is_constant() -> None:
    x = pixels(50, 3)[:, :, None, None] * np.ones((1, 1, 6, 5), np.uint8)
    y = CropFlip(3)(torch.from_numpy(x), generator(5))
    assert torch.equal(y, torch.from_numpy(x))


def test_crops_are_windows_of_the_image_padded_by_reflection() -> None:
    """Every image is found at one corner of its padded self; corners and flips are uniform."""
    padding, count, (height, width) = 2, 9000, (7, 6)
    one = pixels(3, height, width)
    padded = np.pad(one, ((0, 0), (padding, padding), (padding, padding)), mode="reflect")
    x = torch.from_numpy(one).expand(count, -1, -1, -1)
    y = CropFlip(padding)(x, generator(6)).numpy()
    hits = np.zeros((2, 5, 5), int)
    for top in range(5):
        for left in range(5):
            window = padded[:, top : top + height, left : left + width]
            hits[0, top, left] = (y == window).all((1, 2, 3)).sum()
            hits[1, top, left] = (y == window[:, :, ::-1]).all((1, 2, 3)).sum()
    assert hits.sum() == count
    assert_share(int(hits[1].sum()), count, 0.5)
    assert stats.chisquare(hits.ravel()).pvalue > FIVE_SIGMA


def test_crops_without_padding_or_flip_change_nothing() -> None:
    x = torch.from_numpy(pixels(20, 3, 6, 6))
    assert torch.equal(CropFlip(0, flip=False)(x, generator(7)), x)
    flipped = CropFlip(0)(x, generator(7))
    kept = (flipped == x).flatten(1).all(1)
    assert torch.equal(flipped[~kept], x[~kept].flip(3))
    assert 0 < int(kept.sum()) < 20


def test_only_training_batches_are_augmented() -> None:
    """Rows 0, 1, 2, 3 in every image: a crop shows others."""
    images = torch.arange(4, dtype=torch.uint8)[:, None].expand(40, 1, 4, 4).clone()
    pictures = Pictures(images, torch.zeros(40, dtype=torch.int64), ("all",))
    data = ImageData(pictures, validation=0.2, augmentation=CropFlip(1, flip=False))
    rows = data.into_model(images[:1].float())
    for x in (data.train, data.test, data.validation, data.reference(4, generator(8))):
        assert torch.equal(x, rows.expand_as(x))
    for x in (data.sample(90, generator(8)), data.sample_labelled(90, generator(9))[0]):
        assert_share(int((x == rows).flatten(1).all(1).sum()), 90, 1 / 3)


def test_crops_that_are_refused() -> None:
    with pytest.raises(ValueError, match="padding must be >= 0, got -1"):
        CropFlip(-1)
    with pytest.raises(ValueError, match="smaller than the sides of the images, got 4 for 4 x 4"):
        ImageData(many(), augmentation=CropFlip(4))


# Reading.


def test_the_same_images_from_every_kind_of_file(tmp_path: Path) -> None:
    x, labels = pixels(30, 6, 5, 3), np.arange(30) % 2
    kinds = {
        "last": {"images": x},
        "first": {"images": x.transpose(0, 3, 1, 2)},
        "single": {"images": (x / 255).astype(np.float32)},
        "double": {"images": x / 255},
        "named": {"images": x, "classes": np.array(["0", "1"])},
    }
    datas = [
        Images(saved(tmp_path, f"{kind}.npz", labels=labels, **arrays))
        for kind, arrays in kinds.items()
    ]
    for k, (row, label) in enumerate(zip(x, labels, strict=True)):
        folder = tmp_path / "folder" / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(row).save(folder / f"{k:02}.{'png' if k % 4 else 'BMP'}")
        (folder / "notes.txt").write_text("not an image")
    for data in datas:
        assert data.shape == (3, 6, 5)
        assert data.classes == ("0", "1")
        assert torch.equal(data.train, datas[0].train)
        assert torch.equal(data.test_labels, datas[0].test_labels)
    folder_data = Images(str(tmp_path / "folder"), str(tmp_path / "folder"))
    order = np.argsort(labels, kind="stable")
    expected = torch.from_numpy(x[order].transpose(0, 3, 1, 2)).float()
    torch.testing.assert_close(folder_data.original(folder_data.train), expected)
    assert folder_data.train_labels.tolist() == labels[order].tolist()
    assert folder_data.classes == ("0", "1")


def test_images_without_classes_are_of_one(tmp_path: Path) -> None:
    from_file = Images(saved(tmp_path, images=pixels(20, 4, 4)))
    (tmp_path / "flat").mkdir()
    for k, row in enumerate(pixels(20, 4, 4)):
        Image.fromarray(row).save(tmp_path / f"flat/{k:02}.png")
    from_folder = Images(str(tmp_path / "flat"))
    for data in (from_file, from_folder):
        assert data.classes == ("all",)
        assert not bool(data.train_labels.any())
    assert torch.equal(from_file.train, from_folder.train)


def test_modes_of_images_in_a_folder(tmp_path: Path) -> None:
    """Grey beside colour is colour; palettes and transparency are read; grey alone is grey."""
    colour = Image.fromarray(np.full((4, 4, 3), (255, 0, 0), np.uint8))
    for k, image in enumerate([colour, colour.convert("RGBA"), colour.convert("P")]):
        image.save(tmp_path / f"{k}.png")
    assert read_images(str(tmp_path)).tolist() == [[[[v] * 4] * 4 for v in (255, 0, 0)]] * 3
    Image.fromarray(np.full((4, 4), 7, np.uint8)).save(tmp_path / "9.png")
    assert read_images(str(tmp_path))[3].tolist() == [[[7] * 4] * 4] * 3
    for k in range(3):
        (tmp_path / f"{k}.png").unlink()
    assert read_images(str(tmp_path)).shape == (1, 1, 4, 4)


def test_what_of_a_folder_is_read(tmp_path: Path) -> None:
    """Folders in a class belong to it, hidden files to nothing; photographs are set upright."""
    (tmp_path / "b/deeper").mkdir(parents=True)
    (tmp_path / "a").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a/.hidden.png").write_bytes(b"")
    x = np.array([[0, 0, 9], [0, 0, 0]], np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees to the right
    for name in ("a/1", "b/2", "b/deeper/3"):
        Image.fromarray(x).save(tmp_path / f"{name}.png", exif=exif)
    folder = str(tmp_path)
    data = Images(folder, folder)
    assert data.classes == ("a", "b")
    assert data.train_labels.tolist() == [0, 1, 1]
    assert read_images(folder).tolist() == [[[[0, 0], [0, 0], [0, 9]]]] * 3


def test_size_is_the_average_by_area_of_the_central_square(tmp_path: Path) -> None:
    x = pixels(20, 8, 10, 3)
    data = Images(saved(tmp_path, images=x), size=4)
    expected = x[:, :, 1:9].reshape(20, 4, 2, 4, 2, 3).astype(float).mean((2, 4))
    found = read_images(str(tmp_path / "images.npz"), 4).numpy().transpose(0, 2, 3, 1)
    assert data.shape == (3, 4, 4)
    assert np.abs(found - expected).max() <= 0.5
    for name, shape in {"a": (8, 8), "b": (16, 12)}.items():
        Image.fromarray(np.full(shape, 50, np.uint8)).save(tmp_path / f"{name}.png")
    assert read_images(str(tmp_path), 4).unique().tolist() == [50]


def test_a_test_part_of_its_own(tmp_path: Path) -> None:
    train = saved(tmp_path, images=pixels(20, 4, 4), labels=np.arange(20) % 3)
    test = saved(tmp_path, "test.npz", images=pixels(2, 4, 4, seed=1), labels=[2, 0])
    data = Images(train, test)
    assert (len(data.train), len(data.test)) == (20, 2)
    assert data.test_labels.tolist() == [2, 0]
    named = saved(tmp_path, "named.npz", images=pixels(2, 4, 4), labels=[0, 1], classes=["2", "1"])
    assert Images(train, named).test_labels.tolist() == [2, 1]


def test_names_are_looked_for_in_the_folder_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    saved(tmp_path, "cifar10_train.npz", images=pixels(20, 4, 4), labels=np.arange(20) % 2)
    saved(tmp_path, "cifar10_test.npz", images=pixels(1, 4, 4, seed=1), labels=[1])
    saved(tmp_path, "other_test.npz", images=pixels(5, 4, 4))
    saved(tmp_path, "mine.npz", images=pixels(20, 4, 4))
    data = Images("cifar10")
    assert (len(data.train), len(data.test)) == (20, 1)
    assert data.test_labels.tolist() == [1]
    assert (len(Images("mine").train), len(Images("mine").test)) == (18, 2)
    assert len(read_images("cifar10")) == 1
    assert len(read_images("other")) == 5
    with pytest.raises(BadImages, match=r"other has a test part in .* but no training part"):
        Images("other")
    with pytest.raises(BadImages, match=r"no nothing\.npz or nothing_train\.npz in /"):
        Images("nothing")


# The hub.


class Rows(list[dict[str, Any]]):
    def __init__(self, rows: list[dict[str, Any]], features: dict[str, Any]) -> None:
        super().__init__(rows)
        self.features = features

    def __getitem__(self, key: Any) -> Any:
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """In place of the library: a few sets of grey images; other names fail."""
    module = types.ModuleType("datasets")
    module.Image = type("Image", (), {})
    module.ClassLabel = type("ClassLabel", (), {"names": ["cat", "dog"]})
    features = {"id": object(), "img": module.Image(), "fine": module.ClassLabel()}
    module.calls = []

    def rows(count: int) -> Rows:
        x = pixels(count, 4, 4)
        return Rows(
            [{"id": k, "img": Image.fromarray(x[k]), "fine": k % 2} for k in range(count)], features
        )

    whole = {"train": rows(12), "test": rows(4)}
    sets = {
        "uoft-cs/cifar10": whole,
        "ufldl-stanford/svhn": whole,
        "me/alone": {"train": rows(30)},
        "me/odd": {"extra": rows(1)},
        "me/blank": {"train": Rows([{"id": 0}], {"id": object()})},
        "me/secret": {"train": Rows([{**rows(1)[0], "fine": -1}], features)},
    }

    def load_dataset(*name: str) -> dict[str, Rows]:
        module.calls.append(name)
        if name[0] not in sets:
            raise ConnectionError("no route to the hub\nand more")
        return sets[name[0]]

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_names_of_the_hub(hub: Any) -> None:
    data = Images("cifar10")
    assert data.shape == (1, 4, 4)
    assert data.classes == ("cat", "dog")
    assert data.train_labels.tolist() == [0, 1] * 6
    assert len(data.test) == 4
    assert len(Images("svhn", size=2).test) == 4
    assert len(Images("hub:uoft-cs/cifar10").train) == 12
    assert len(Images("hub:me/alone", held_out=0.2).test) == 6
    assert hub.calls == [
        ("uoft-cs/cifar10",),
        ("ufldl-stanford/svhn", "cropped_digits"),
        ("uoft-cs/cifar10",),
        ("me/alone",),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnist", "mnist cannot be downloaded: no route to the hub"),
        ("hub:a/b", "a/b cannot be downloaded: no route to the hub"),
        ("hub:me/odd", "me/odd must have a part train on the hub, got extra"),
        ("hub:me/blank", "me/blank train must have a column of images, got id"),
        ("hub:me/secret", "me/secret train has images without a label on the hub"),
    ],
)
@pytest.mark.usefixtures("hub")
def test_downloads_that_fail(name: str, message: str) -> None:
    with pytest.raises(BadImages) as caught:
        Images(name)
    assert str(caught.value) == message


def test_the_hub_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadImages, match=r'pip install "coldness\[hub\]"; or cifar10_train\.npz'):
        Images("cifar10")
    with pytest.raises(BadImages, match=r'a/b has to .*: pip install "coldness\[hub\]"$'):
        Images("hub:a/b")


# What is refused.


def with_pixel(value: float) -> np.ndarray:
    x = np.full((20, 4, 4), 0.5)
    x[[7, 9], 1, 2] = value
    return x


GOOD = pixels(20, 4, 4)
ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "no images": ({"x": GOOD, "y": GOOD}, r"must hold an array called images, got \['x', 'y'\]"),
    "one dimension": ({"images": np.zeros(5, np.uint8)}, r"or \(N, H, W\), got \(5,\)"),
    "two channels": ({"images": pixels(9, 4, 4, 2)}, r"1 or 3 channels, .* got \(9, 4, 4, 2\)"),
    "five dimensions": ({"images": pixels(2, 2, 4, 4, 3)}, r"got \(2, 2, 4, 4, 3\)"),
    "none": ({"images": pixels(0, 4, 4, 3)}, r"got \(0, 4, 4, 3\)"),
    "integers": ({"images": GOOD.astype(np.int64)}, r"uint8 or floats in \[0, 1\], got int64"),
    "text": ({"images": GOOD.astype(str)}, "uint8 or floats"),
    "objects": ({"images": GOOD.astype(object)}, "Python objects, which are not loaded"),
    "nan": ({"images": with_pixel(np.nan)}, "image 7 of .* has a pixel that is NaN or infinite"),
    "infinite": (
        {"images": with_pixel(np.inf)},
        "image 7 of .* has a pixel that is NaN or infinite",
    ),
    "range": ({"images": with_pixel(254)}, r"in \[0, 1\], but image 7 has values from 0.5 to 254"),
    "negative": ({"images": with_pixel(-1)}, r"in \[0, 1\], but image 7 has values from -1 to 0.5"),
    "float labels": ({"images": GOOD, "labels": np.zeros(20)}, "must be integers, got float64"),
    "few labels": ({"images": GOOD, "labels": np.zeros(19, int)}, r"20 images but .* \(19,\)"),
    "one-hot": ({"images": GOOD, "labels": np.zeros((20, 3), int)}, r"labels of shape \(20, 3\)"),
    "label below": (
        {"images": GOOD, "labels": np.arange(20) % 3 - 1},
        r"must be in 0 \.\.\. 19, because there are 20 images; got -1 at index 0",
    ),
    "label beyond": (
        {"images": GOOD, "labels": np.where(np.arange(20) == 5, 10**12, 0)},
        r"got 1000000000000 at index 5",
    ),
    "label without name": (
        {"images": GOOD, "labels": np.arange(20) % 3, "classes": ["a", "b"]},
        r"must be in 0 \.\.\. 1, because there are 2 classes; got 2 at index 2",
    ),
    "no image of a class": (
        {"images": GOOD, "labels": np.arange(20) % 2 * 2},
        "class 1 has no images for training$",
    ),
    "too few of a class": (
        {"images": GOOD, "labels": (np.arange(20) > 16).astype(int)},
        r"class 1 has no images for testing at held_out 0\.1",
    ),
}


@pytest.mark.parametrize(("arrays", "message"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_are_refused(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "images.npz", **arrays)
    with pytest.raises(BadImages, match=message) as caught:
        Images(str(tmp_path / "images.npz"))
    assert "\n" not in str(caught.value)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "held_out": ({"held_out": 0.0}, "held_out must be between 0 and 1, got 0"),
    "not a number": ({"held_out": math.nan}, "held_out must be between 0 and 1, got nan"),
    "validation": ({"validation": 1.0}, "validation must be between 0 and 1, got 1"),
    "all tested": ({"held_out": 0.99}, r"class 0 has no images for training at held_out 0\.99"),
    "none kept": (
        {"validation": 0.01},
        r"class 0 has no images for validation at validation 0\.01",
    ),
    "all kept": ({"validation": 0.99}, r"for training at validation 0\.99"),
    "limit": ({"limit": 0}, "class 0 has no images for training at limit 0"),
    "large": ({"size": 5}, r"size must be in 1 \.\.\. 4, because .* is 4 x 4; got 5"),
    "size": ({"size": 0}, "got 0"),
}


@pytest.mark.parametrize(("options", "message"), OPTIONS.values(), ids=OPTIONS)
def test_options_that_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, images=GOOD, labels=np.arange(20) % 2)
    with pytest.raises(BadImages, match=message):
        Images(path, **options)


def test_test_parts_that_are_refused(tmp_path: Path) -> None:
    train = saved(tmp_path, images=GOOD, labels=np.arange(20) % 2)
    large = saved(tmp_path, "large.npz", images=pixels(4, 5, 4), labels=[0, 1, 0, 1])
    with pytest.raises(BadImages, match="test images are 1 x 5 x 4 and training images 1 x 4 x 4"):
        Images(train, large)
    beyond = saved(tmp_path, "beyond.npz", images=GOOD, labels=[2] * 20)
    with pytest.raises(BadImages, match="because there are 2 classes; got 2 at index 0"):
        Images(train, beyond)
    without = saved(tmp_path, "without.npz", images=GOOD)
    with pytest.raises(BadImages, match="class all of the test part must also be in the training"):
        Images(train, without)


def damaged_png() -> bytes:
    """A header and pixels that cannot be unpacked."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"not packed") + chunk(b"IEND", b"")


@pytest.mark.parametrize("content", [b"", b"not an image", damaged_png()])
def test_a_corrupt_image_is_named(content: bytes, tmp_path: Path) -> None:
    Image.fromarray(GOOD[0]).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(content)
    with pytest.raises(BadImages, match=r"/b\.png cannot be read as an image: ") as caught:
        Images(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_truncated_image_is_named(tmp_path: Path) -> None:
    Image.fromarray(pixels(64, 64, 3)).save(tmp_path / "b.jpg")
    (tmp_path / "b.jpg").write_bytes((tmp_path / "b.jpg").read_bytes()[:1500])
    with pytest.raises(BadImages, match=r"b\.jpg cannot be read as an image: .*truncated"):
        Images(str(tmp_path))


def test_folders_that_are_refused(tmp_path: Path) -> None:
    def refused(folder: str, message: str) -> None:
        with pytest.raises(BadImages, match=message):
            Images(str(tmp_path / folder))

    for folder in ("empty", "class/a", "class/b", "beside/a", "parts/train", "parts/test"):
        (tmp_path / folder).mkdir(parents=True)
    one, wide = (Image.fromarray(pixels(4, side)) for side in (4, 6))
    refused("nowhere", "there is no folder /.*/nowhere$")
    refused("empty", r"/empty holds no images; their names must end in \.png, ")
    (tmp_path / "empty/notes.txt").write_text("words")
    refused("empty", "holds no images")
    one.save(tmp_path / "class/a/1.png")
    refused("class", "class b has no images in /.*/class/b")
    wide.save(tmp_path / "class/b/2.png")
    refused("class", r"the same size: .*a/1\.png is 4 x 4, .*b/2\.png is 4 x 6; the option size")
    one.save(tmp_path / "beside/a/1.png")
    one.save(tmp_path / "beside/2.png")
    refused("beside", r"either images or folders of classes, got both: 2\.png is an image")
    refused("parts", "holds train and test: give them as path and as test_path")
    (tmp_path / "deep").mkdir()
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(tmp_path / "deep/1.png")
    refused("deep", r"1\.png must have 8 bits per channel or fewer")
    (tmp_path / "file.zip").write_bytes(b"PK")
    refused("file.zip", r"must be a folder of images, an \.npz file or a name")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and so on", b"not an array", b"\x93NUMPY"])
def test_damaged_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(BadImages, match=r"x\.npz cannot be read: ") as caught:
        Images(str(tmp_path / "x.npz"))
    assert "\n" not in str(caught.value)


def test_a_single_array_is_no_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", GOOD)
    path = (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    with pytest.raises(BadImages, match=r"x\.npz must be an \.npz file, got a single array"):
        Images(str(path))


def test_labels_of_few_bits_do_not_overflow(tmp_path: Path) -> None:
    labels = np.arange(512, dtype=np.uint8)  # 0 ... 255, twice
    path = saved(tmp_path, images=pixels(512, 4, 4, 1), labels=labels)
    assert len(Images(path, held_out=0.5).classes) == 256


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_files_cut_short_are_refused(share: float, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", images=pixels(50, 8, 8))
    content = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(content[: int(share * len(content))])
    with pytest.raises(BadImages, match=r"x\.npz cannot be read: "):
        Images(str(tmp_path / "x.npz"))


def test_a_file_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", images=pixels(50, 8, 8))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(BadImages, match=r"x\.npz cannot be read: "):
        Images(str(tmp_path / "x.npz"))


# The command line.

RECIPE = """
data: {class_path: Images, init_args: {augmentation: {class_path: CropFlip}}}
energy: {class_path: ScalarEnergy, init_args: {net: MLP}}
temperature: {drift: 1.0, noise: 0.05}
sources: [{start: GaussianNoise, kernel: Langevin, steps: 2}]
optimiser: Adam
"""


def test_bad_images_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, run = tmp_path / "mine.yaml", tmp_path / "run"
    recipe.write_text(RECIPE)
    good = saved(tmp_path, images=GOOD)
    nan = saved(tmp_path, "nan.npz", images=with_pixel(math.nan))
    (tmp_path / "empty").mkdir()
    cases = {
        f"--data.path={nan}": f"image 7 of {nan} has a pixel that is NaN or infinite",
        f"--data.path={tmp_path}/a.npz": f"there is no file {tmp_path}/a.npz",
        f"--data.path={good} --data.test_path={tmp_path}/a.npz": f"no file {tmp_path}/a.npz",
        f"--data.path {good} --data.test_path {tmp_path}/empty": "holds no images",
        f"--data.path={good} --data.held_out=2": "held_out must be between 0 and 1, got 2",
        f"--data.path={good}": "must be smaller than the sides of the images, got 4 for 4 x 4",
        "--data.path=unheard-of": "no known name unheard-of; known names are cifar10",
    }
    for words, message in cases.items():
        assert main(["train", str(recipe), "--out", str(run), *words.split()]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("coldness: ")
        assert message in line
    assert not run.exists()


def test_sets_that_are_not_there_are_refused_before_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--iterations=1", "--evaluation.ood=[unheard-of]", "--out", str(tmp_path / "run")]
    assert main(["train", "digits-jem", *words]) == 2
    assert "no known name unheard-of" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
