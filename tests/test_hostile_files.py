"""Files of data and of runs that are damaged, or made to do harm: one line each, at once."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coldness.data import Points, Table
from coldness.data.array_files import check_arrays
from coldness.data.image_files import read_images
from coldness.data.image_readers import MOST_PIXELS
from coldness.data.images import BadImages
from coldness.data.point_checks import BadPoints
from coldness.data.points import read_points
from coldness.data.table_files import read_sheet
from coldness.files import BadFile
from coldness.runs.events import read_events
from coldness.runs.folder import RunFolder
from coldness.runs.reader import read_evaluation, read_final_metrics

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n"


def npy(shape: str, data: bytes = b"\0" * 64, kind: str = "<f8") -> bytes:
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def npz(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in members.items():
            archive.writestr(f"{name}.npy", contents)
    return file.getvalue()


HEADERS = {
    "1e11 rows": npy("(100000000000, 3)"),
    "more than 64 bits": npy(f"({10**30}, 3)"),
    "a negative size": npy("(-1, 3)"),
    "two bytes more than there are": npy("(33, 1)", b"\0" * 262),
    "nested": npy("(" * 500 + ")" * 500),
    "no shape": npy("'x'"),
    "a size that is true": npy("(True, 2)"),
    "an open bracket": npy("((3, 2)"),
    "no type": npy("(2, 2)", kind="what"),
    "another version": b"\x93NUMPY\x09\x00" + b"\0" * 80,
    "cut": npy("(8, 1)")[:40],
}


@pytest.mark.parametrize("contents", HEADERS.values(), ids=HEADERS.keys())
@pytest.mark.parametrize("archive", [False, True])
def test_headers_are_compared_with_their_files(
    contents: bytes, archive: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("x.npz" if archive else "x.npy")
    path.write_bytes(npz(x=contents, images=contents) if archive else contents)
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        check_arrays(path)
    for read in (read_points, read_sheet, *([read_images] if archive else [])):
        with pytest.raises((BadPoints, BadImages), match=r"^[^\n]{1,300}$"):
            read(str(path))


def test_archives_that_inflate_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(npz(x=npy("(125000, 2)", bytes(2_000_000))))
    check_arrays(path)  # much, but not many bytes
    monkeypatch.setattr("coldness.data.array_files.SMALL", 10**6)
    with pytest.raises(BadPoints, match=r"inflates from .* kB to 2 MB: .* at most 200 times"):
        read_points(str(path))
    honest = np.random.default_rng(0).normal(size=(100_000, 2))
    np.savez_compressed(path, x=honest)
    assert read_points(str(path)).shape == honest.shape
    monkeypatch.setattr("coldness.data.array_files.memory", lambda: 1e6)
    with pytest.raises(BadPoints, match="this machine has 1 MB"):
        read_points(str(path))


@pytest.mark.parametrize("name", ["3.png", "3.jpg", "3.tif"])
def test_no_format_is_read_that_starts_a_program(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(EPS)
    with pytest.raises(BadImages, match="cannot identify image file"):
        read_images(str(tmp_path / name))


def test_pixels_are_bounded_before_they_are_read(tmp_path: Path) -> None:
    side = int(MOST_PIXELS**0.5) + 1
    path = tmp_path / "large.png"
    Image.new("1", (side, side)).save(path)
    assert path.stat().st_size < 100_000
    with pytest.raises(BadImages, match=r"at most 50,000,000 pixels"):
        read_images(str(path))


@pytest.mark.parametrize("form", ["png", "jpg", "bmp", "gif", "webp", "tif", "ppm"])
def test_the_usual_formats_are_read(form: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / f"x.{form}")
    assert read_images(str(tmp_path / f"x.{form}")).shape == (1, 3, 8, 9)


def gaussian(rows: int = 500) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, 2))


def test_few_distinct_points_are_refused() -> None:
    with pytest.raises(BadPoints, match="5 distinct points among 500; at least 20"):
        Points.of(np.repeat(gaussian(5), 100, 0))


def test_copies_are_noted() -> None:
    (note,) = Points.of(np.repeat(gaussian(100), 5, 0)).notes
    assert note == "80% of the points of data are copies of other points"
    assert Points.of(gaussian()).notes == ()


def test_a_column_with_one_other_value_is_noted() -> None:
    x = gaussian()
    x[:, 1] = 3
    x[:3, 1] = 4
    (note,) = Points.of(x).notes
    assert note.startswith("column 1 of data is 3 in 497 of 500 rows")


def test_far_values_are_noted_and_endless_ones_refused() -> None:
    x = gaussian()
    x[7, 1] = 1e5
    (note,) = Points.of(x).notes
    assert note.startswith("column 1 of data holds 1e+05, far from all other values")
    x[7, 1] = 1e30
    with pytest.raises(BadPoints, match=r"column 1 of data holds 1e\+30.*recipe table"):
        Points.of(x)


@pytest.mark.parametrize("seed", range(4))
def test_a_table_notes_far_values_wherever_they_are(seed: int) -> None:
    """In the training part, and in what is held out: either way they are compressed."""
    x = gaussian()
    assert not any("far from" in note for note in Table.of(x, split_seed=seed).notes)
    x[7, 1] = 1e30
    (note,) = [note for note in Table.of(x, split_seed=seed).notes if "far from" in note]
    assert note.endswith(("compressed beyond 5 standard deviations", "of training, compressed"))


METRICS = {
    "a list": "[1, 2]",
    "a list as a number": '{"kl": [1]}',
    "a mapping as a number": '{"kl": {"a": 1}}',
    "text as a number": '{"kl": "much"}',
    "deep": "[" * 100_000 + "]" * 100_000,
    "a long number": '{"kl": ' + "9" * 5000 + "}",
    "a number beyond all": '{"kl": ' + "9" * 400 + "}",
    "bytes": "\xff\xfe",
}


@pytest.mark.parametrize("text", METRICS.values(), ids=METRICS.keys())
def test_damaged_metrics(text: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadFile, match=r"^[^\n]+ again$"):
        read_final_metrics(tmp_path)
    with pytest.raises(BadFile, match=r"^[^\n]+$"):  # of `coldness compare`
        RunFolder(tmp_path).metrics()


def test_metrics_without_a_value_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"kl": null, "d": "-inf", "samples": 50}')
    assert RunFolder(tmp_path).metrics() == {"d": -np.inf, "samples": 50}


ARRAYS = {
    "points": {"x_data": np.zeros((4, 2)), "x_short": np.zeros((4, 2)), "x_long": np.zeros((4, 2))},
    "text": {"x_data": np.array(["a", "b"])},
    "a number": {"x_data": np.array(1.0)},
    "nothing": {"x_data": np.zeros((0, 2))},
    "structured": {"x_data": np.zeros(3, [("a", "f8"), ("b", "i4")])},
    "a box of three": {
        **{f"x_{name}": np.ones((4, 2)) for name in ("data", "short", "long")},
        "box": np.ones(3),
    },
}


@pytest.mark.parametrize("arrays", ARRAYS.values(), ids=ARRAYS.keys())
def test_damaged_evaluations(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    np.savez(tmp_path / "evaluation.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(BadFile, match=r"^[^\n]+ again$"):
        read_evaluation(tmp_path)


EVENT = {
    "iteration": 3, "attempt": 0, "event": "note", "cause": "settings", "since": None, "text": "a",
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"iteration": [3]}, {"iteration": float("inf")}, {"attempt": None}, {"event": ["note"]},
        {"event": "other"}, {"since": "long ago"}, {"since": {}},
    ],
)  # fmt: skip
def test_events_of_other_types(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(EVENT) + "\n")
    assert len(read_events(path)) == 1
    path.write_text(json.dumps({**EVENT, **change}) + "\n")
    with pytest.raises(BadFile, match=r"^[^\n]+$"):
        read_events(path)


def test_a_line_nested_too_deep_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("[" * 100_000 + "\n" + json.dumps(EVENT) + "\n")
    assert len(read_events(path)) == 1
