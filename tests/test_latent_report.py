"""The report of models with latents: every cosine, fraction and pixel in its place."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from browser import check_in_browser, needs_browser
from coldness.files import BadFile
from coldness.report import confusion, latents, training, write_report
from coldness.report.figures import DARK, LIGHT, Curve, Theme
from coldness.report.images import ROW
from coldness.report.run import read_run
from conftest import BLANK
from image_runs import Arrays, image_arrays, image_run, latent_arrays
from page_pictures import decoded, line_in, named, names
from test_image_report import EVIL, bytes_of, cut

NAMES = {"classes": ["cat", "dog", "bird"], "attributes": ["red", EVIL, "large"]}


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing the curves of a page takes seconds."""
    monkeypatch.setattr(Curve, "render", lambda *_: BLANK)


def page_of(folder: Path, arrays: Arrays, card: Any = NAMES) -> str:
    run = image_run(folder / "run", arrays, card=card)
    return write_report([run], folder / "r.html").read_text()


def drawn(curve: Curve, arrays: Arrays, theme: Theme = LIGHT) -> Any:
    axes = Figure().add_subplot()
    curve.draw(axes, [arrays], theme)
    return axes


# Cosines.


def test_cosines_are_three_histograms_on_one_axis() -> None:
    arrays = latent_arrays()
    found = latents.pictures(arrays, {"alignment": 0.714}, (), ())
    assert found is not None
    curve = found.curves[0]
    assert "Medians: f 0.80, v " in curve.caption
    assert curve.caption.endswith("of the same image: 0.71.")
    axes = drawn(curve, arrays)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["energy's features f", "model's direction v", "encoder h"]
    for key, outline in zip(latents.COSINES, axes.patches[1::2], strict=True):
        heights, edges, _ = outline.get_data()
        counts = np.histogram(arrays[key], edges)[0]
        assert counts.sum() == len(arrays[key])
        np.testing.assert_allclose(heights * counts.max(), counts)
    x, _ = line_in(curve.render([arrays], DARK), DARK.runs[0])  # f is on the right
    assert x.mean() > 0.7


def test_cosines_that_are_nan_are_left_out() -> None:
    arrays = latent_arrays()
    arrays["cosines_v"][:] = np.nan
    arrays["cosines_h"][:] = -0.001
    found = latents.pictures(arrays, {}, (), ())
    assert found is not None
    assert found.curves[0].caption.endswith("Medians: f 0.80, h 0.00.")
    assert len(drawn(found.curves[0], arrays).patches) == 4


# Confusion.


@pytest.mark.parametrize("count", [2, 10, 20, 25])
@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_cells_of_the_heat_map(count: int, theme: Theme) -> None:
    arrays = latent_arrays(classes=count)
    named = [EVIL, "a very long name of a class", *map(str, range(2, count))]
    (curve,) = confusion.curves(arrays, {}, named[: count - 1])
    axes = drawn(curve, arrays, theme)
    shown = min(count, 20)
    np.testing.assert_array_equal(axes.images[0].get_array(), arrays["confusion"][:shown, :shown])
    texts = {tuple(map(int, t.get_position())): t.get_text() for t in axes.texts}
    expected = {(k, k): "90" for k in range(shown)}
    expected |= {((k + 1) % count, k): "10" for k in range(count)}
    assert texts == {at: text for at, text in expected.items() if max(at) < shown}
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [label.get_text() for label in axes.get_xticklabels()]
    if count > 2:
        assert labels[:3] == [EVIL[:11] + "\u2026", "a very long\u2026", "2"]
    assert labels[-1] == str(shown - 1)  # without a name
    assert ("The first 20 of 25 classes." in curve.caption) == (count > 20)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_numbers_can_be_read_on_their_cells(theme: Theme) -> None:
    arrays = {"confusion": np.linspace(0.01, 1, 400).reshape(20, 20)}
    (curve,) = confusion.curves(arrays, {}, ())
    axes = drawn(curve, arrays, theme)
    image = axes.images[0]
    for text in axes.texts:
        j, i = map(int, text.get_position())
        ground = image.cmap(image.norm(arrays["confusion"][i, j]))
        assert _contrast(text.get_color(), ground) >= 3.5


def _contrast(one: Any, other: Any) -> float:
    """Of WCAG 2."""
    light = []
    for colour in (one, other):
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)
        ]
        light.append(float(np.dot([0.2126, 0.7152, 0.0722], linear)))
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_labels_of_the_heat_map_do_not_cover_it() -> None:
    """Twenty long names are turned, and stay below the axes."""
    arrays = latent_arrays(classes=20)
    (curve,) = confusion.curves(arrays, {}, [f"a long name {k}" for k in range(20)])
    figure = Figure((4.4, 3.8), layout="constrained")
    axes = figure.add_subplot()
    curve.draw(axes, [arrays], LIGHT)
    figure.draw_without_rendering()
    bottom = axes.get_window_extent().y0
    assert all(label.get_window_extent().y1 <= bottom for label in axes.get_xticklabels())


# Attributes.


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([1, 0, 1], "red and circle"),
        ([0, -1, 0], "not large"),
        ([1, -1, 1], "red, not large and circle"),
        ([0, 0, 0], "nothing"),
    ],
)
def test_what_was_asked_in_words(asked: list[int], words: str) -> None:
    assert latents.in_words(np.array(asked), ("red", "large", "circle")) == words


def test_long_tables_show_all_kinds_of_rows() -> None:
    """40 single attributes, 40 negated ones and 3 pairs: all pairs, and equally many others."""
    eye = np.eye(40)
    asked = np.concatenate([eye, -eye, eye[:3] + eye[3:6]])
    chosen = latents.spread(asked, 13)
    assert len(chosen) == 13
    assert chosen == sorted(set(chosen))
    assert chosen[-3:] == [80, 81, 82]
    assert (chosen[0], chosen[4], chosen[5], chosen[9]) == (0, 39, 40, 79)
    assert latents.spread(asked[:5], 12) == list(range(5))
    assert len(latents.spread(asked, 48)) == 48


def cells_of(page: str) -> list[list[tuple[str, str, str]]]:
    """Tag and scope, class and text of every cell of the table of attributes."""
    (table,) = re.findall(r'<table class="attributes">([\s\S]*?)</table>', page)
    rows = []
    for row in re.findall(r"<tr>([\s\S]*?)</tr>", table):
        found = re.findall(r"<(td|th)((?: [^>]*)?)>(.*?)</(?:td|th)>", row)
        rows.append([(tag, words.strip(), html.unescape(text)) for tag, words, text in found])
    return rows


def test_the_table_of_attributes(tmp_path: Path, no_curves: None) -> None:
    arrays = latent_arrays()
    head, *rows = cells_of(page_of(tmp_path, image_arrays() | arrays))
    assert [text for *_, text in head] == ["Asked for", *NAMES["attributes"]]
    assert all((tag, words) == ("th", 'scope="col"') for tag, words, _ in head)
    wanted = ["red", EVIL, "large", "not red", f"not {EVIL}", "not large"]
    wanted += [f"red and {EVIL}", f"{EVIL} and large"]
    assert [row[0] for row in rows] == [("th", 'scope="row"', words) for words in wanted]
    mark = {1: 'class="asked"', -1: 'class="negated"', 0: ""}
    for row, numbers in zip(rows, arrays["attribute_table"], strict=True):
        expected = [
            ("td", mark[int(a)], f"{f:.2f}") for a, f in zip(numbers[:3], numbers[3:], strict=True)
        ]
        assert row[1:] == expected


def test_long_tables_say_what_is_left_out(tmp_path: Path, no_curves: None) -> None:
    arrays = image_arrays() | latent_arrays(each=1, attributes=20)
    page = page_of(tmp_path, arrays)  # 59 rows; names are of another number of attributes
    assert len(cells_of(page)) == 1 + latents.TABLE_ROWS
    assert f"{latents.TABLE_ROWS} of 59 rows." in page
    assert cells_of(page)[1][0][2] == "attribute 1"
    shown = [alt for alt in names(page) if re.match("Samples of (not )?attribute ", alt)]
    assert len(shown) == latents.TILE_ROWS


# Tiles.


def test_samples_stand_beside_what_was_asked(tmp_path: Path, no_curves: None) -> None:
    arrays = image_arrays() | latent_arrays(each=ROW + 2)
    page = page_of(tmp_path, arrays)
    for k in range(2):
        picture = decoded(named(page, f"image {k + 1} and samples like it of run").light)
        factor = picture.shape[0] // 4
        first, rest = picture[:, : 4 * factor], picture[:, 9 * factor :]
        like = arrays["x_like"][k * (ROW + 2) :][:ROW]
        np.testing.assert_array_equal(
            cut(first, factor, (4, 4), 1)[..., :3], bytes_of(arrays["x_instance"][[k]])
        )
        np.testing.assert_array_equal(cut(rest, factor, (4, 4), ROW)[..., :3], bytes_of(like))
        between = picture[::factor, 4 * factor : 9 * factor : factor]
        assert (between[:, 2] == latents.RULE).all()
        assert not between[:, [0, 1, 3, 4]].any()  # clear on both sides of the line
    words = ["red", EVIL, "large", "not red", f"not {EVIL}", "not large"]
    for k, asked in enumerate([*words, f"red and {EVIL}", f"{EVIL} and large"]):
        picture = decoded(named(page, f"Samples of {asked} of run").light)
        factor = picture.shape[0] // 4
        found = arrays["x_attributes"][k * (ROW + 2) :][:ROW]
        np.testing.assert_array_equal(cut(picture, factor, (4, 4), ROW)[..., :3], bytes_of(found))
    assert "<script" not in page


# The page, and what a run folder holds.


def test_only_what_is_there_is_shown(tmp_path: Path, no_curves: None) -> None:
    parts = {
        ("cosines",): "Directions of different images</h3>",
        ("confusion",): "Samples by class</h3>",
        ("x_like",): "Samples like an image",
        ("attribute_table", "x_attributes"): '<table class="attributes">',
        ("x_attributes",): "Samples of red of run",
    }
    whole = page_of(tmp_path, image_arrays() | latent_arrays())
    for k, (gone, says) in enumerate(parts.items()):
        left = {key: x for key, x in latent_arrays().items() if not key.startswith(gone)}
        assert says in whole
        assert says not in page_of(tmp_path / str(k), image_arrays() | left)
    plain = page_of(tmp_path / "plain", image_arrays())
    for says in ('id="latents"', ".attributes", "Conditional samples"):
        assert says in whole
        assert says not in plain


def test_names_come_from_the_card(tmp_path: Path) -> None:
    data = {"class_path": "Images", "init_args": {"classes": ["by", "settings"]}}
    run = read_run(image_run(tmp_path / "a", data=data, card=NAMES), "a")
    assert (run.classes, run.attributes) == (tuple(NAMES["classes"]), tuple(NAMES["attributes"]))
    bare = read_run(image_run(tmp_path / "b", data=data, card={"classes": 3}), "b")
    assert (bare.classes, bare.attributes) == (("by", "settings"), ())


def test_classes_called_by_numbers_are_told_from_numbers(tmp_path: Path, no_curves: None) -> None:
    page = page_of(tmp_path, image_arrays(), {"classes": ["7", "eight"], "attributes": []})
    assert [x for x in names(page) if x.startswith("Samples of")] == [
        f"Samples of {name} of run" for name in ("class 7", "eight", "class 2")
    ]


@pytest.mark.parametrize("text", ["- a\n- b", "!!python/object/apply:os.getcwd []", "a: [", "\0"])
def test_a_broken_card(tmp_path: Path, text: str) -> None:
    run = image_run(tmp_path / "run", card={})
    (run / "model" / "model.yaml").write_text(text)
    with pytest.raises(BadFile, match=r"^.*model.yaml is truncated .* `coldness train` again$"):
        read_run(run, "run")


@pytest.mark.parametrize(
    "change",
    [
        {"cosines_v": np.zeros((4, 2))},
        {"confusion": np.zeros((3, 4))},
        {"confusion": np.zeros(3)},
        {"x_instance": np.zeros((3, 3, 4, 4))},  # 8 samples of 3 images
        {"x_instance": np.zeros((0, 3, 4, 4))},
        {"x_like": np.zeros((8, 3, 4, 5))},
        {"x_attributes": np.zeros((9, 3, 4, 4))},
        {"attribute_table": np.zeros((8, 5))},
        {"attribute_table": np.zeros((0, 6))},
        {"attribute_table": None},
    ],
)
def test_arrays_of_the_wrong_shape(tmp_path: Path, change: dict[str, Any]) -> None:
    arrays = {k: x for k, x in (image_arrays() | latent_arrays() | change).items() if x is not None}
    run = image_run(tmp_path / "run", arrays)
    with pytest.raises(
        BadFile, match=r"^.*evaluation.npz is truncated .* `coldness evaluate \S*` again$"
    ):
        read_run(run, "run")


def test_rows_that_belong_together_are_read_whole(tmp_path: Path) -> None:
    arrays = image_arrays(count=130) | latent_arrays(each=60)
    found = read_run(image_run(tmp_path / "run", arrays), "run").evaluation.arrays
    assert len(found["x_like"]) == 120
    assert len(found["x_attributes"]) == 480
    assert len(found["x_short"]) == 100


def test_training_curves_of_the_guidance() -> None:
    t = np.arange(300.0)
    run = {"iteration": t, "d": t, "guidance_alignment": t / 300, "guidance_teacher": 5 - t / 100}
    chosen = {curve.title: curve for curve in training.curves([run])}
    assert [*chosen][-2:] == ["Alignment with guiding latents", "Loss of the encoder"]
    axes = drawn(chosen["Alignment with guiding latents"], run)
    assert axes.get_ylabel() == "cosine"
    np.testing.assert_allclose(axes.lines[1].get_ydata(), run["guidance_alignment"])
    without = [curve.title for curve in training.curves([{"iteration": t, "d": t}])]
    assert without == ["Energy difference d"]


@pytest.mark.browser
@needs_browser
def test_the_page_in_a_browser(tmp_path: Path, no_curves: None) -> None:
    arrays = image_arrays((3, 16, 16)) | latent_arrays((3, 16, 16), each=12, attributes=20)
    check_in_browser(page_of(tmp_path, arrays), (1280, 390, 320), tmp_path)
