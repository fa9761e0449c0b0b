"""The report of image runs: every pixel in its place, and nothing where there is nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from browser import check_in_browser, needs_browser
from coldness.files import BadFile
from coldness.metrics import in_order, title
from coldness.report import reliability, score_histograms, write_report
from coldness.report.figures import DARK, LIGHT, Curve
from coldness.report.images import (
    CLASSES,
    MOMENTS,
    NOT_FINITE,
    ROW,
    SHARP,
    Tiles,
    gap_of,
    pictures,
    square,
    tiles,
)
from coldness.report.run import read_run
from coldness.report.trust import pictures as small_pictures
from coldness.runs.reader import Grids
from coldness.studies.plate_figure import figure_png
from coldness.trust.comparison import best, main_metrics
from conftest import BLANK
from image_runs import image_arrays, image_run, moments
from page_pictures import decoded, line_in, named, names
from test_study_report import PLAIN, page_of, row, study_of

EVIL = "<script>alert(1)<'\"$_{&"


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of tiles: drawing the curves of a page takes seconds."""
    monkeypatch.setattr(Curve, "render", lambda *_: BLANK)


def cut(picture: np.ndarray, factor: int, shape: tuple[int, int], columns: int) -> np.ndarray:
    """The tiles (n, H, W, 4) of a picture, after checking that it is sharp and gaps are clear."""
    small = picture[::factor, ::factor]
    np.testing.assert_array_equal(small.repeat(factor, 0).repeat(factor, 1), picture)
    (height, width), gap = shape, gap_of(*shape)
    rows = (len(small) + gap) // (height + gap)
    found, rest = [], small.copy()
    for k in range(rows * columns):
        top, left = k // columns * (height + gap), k % columns * (width + gap)
        found.append(small[top : top + height, left : left + width])
        rest[top : top + height, left : left + width] = 0
    assert not rest.any()
    return np.stack(found)


def bytes_of(x: np.ndarray) -> np.ndarray:
    """(n, C, H, W) in [-1, 1] as (n, H, W, 3)."""
    x = x.repeat(3, 1) if x.shape[1] == 1 else x
    return np.round(127.5 * (x.astype(np.float64) + 1)).transpose(0, 2, 3, 1)


def check(picture: Tiles, x: np.ndarray, columns: int) -> None:
    """The picture's tiles are the images x, in their order."""
    found = cut(decoded(picture.address), picture.factor, x.shape[2:], columns)
    np.testing.assert_array_equal(found[: len(x), ..., :3], bytes_of(x))
    assert (found[: len(x), ..., 3] == 255).all()
    assert not found[len(x) :].any()  # a short last row is clear
    assert decoded(picture.address).shape[1::-1] == picture.size


# Tiles.


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 8, 8), (3, 16, 20), (3, 32, 32)])
def test_tiles_are_the_images_pixel_for_pixel(shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (7, *shape))
    check(tiles("x", x, 3), x, 3)
    check(tiles("x", x, 99), x, 7)
    check(square("x", x), x[:4], 2)
    assert max(square("x", x).size) >= SHARP


def test_large_images_make_fewer_tiles() -> None:
    x = np.zeros((70, 1, 8, 8))
    assert square("x", x).pixels.shape[0] == 8 * 9 - 1
    assert square("x", np.zeros((70, 1, 64, 64))).pixels.shape[0] == 5 * 66 - 2
    assert square("x", np.zeros((70, 1, 300, 300))).pixels.shape[0] == 3 * 302 - 2


def test_what_lies_beyond_is_clipped_and_said() -> None:
    x = np.zeros((10, 1, 10, 10))
    x[0, 0, 0] = 5
    x[1, 0, 0] = -1.5
    found = tiles("x", x, 10)
    assert (found.pixels[0, :10, :3] == 255).all()
    assert (found.pixels[0, 11:21, :3] == 0).all()
    assert found.note == "2.0% of pixels clipped"
    x[:2] = 1
    assert tiles("x", x, 10).note == ""


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_not_finite_is_magenta(channels: int) -> None:
    x = np.zeros((2, channels, 4, 4))
    x[1, 0, 2, 3], x[1, -1, 0, 0] = np.nan, np.inf
    found = tiles("x", x, 2)
    marked = np.argwhere((found.pixels[..., :3] == NOT_FINITE).all(-1))
    assert marked.tolist() == [[0, 5], [2, 8]]
    assert found.note.startswith("1 of 2 images have NaN or infinite pixels")


# Pictures of a run.


def test_every_array_has_its_place() -> None:
    arrays = image_arrays()
    found = pictures(arrays, Grids([0, 1000, 2000], moments()["x"]), ("cat", "dog"))
    keys = ("x_data", "x_short", "x_long", "x_bank")
    for shown, key in zip(found.samples, keys, strict=True):
        check(shown, arrays[key][:64], 8)
    assert [shown.name for shown in found.samples][1:3] == [
        "Short-run samples",
        "Long-run samples",
    ]
    assert [shown.name for shown in found.by_class] == ["cat", "dog", "class 2"]
    for k, shown in enumerate(found.by_class):
        check(shown, arrays["x_class"][[k, k + 3]], 2)
    assert found.neighbours is not None
    assert [distance for _, distance in found.neighbours.pairs] == [1, 2, 3, 4, 5]
    assert found.neighbours.median == 7
    for k, (shown, _) in enumerate(found.neighbours.pairs):
        check(shown, np.stack([arrays["x_short"][k], arrays["x_nearest"][k]]), 1)
    assert [shown.name for shown in found.moments] == [
        "iteration 0",
        "iteration 1,000",
        "iteration 2,000",
    ]
    for shown, x in zip(found.moments, moments()["x"], strict=True):
        check(shown, x.astype(np.float64) / 127.5 - 1, 3)


def test_many_classes_and_moments_are_cut_short() -> None:
    arrays = image_arrays(classes=CLASSES + 5)
    x = np.repeat(moments()["x"], 30, 0)
    found = pictures(arrays, Grids(list(range(90)), x))
    assert (len(found.by_class), found.classes) == (CLASSES, CLASSES + 5)
    shown = [int(m.name.removeprefix("iteration ")) for m in found.moments]
    assert len(shown) == MOMENTS
    assert (shown[0], shown[-1]) == (0, 89)
    x_class = np.zeros((40, 3, 4, 4))
    many = pictures(arrays | {"x_class": x_class, "x_class_labels": np.zeros(40)}, None)
    assert many.by_class[0].pixels.shape[1] == ROW * 5 - 1


def test_chains_from_data_stand_in_for_a_bank() -> None:
    arrays = image_arrays()
    arrays["x_from_data"] = arrays.pop("x_bank")
    assert pictures(arrays, None).samples[-1].name == "Chains from data"


# The page.


def test_the_page_of_an_image_run(tmp_path: Path, no_curves: None) -> None:
    data = {"class_path": "Images", "init_args": {"classes": ["a cat", EVIL]}}
    run = image_run(tmp_path / "run", grids=moments(), data=data)
    page = write_report([run], tmp_path / "r.html").read_text()
    order = [page.index(f'id="{part}"') for part in ("verdict", "images", "scores", "chains")]
    assert order == sorted(order)
    assert 'id="panels"' not in page  # no densities in the plane
    for part in ("clipped here", "By class", "a cat", "class 2", "Nearest neighbours"):
        assert part in page
    assert "have a median distance of 7:" in page
    assert "Accuracy 90.0%, ECE 0.05. After refinement: accuracy 92.0%, ECE 0.02." in page
    assert names(page) == [
        "Tiles of data beside short-run samples of run: Data",
        "Tiles of data beside short-run samples of run: Samples",
        "Histograms of U of data and of out-of-distribution sets of run",
        "Energy difference d against iteration of run",
        *(
            f"{name} of run"
            for name in ("Data", "Short-run samples", "Long-run samples", "Replay buffer")
        ),
        *(f"Samples of {name} of run" for name in ("a cat", EVIL, "class 2")),
        *(f"sample {k}, nearest training example below it, of run" for k in range(1, 6)),
        *(f"Negatives of run at iteration {k}" for k in ("0", "1,000", "2,000")),
        *("Reliability diagram of run", "Potential U of out-of-distribution sets of run"),
        *("Largest class probability of run", "Potential U at the end of run"),
        "Energy difference d against iteration",
    ]
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    sources = re.findall(r'(?:src|srcset|href|action)="([^"]*)"', page)
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    for other in ("http://", "https://", "<link", "@import", "url(", "<iframe"):
        assert other not in page
    arrays = image_arrays()
    for alt, x, columns in (
        *((f"{name} of run", arrays[key][:64], 8) for name, key in GRIDS.items()),
        *((f"Samples of {c} of run", arrays["x_class"][[k, k + 3]], 2) for k, c in CLASS.items()),
        *((PAIR.format(k + 1), np.stack([arrays[x][k] for x in OF_PAIR]), 1) for k in range(5)),
        ("Tiles of data beside short-run samples of run: Data", arrays["x_data"][:16], 4),
    ):
        picture = decoded(named(page, alt).light)
        factor = picture.shape[1] // (columns * 5 - 1)
        found = cut(picture, factor, (4, 4), columns)[..., :3]
        np.testing.assert_array_equal(found, bytes_of(x))


GRIDS = {
    "Data": "x_data",
    "Short-run samples": "x_short",
    "Long-run samples": "x_long",
    "Replay buffer": "x_bank",
}
CLASS = {0: "a cat", 1: EVIL, 2: "class 2"}
PAIR, OF_PAIR = "sample {}, nearest training example below it, of run", ("x_short", "x_nearest")


PARTS = [
    (("x_class",), "By class"),
    (("x_nearest",), "Nearest neighbours"),
    (("nearest_distance",), "Nearest neighbours"),
    (("nearest_distance_test",), "median distance"),
    (("x_bank",), "Replay buffer of"),
    (("x_long",), "Long-run samples of"),
    (("x_short",), "Nearest neighbours"),
    (("reliability_",), "Reliability"),
    (("reliability_refined",), "Points are after"),
    (("u_ood",), "Potential U of out-of-distribution sets"),
    (("maxp_",), "Largest class probability</h3>"),
    (("u_ood", "maxp", "reliability"), 'id="scores"'),
]
"""Arrays by the start of their names, and what a page says where it has them."""


def test_what_is_not_there_is_not_shown(tmp_path: Path, no_curves: None) -> None:
    whole = write_report([image_run(tmp_path / "whole")], tmp_path / "r.html").read_text()
    assert "During training" not in whole  # there is no grids.npz
    for k, (gone, says) in enumerate(PARTS):
        left = {key: x for key, x in image_arrays().items() if not key.startswith(gone)}
        page = write_report([image_run(tmp_path / f"less-{k}", left)], tmp_path / "r.html")
        assert says in whole
        assert says not in page.read_text()


def test_images_beside_other_runs(tmp_path: Path, no_curves: None) -> None:
    flat = {f"x_{kind}": np.random.default_rng(0).normal(size=(60, 5)) for kind in
            ("data", "short", "long")}  # fmt: skip
    grey = image_run(tmp_path / "grey", image_arrays((1, 8, 8)))
    runs = [image_run(tmp_path / "flat", flat), grey, image_run(tmp_path / "coloured")]
    page = write_report(runs, tmp_path / "r.html").read_text()
    assert page.count('alt="Data of grey"') == page.count('alt="Data of coloured"') == 1
    assert 'alt="Data of flat"' not in page
    assert "The data has 5 dimensions" in page
    assert page.count("Densities</h2>") == 1


def test_beside_answers_stand_tiles(tmp_path: Path, no_curves: None) -> None:
    run = read_run(image_run(tmp_path / "run", image_arrays((1, 8, 8))), "run")
    found = small_pictures(run)
    assert set(found) == {"generation", "ood", "training"}
    (_, data), (_, samples) = found["generation"].tiles
    for address, key in ((data, "x_data"), (samples, "x_short")):
        factor = len(decoded(address)) // (4 * 9 - 1)
        shown = cut(decoded(address), factor, (8, 8), 4)[..., :3]
        np.testing.assert_array_equal(shown, bytes_of(image_arrays((1, 8, 8))[key][:16]))


def test_diverged_images_still_make_a_page(tmp_path: Path, no_curves: None) -> None:
    arrays = image_arrays()
    arrays["x_long"][:] = np.nan
    arrays["u_ood_svhn"][:] = np.nan
    arrays["u_ood_dtd"][:] = np.inf
    page = write_report([image_run(tmp_path / "run", arrays)], tmp_path / "r.html").read_text()
    assert "64 of 64 images have NaN or infinite pixels (magenta)" in page
    assert "Potential U of out-of-distribution sets" not in page


@pytest.mark.parametrize(
    "change",
    [
        {"x_short": np.zeros((5, 3, 4, 5))},
        {"x_long": np.zeros((5, 48))},
        {"x_bank": np.zeros((0, 3, 4, 4))},
        {"x_class_labels": np.zeros(4)},
        {"reliability_accuracy": np.zeros(4)},
    ],
)
def test_arrays_of_the_wrong_shape(tmp_path: Path, change: dict[str, np.ndarray]) -> None:
    run = image_run(tmp_path / "run", image_arrays() | change)
    with pytest.raises(BadFile, match=r"evaluation.npz is truncated .* `coldness evaluate"):
        write_report([run], tmp_path / "r.html")


@pytest.mark.parametrize(
    "change", [{"x": np.zeros((3, 9, 3, 4, 4))}, {"iterations": np.zeros(2)}, None]
)
def test_broken_grids(tmp_path: Path, change: dict[str, np.ndarray] | None) -> None:
    run = image_run(tmp_path / "run", grids=moments() | (change or {}))
    if change is None:
        (run / "grids.npz").write_bytes(b"PK broken")
    with pytest.raises(BadFile, match=r"grids.npz is truncated .* `coldness train`"):
        write_report([run], tmp_path / "r.html")


@pytest.mark.parametrize(
    "data", ["Digits", {"init_args": None}, {"init_args": {"classes": "abc"}}, {"class_path": "x"}]
)
def test_classes_without_names_are_numbers(tmp_path: Path, data: Any) -> None:
    assert read_run(image_run(tmp_path / "run", data=data), "run").classes == ()


# Curves.


def drawn(curve: Curve, arrays: dict[str, np.ndarray]) -> Any:
    axes = Figure().add_subplot()
    curve.draw(axes, [arrays], LIGHT)
    return axes


def test_reliability_bars_are_the_bins() -> None:
    arrays = image_arrays()
    (curve,) = reliability.curves(arrays, {"accuracy": 0.5})
    assert "ECE" not in curve.caption
    axes = drawn(curve, arrays)
    accuracy, shares = axes.containers
    assert [bar.get_height() for bar in accuracy] == arrays["reliability_accuracy"][5:].tolist()
    assert [bar.get_x() for bar in accuracy] == pytest.approx([k / 15 for k in range(5, 15)])
    depth = [-bar.get_height() / reliability.DEPTH for bar in shares]
    assert depth == pytest.approx([0.0] * 5 + [1.0] * 10)
    refined = next(line for line in axes.lines if line.get_label() == "refined")
    np.testing.assert_allclose(refined.get_ydata(), 0.9 * refined.get_xdata())
    assert len(refined.get_xdata()) == 10


def test_far_and_near_sets_share_an_axis() -> None:
    """Data at 1e5 with spread 1, a set 100 of it away, and one at 9e9 with a name of any kind."""
    arrays = image_arrays()
    arrays["u_ood_$_{^"] = arrays.pop("u_ood_dtd")
    of_u, of_maxp = score_histograms.curves(arrays, {"auroc_logp_svhn": 0.123})
    axes = drawn(of_u, arrays)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["$_{^", "svhn"]
    assert [text.get_text() for text in axes.texts] == ["0.123"]
    places = []
    for stairs in axes.patches[2::3]:  # outlines of the sets
        values, edges, baseline = stairs.get_data()
        highest = int((values - baseline).argmax())
        places.append((edges[highest] + edges[highest + 1]) / 2)
        assert (values - baseline).max() == pytest.approx(score_histograms.HEIGHT)
    u = arrays["u_data"]
    spread = np.diff(np.quantile(u, [0.16, 0.84]))[0] / 2
    width = edges[1] - edges[0]
    for place, value in zip(places, (1e5 + 100, 9e9), strict=True):
        assert place == pytest.approx(np.arcsinh((value - np.median(u)) / spread), abs=width)
    assert drawn(of_maxp, arrays).get_xlim() == (0, 1)
    # On a dark page the data's own are in its ink, and no line is of the light theme.
    picture = decoded(of_u.render([arrays], DARK))
    assert picture.shape == (round(200 * of_u.height), round(200 * of_u.width), 4)
    line_in(of_u.render([arrays], DARK), DARK.ink)


def test_only_the_hardest_sets_stand_beside_the_answer() -> None:
    arrays = {"u_data": np.arange(9.0)} | {f"u_ood_{k}": np.arange(9.0) for k in "abcdef"}
    metrics = {f"auroc_logp_{k}": 1 - i / 10 for i, k in enumerate("abcdef")}
    axes = Figure().add_subplot()
    score_histograms.draw_hardest(arrays, metrics, 3)(axes, [arrays], LIGHT)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["d", "e", "f"]


# Names and directions.


def test_metrics_have_titles_and_an_order() -> None:
    keys = ["seconds", "nearest_ratio", "is_inception_long", "kid_effnet_from_data", "fid_effnet_x"]
    keys += ["accuracy", "auroc_maxp_svhn", "auroc_grad_uniform", "kid_effnet_floor", "ece"]
    assert in_order(keys) == [
        *("accuracy", "ece", "kid_effnet_from_data", "kid_effnet_floor", "is_inception_long"),
        *("nearest_ratio", "seconds", "fid_effnet_x", "auroc_maxp_svhn", "auroc_grad_uniform"),
    ]
    assert [key for key in keys if title(key) == key] == ["fid_effnet_x"]
    assert "FID" not in title("fid_effnet_short")
    assert title("fid_inception_short").startswith("FID")
    assert title("auroc_grad_uniform") == "AUROC of the gradient norm against uniform noise"
    assert title("auroc_logp_own_best") == "AUROC of log p against own, the true density"


@pytest.mark.parametrize(
    ("key", "better", "worse"),
    [
        ("accuracy", 0.9, 0.8),
        ("accuracy_refined", 0.9, 0.8),
        ("class_agreement", 0.9, 0.8),
        ("ece", 0.01, 0.2),
        ("kid_effnet_long", 0.01, 0.02),
        ("fid_inception_bank", 20, 30),
        ("is_inception_short", 8, 6),
        ("auroc_maxp_svhn", 0.9, 0.8),
        ("auroc_grad_svhn", 0.9, 0.8),
    ],
)
def test_directions(key: str, better: float, worse: float) -> None:
    marked = best([{key: worse}, {key: better}])
    assert list(marked.values()) == [[1]]
    assert main_metrics({key: 1.0})


def test_kid_within_its_floor_is_not_told_apart() -> None:
    runs = [{"kid_effnet_short": k, "kid_effnet_floor": -0.002} for k in (0.01, 0.0119, 0.0121)]
    assert best(runs)["kid_effnet_short"] == [0, 1]
    few = [{"fid_effnet_short": 9.0, "samples": 100}, {"fid_effnet_short": 5.0, "samples": 200}]
    assert "fid_effnet_short" not in best(few)


# Studies.


def study_rows(tmp_path: Path, arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    rows = [row(PLAIN, 0, beta=beta) for beta in (0, 0.5)]
    rows.append(row(PLAIN, 0, 12, beta=0.9))
    for k, r in enumerate(rows[:2]):
        r |= {"kl": None, "tv": None, "reverse_kl": None, "accuracy": 0.5, "kid_effnet_short": 0.1}
        (tmp_path / "runs" / r["run"]).mkdir(parents=True)
        of_run = {key: x[::-1] if k and x.ndim == 4 else x for key, x in arrays.items()}
        np.savez(tmp_path / "runs" / r["run"] / "evaluation.npz", **of_run)
    return rows


def test_a_study_of_images_has_tiles(tmp_path: Path, no_curves: None) -> None:
    arrays = image_arrays()
    page = page_of(tmp_path, study_of(PLAIN), study_rows(tmp_path, arrays))
    for name in ("samples at beta = 0: short-run", "samples at beta = 0.5: long-run"):
        assert page.count(f'alt="{name}"') == 1
    (address,) = re.findall(r'src="([^"]*)"[^>]*alt="samples at beta = 0.5: long-run"', page)
    shown = cut(decoded(address), len(decoded(address)) // 19, (4, 4), 4)[..., :3]
    np.testing.assert_array_equal(shown, bytes_of(arrays["x_long"][::-1][:16]))
    firsts = re.findall(r'src="([^"]*)"[^>]*alt="data: (?:short|long)-run"', page)
    for address, start in zip(firsts, (0, 16), strict=True):
        shown = cut(decoded(address), len(decoded(address)) // 19, (4, 4), 4)[..., :3]
        np.testing.assert_array_equal(shown, bytes_of(arrays["x_data"][start : start + 16]))
    assert "diverged at iteration 12" in page
    assert "Kernel distance of short-run samples</h3>" in page
    for empty in ("KL(data || model)</h3>", "Kernel distance of long-run samples</h3>"):
        assert empty not in page
    assert "clipped here" in page
    assert "Panels cover" not in page
    assert '<th scope="col">Accuracy</th>' in page


def test_a_study_of_images_without_samples_has_none(tmp_path: Path, no_curves: None) -> None:
    rows = study_rows(tmp_path, {"x_data": image_arrays()["x_data"]})
    assert "No run has pictures" in page_of(tmp_path, study_of(PLAIN), rows)


def test_plate_of_images_as_png(tmp_path: Path) -> None:
    rows = study_rows(tmp_path, image_arrays(count=10))
    figure_png(study_of(PLAIN), rows, tmp_path / "runs", "mixture", tmp_path / "p.png")
    with Image.open(tmp_path / "p.png") as picture:
        colours = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    wanted = bytes_of(image_arrays(count=10)["x_short"][:9]).reshape(-1, 3)
    there = {tuple(colour) for colour in colours.tolist()}
    assert all(tuple(int(c) for c in colour) in there for colour in wanted)


# A real browser.


@pytest.mark.browser
@needs_browser
def test_the_page_in_a_browser(tmp_path: Path, no_curves: None) -> None:
    names = ["run", "a-run-with-quite-a-long-name-that-has-no-spaces-to-break-at"]
    data = {"init_args": {"classes": ["a_class_with_a_name_that_has_no_spaces_to_break_at_all"]}}
    runs = [
        image_run(tmp_path / name, image_arrays(shape), moments(shape), data=data)
        for name, shape in zip(names, ((3, 16, 12), (1, 8, 8)), strict=True)
    ]
    check_in_browser(write_report(runs, tmp_path / "r.html").read_text(), (1280, 390), tmp_path)
