"""`coldness sample --like`: image files as conditions, and what is said of files that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import coldness
from coldness.cli.main import main
from coldness.data import Digits
from coldness.data.image_files import read_images
from coldness.data.images import BadImages

QUICK = {
    "iterations": 2,
    "batch_size": 8,
    "sampler.steps": 3,
    "compile": "never",
    "energy.guidance": 0.02,  # rounding of pixels then moves samples by less than 0.02
    "terms.0.teacher.batch_size": 16,
    "sources.0.start.capacity": 50,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "clel"
    coldness.train("digits-clel", overrides=QUICK, out=folder)
    return folder


@pytest.mark.parametrize("ending", ["png", "JPG", "bmp", "webp"])
def test_one_image_file_is_read(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"one.{ending}"
    Image.fromarray(np.full((6, 8, 3), 200, np.uint8)).save(file)
    assert read_images(str(file)).shape == (1, 3, 6, 8)
    found = read_images(str(file), 3)  # the central square, averaged
    assert found.shape == (1, 3, 3, 3)
    assert (found.int() - 200).abs().max() <= 3  # some formats are lossy


def test_files_that_are_no_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    (tmp_path / "notes.txt").write_text("words")
    for name, says in {
        "broken.png": r"broken\.png cannot be read as an image: ",
        "gone.png": r"there is no file .*gone\.png$",
        "notes.txt": r"notes\.txt must be an image file \(\.png, .*\), a folder of images",
    }.items():
        with pytest.raises(BadImages, match=says) as caught:
            read_images(str(tmp_path / name))
        assert "\n" not in str(caught.value)
    folder = tmp_path / "named.png"
    folder.mkdir()
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "a.png")
    assert read_images(str(folder)).shape == (1, 1, 4, 4)


def test_samples_like_image_files(run: Path, tmp_path: Path) -> None:
    """Files of twice the size in colour are the digits themselves, and samples are theirs."""
    model = coldness.load(run)
    pixels = model.domain.units.original(Digits().test[:2]).numpy()  # 0 to 16
    files = []
    for k, image in enumerate(pixels):
        large = np.round(image[0] / 16 * 255).astype(np.uint8).repeat(2, 0).repeat(2, 1)
        files.append(str(tmp_path / f"{k}.png"))
        Image.fromarray(large).convert("RGB").save(files[-1])
    out = tmp_path / "like.npz"
    assert main(["sample", str(run), "--like", *files, "--n", "4", "--out", str(out)]) == 0
    with np.load(out) as found:
        x, names = found["x"], found.files
    assert "labels" not in names
    expected = model.sample(4, like=pixels, seed=0)
    np.testing.assert_allclose(x, expected, atol=0.02)  # 255 is no multiple of 16
    assert np.abs(x - model.sample(4, seed=0)).max() > 1e-5


def test_likeness_to_what_cannot_be_read_is_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.npz")
    assert main(["sample", str(run), "--like", str(tmp_path / "gone.png"), "--out", out]) == 2
    said = capsys.readouterr().err.strip()
    assert "there is no file" in said
    assert "Traceback" not in said
    assert not Path(out).exists()
