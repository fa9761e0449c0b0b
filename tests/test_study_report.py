"""The report of a study: what the page and its figures hold, and how it looks in a real browser."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import check_in_browser, needs_browser
from coldness.files import BadFile
from coldness.report import figures
from coldness.studies import plates, study_curves
from coldness.studies.claims import Outcome
from coldness.studies.page import summarise, write_study_report
from coldness.studies.plate_figure import DPI, GAP, HEAD, LEFT, PAIR_GAP, TILE, figure_png
from coldness.studies.study import Block, Study
from page_pictures import assert_panel, levels_in, levels_of, line_in, named, names, rise
from test_report import MEANS, mixture_log_p, mixture_sample

EVIL = "<script>alert(1)<'\"$_{&"
COMMAND = "coldness reproduce tiny --out runs/tiny"
OUTCOMES = [
    Outcome("kl falls as beta grows", True, "2, 1"),
    Outcome("samples get worse", False, "0.01, 0.01"),
    Outcome("all variants agree", None, "no runs yet"),
]
NUMBERS: list[dict[str, Any]] = [
    {"claim": "equal", "equation": "Eq. 8", "expected": 0.5, "measured": 0.25, "holds": False},
    {"claim": "same", "equation": "Eq. 9", "expected": "one", "measured": "one", "holds": True},
]


def axis(*levels: Any) -> dict[Any, dict[str, Any]]:
    return {level: {"option": level} for level in levels}


def study_of(*blocks: Block) -> Study:
    return Study("tiny", "A tiny study", "A paper, Fig. 2", "It works.", 2, blocks, ())


def block(name: str = "mixture", **axes: dict[Any, dict[str, Any]]) -> Block:
    return Block(name, "mixture2d", {}, axes)


NEW = [
    *("kl_low", "kl_high", "slice_tv", "slice_kl", "energy_distance_data", "energy_distance_mala"),
    *("acceptance", "log_z_ess_forward", "log_z_ess_reverse", "u_shift", "u_drift"),
]
PLAIN = block(beta=axis(0, 0.5, 0.9))
CROSSED = block("crossed", beta=axis(0, 0.9), variant=axis("default", "other"))


def row(of: Block, seed: int = 0, diverged_at: int | None = None, **levels: Any) -> dict[str, Any]:
    words = "-".join(f"{k}={v}" for k, v in levels.items()).replace("/", "")
    figures = {
        "kl": 2.0 + seed,
        "reverse_kl": 1.5,
        "tv": 0.25,
        "energy_distance_short": 0.01,
        "energy_distance_floor": 0.001,
    }
    if diverged_at is not None:
        figures = dict.fromkeys(figures, None)  # type: ignore[arg-type]
    rest = {"seconds": 3.0, "diverged_at": diverged_at, "run": f"{of.name}-{words}-seed={seed}"}
    return {"block": of.name, **levels, "seed": seed, **figures, **rest}


def evaluate(
    folder: Path, dimension: int = 2, slices: bool = False, count: int = 60, model: float = 0.3
) -> None:
    """A tiny evaluation: a mixture, whose model is a wider one."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    extra = rng.normal(size=(count, max(dimension, 2) - 2))
    arrays = {
        f"x_{kind}": np.concatenate([mixture_sample(count, 0.2, rng), extra], 1)[:, :dimension]
        for kind in ("data", "short", "long")
    }
    arrays["box"] = np.array(1.6)
    if dimension == 2 or slices:
        of, side = "slice_" if slices else "", np.linspace(-2.4, 2.4, 40)
        grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1)
        arrays |= {f"{of}side": side, f"{of}log_p_data": mixture_log_p(grid, 0.2)}
        arrays[f"{of}log_p_model"] = mixture_log_p(grid, model)
    np.savez(folder / "evaluation.npz", **arrays)


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldness.report.figures.KDE_POINTS", 24)


def page_of(
    tmp_path: Path,
    study: Study,
    rows: list[dict[str, Any]],
    numbers: list[dict[str, Any]] | None = None,
    outcomes: list[Outcome] | None = None,
    dimension: int = 2,
) -> str:
    """The page; runs that did not diverge get an evaluation first."""
    for r in rows:
        folder = tmp_path / "runs" / r["run"]
        if r["diverged_at"] is None and not folder.exists():
            evaluate(folder, dimension)
    out = tmp_path / "new" / "report.html"
    chosen = OUTCOMES if outcomes is None else outcomes
    write_study_report(study, rows, chosen, numbers or [], tmp_path / "runs", out, COMMAND)
    return out.read_text()


SCHEMES = block("schemes", scheme=axis("data", "noise", "hybrid-25"))
BRACKETED = {"tv": None, "reverse_kl": None, "slice_tv": 0.12, "u_shift": -0.3, "acceptance": 0.9}
BRACKETED |= {"kl_bracket": "tight"}


def scheme_rows(tmp_path: Path) -> list[dict[str, Any]]:
    """Two seeds in five dimensions, with slices and brackets; the last scheme diverged."""
    rows = []
    for seed in (0, 1):
        for scheme in ("data", "noise"):
            ends = {"kl_low": 1.9 + seed, "kl_high": 2.2 + seed}
            rows.append(row(SCHEMES, seed, scheme=scheme) | BRACKETED | ends)
            evaluate(tmp_path / "runs" / rows[-1]["run"], 5, slices=True, count=200)
        rows.append(row(SCHEMES, seed, 12, scheme="hybrid-25"))
    return rows


def plain_rows() -> list[dict[str, Any]]:
    return [row(PLAIN, seed, beta=beta) for seed in (0, 1) for beta in (0, 0.5, 0.9)]


def crossed_rows() -> list[dict[str, Any]]:
    levels = [(beta, v) for beta in (0, 0.9) for v in ("default", "other")]
    return [row(CROSSED, 0, beta=beta, variant=v) for beta, v in levels]


SHOWN = np.linspace(-2.4, 2.4, 40)
SHOWN = SHOWN[np.abs(SHOWN) <= 1.6]
PLANE = np.stack(np.meshgrid(SHOWN, SHOWN, indexing="ij"), -1)
"""Points that panels of `evaluate` show."""

CURVES = ["KL(data || model) of {}", "Energy distance of short-run samples of {}"]


def rows_of_plate(
    axis: str, there: list[Any], truth: str = "truth", model: bool = True
) -> list[str]:
    """Alternative texts of a strip: truth and pairs at each level that is there, twice."""
    kinds = ("p", "short-run samples") if model else ("short-run samples",)
    return [
        name
        for row in ("density", "log density")
        for name in (
            f"{truth}: {row}",
            *(f"{kind} at {axis} = {level}: {row}" for level in there for kind in kinds),
        )
    ]


def assert_mixture(address: str, std: float, log: bool = False) -> None:
    """A panel shows the mixture with this width, on the scale of that with 0.2."""
    log_p, top = mixture_log_p(PLANE, std), float(mixture_log_p(PLANE, 0.2).max())
    if log:
        floor = np.log(np.exp(log_p) + figures.SMALLEST)
        assert_panel(address, floor, top - figures.LOG_RANGE, top)
    else:
        assert_panel(address, np.exp(log_p), 0.0, np.exp(top))


def ring_and_centre(address: str) -> tuple[float, float]:
    """Mean level of a panel where the mixture's heavy modes are, and at its centre."""
    found = levels_in(address)
    side = np.linspace(-1.6, 1.6, len(found))
    x, y = np.meshgrid(side, side, indexing="ij")
    near = [np.hypot(x - a, y - b) < 0.15 for a, b in MEANS[4:]]
    return float(found[np.any(near, 0)].mean()), float(found[np.hypot(x, y) < 0.15].mean())


def test_the_page_has_all_sections(tmp_path: Path) -> None:
    rows = plain_rows() + crossed_rows()
    page = page_of(tmp_path, study_of(PLAIN, CROSSED), rows, NUMBERS)
    parts = ("claims", "block-1", "block-2", "means", "numbers", "command")
    order = [page.index(f'id="{part}"') for part in parts]
    assert order == sorted(order)
    for text in ("A tiny study", "A paper, Fig. 2", "It works.", COMMAND):
        assert text in page
    for outcome in OUTCOMES:
        assert outcome.says in page
        assert outcome.measured in page
    assert page.count(">holds</span>") == 2  # a claim and a number
    assert page.count(">does not hold</span>") == 2
    assert page.count(">not measured</span>") == 1
    # A strip for each variant; two curves for each block.
    of_plain, of_crossed = ([c.format(name) for c in CURVES] for name in ("mixture", "crossed"))
    strip = rows_of_plate("beta", [0, 0.9])
    expected = [*rows_of_plate("beta", [0, 0.5, 0.9]), *of_plain, *strip, *strip, *of_crossed]
    assert names(page) == expected
    assert "variant = other" in page
    assert "KL 2<" in page
    assert not list((tmp_path / "new").glob("*.partial"))


def test_plates_show_the_densities_of_their_runs(tmp_path: Path) -> None:
    """One run has another model: its panels differ, on the scale of the truth, and no other's."""
    rows = [row(PLAIN, 0, beta=beta) for beta in (0, 0.5, 0.9)]
    evaluate(tmp_path / "runs" / rows[1]["run"], model=0.5)
    page = page_of(tmp_path, study_of(PLAIN), rows)
    for log in (False, True):
        kind = "log density" if log else "density"
        assert_mixture(named(page, f"truth: {kind}").light, 0.2, log)
        for level, std in ((0, 0.3), (0.5, 0.5), (0.9, 0.3)):
            assert_mixture(named(page, f"p at beta = {level}: {kind}").light, std, log)
    ring, centre = ring_and_centre(named(page, "short-run samples at beta = 0.5: density").light)
    assert ring > 0.15
    assert centre < 0.1 * ring


def test_curves_follow_the_figures_of_the_rows(tmp_path: Path) -> None:
    """KL rises with beta in one line, the energy distance falls, and single seeds are dots."""
    rows = [
        r | {"kl": 1.0 + 5 * r["beta"], "energy_distance_short": 0.1 - 0.1 * r["beta"]}
        for r in plain_rows()
    ]
    page = page_of(tmp_path, study_of(PLAIN), rows)
    kl, distance = (named(page, curve.format("mixture")) for curve in CURVES)
    for theme, (up, down) in (
        (figures.LIGHT, (kl.light, distance.light)),
        (figures.DARK, (kl.dark, distance.dark)),
    ):
        assert rise(up, theme.runs[0]) > 0.3
        assert rise(down, theme.runs[0]) < -0.2


def test_it_needs_nothing_else(tmp_path: Path) -> None:
    page = page_of(tmp_path, study_of(PLAIN), plain_rows(), NUMBERS)
    sources = re.findall(r'(?:src|srcset|href|action)="([^"]*)"', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    for other in ("http://", "https://", "<script", "<link", "@import", "url(", "<iframe"):
        assert other not in page
    assert "default-src 'none'" in page


def test_means_over_seeds(tmp_path: Path) -> None:
    rows = [*plain_rows()[:-1], row(PLAIN, 1, 77, beta=0.9)]
    page = page_of(tmp_path, study_of(PLAIN), rows)
    table = page[page.index('id="means"') :]
    lines = [re.sub(r"<[^>]*>", " ", line).split() for line in table.split("<tr>")[2:]]
    assert lines[0][:6] == ["0", "2.5", "(2", "to", "3)", "1.5"]
    assert lines[2][:3] == ["0.9", "\N{EN DASH}", "\N{EN DASH}"]  # one of two diverged: no mean
    assert re.search(r"<td>2</td><td>1</td>", table)


def test_diverged_missing_and_unevaluated_runs_are_said(tmp_path: Path) -> None:
    rows = [row(PLAIN, beta=0), row(PLAIN, 0, 1234, beta=0.5)]
    page = page_of(tmp_path, study_of(PLAIN), rows)
    assert "diverged at iteration 1,234" in page
    assert "not run" in page
    assert names(page) == rows_of_plate("beta", [0]) + [c.format("mixture") for c in CURVES]
    assert_mixture(named(page, "p at beta = 0: density").light, 0.3)
    shutil.rmtree(tmp_path / "runs")
    page = page_of(tmp_path, study_of(PLAIN), [rows[1]])
    assert "No run has pictures" in page
    other = row(PLAIN, beta=0.9)
    (tmp_path / "runs" / other["run"]).mkdir(parents=True)
    assert "not evaluated" in page_of(tmp_path, study_of(PLAIN), [rows[0], other])


def test_a_study_before_its_first_run(tmp_path: Path) -> None:
    page = page_of(tmp_path, study_of(PLAIN, CROSSED), [], outcomes=[])
    assert page.count("No run has pictures") == 2
    assert not names(page)
    numbers_only = page_of(tmp_path, study_of(), [], NUMBERS, outcomes=[])
    assert 'id="numbers"' in numbers_only
    assert 'id="means"' not in numbers_only


def test_a_strip_without_any_picture_keeps_its_place(tmp_path: Path) -> None:
    rows = [r for r in crossed_rows() if r["variant"] == "default"]
    page = page_of(tmp_path, study_of(CROSSED), rows)
    assert page.count("not run") == 2
    assert "variant = other" in page


def test_what_comes_from_files_is_escaped(tmp_path: Path) -> None:
    hostile = block(EVIL, **{EVIL: axis(0, 1), "_name$": axis(EVIL, "_plain$")})
    levels = [{EVIL: x, "_name$": name} for x in (0, 1) for name in (EVIL, "_plain$")]
    rows = [row(hostile, **level) for level in levels]
    study = Study(EVIL, EVIL, EVIL, EVIL, 1, (hostile,), ())
    number = {**dict.fromkeys(("claim", "equation", "expected", "measured"), EVIL), "holds": True}
    page = page_of(tmp_path, study, rows, [number], [Outcome(EVIL, None, EVIL)])
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    swapped = block("swapped", **{"_name$": axis(EVIL), EVIL: axis(0, 1)})
    rows = [row(swapped, **{"_name$": EVIL, EVIL: x}) for x in (0, 1)]
    page = page_of(tmp_path, study_of(swapped), rows)  # EVIL is the name of the curves' axis
    assert "<script" not in page
    figure_png(study_of(swapped), rows, tmp_path / "runs", "swapped", tmp_path / "f.png")


def test_more_than_two_dimensions_have_no_model_density(tmp_path: Path) -> None:
    page = page_of(tmp_path, study_of(PLAIN), plain_rows(), dimension=4)
    assert "histograms of the first two of 4 dimensions" in page
    assert ">data</th>" in page
    plate = rows_of_plate("beta", [0, 0.5, 0.9], "data", model=False)
    assert names(page) == plate + [c.format("mixture") for c in CURVES]
    ring, centre = ring_and_centre(named(page, "data: density").light)
    assert ring > 3 * centre


BOTH = ("data", "noise")
PANEL = {"sampl": "short-run samples at scheme = {}: {}", "slice": "slice at scheme = {}: {}"}


def test_plate_with_slices(tmp_path: Path) -> None:
    rows = scheme_rows(tmp_path)
    page = page_of(tmp_path, study_of(SCHEMES), rows)
    assert names(page) == [
        name
        for label in ("samples", "slice", "samples, log", "slice, log")
        for name in (f"truth: {label}", *(PANEL[label[:5]].format(s, label) for s in BOTH))
    ]
    for label, log in (("slice", False), ("slice, log", True)):
        assert_mixture(named(page, f"truth: {label}").light, 0.2, log)
        assert_mixture(named(page, f"slice at scheme = noise: {label}").light, 0.3, log)
    ring, centre = ring_and_centre(
        named(page, "short-run samples at scheme = noise: samples").light
    )
    assert ring > 3 * centre
    places = [page.index(f"<span>{x}</span></th>") for x in ("samples", "slice", "samples, log")]
    assert places == sorted(places)
    assert "short-run samples at scheme = noise: samples" in page
    assert "slice at scheme = noise: slice, log" in page
    assert "in the first two of 5 dimensions, estimated with Gaussian kernels" in page
    assert 'rowspan="4" colspan="1"><span>diverged at iteration 12' in page
    assert "(1.9 to 2.2)" in page
    plate = plates.lay_out(SCHEMES, rows, tmp_path / "runs")
    assert plate is not None
    assert plate.strips[0].truth[plates.SLICE].name == "Truth, slice"
    assert plate.strips[0].truth[plates.SAMPLES].name == "Data"


def test_a_slice_that_one_run_lacks(tmp_path: Path) -> None:
    rows = scheme_rows(tmp_path)
    shutil.rmtree(tmp_path / "runs" / rows[0]["run"])
    evaluate(tmp_path / "runs" / rows[0]["run"], 5)
    page = page_of(tmp_path, study_of(SCHEMES), rows)
    of_slices = [name for name in names(page) if "slice" in name]
    assert of_slices == [
        *("truth: slice", "slice at scheme = noise: slice"),
        *("truth: slice, log", "slice at scheme = noise: slice, log"),
    ]
    assert len(names(page)) == len(of_slices) + 2 * (1 + 2)  # and samples of both schemes
    assert_mixture(named(page, "slice at scheme = noise: slice").light, 0.3)
    assert "dimensions, histograms" in page


def test_figure_png_of_slices(tmp_path: Path) -> None:
    rows = scheme_rows(tmp_path)
    out = figure_png(study_of(SCHEMES), rows, tmp_path / "runs", "schemes", tmp_path / "f.png")
    with Image.open(out) as picture:
        width, height = picture.size
        colours = np.asarray(picture.convert("RGB"), dtype=int)
    assert height > width * 0.9  # four rows, and the truth with three schemes
    lit = np.ptp(colours, axis=2).max(axis=1) > 60  # rows of pixels that are in a panel
    assert np.count_nonzero(np.diff(lit.astype(int)) == 1) == 4


def test_samples_are_called_what_they_are(tmp_path: Path) -> None:
    page = page_of(tmp_path, study_of(PLAIN), plain_rows())
    assert "SGLD" not in page
    assert page.count(">short-run samples</th>") == 3


def test_the_table_has_the_columns_that_have_values(tmp_path: Path) -> None:
    page = page_of(tmp_path, study_of(SCHEMES, PLAIN), [*scheme_rows(tmp_path), *plain_rows()])
    first, second = page[page.index('id="means"') :].split("<thead>")[1:3]
    for table, there, gone in (
        (first, "Total variation on the slice", "KL(model"),
        (second, "Total variation", "Total variation on the slice"),
    ):
        assert f">{there}</th>" in table
        assert gone not in table
    cells = re.findall(r"<td>(.*?)</td>", first)
    assert cells[0] == "2.5<small>(2 to 3)</small><small>between 2.4 and 2.7</small>"
    assert "between" not in second
    heads = first.split("</thead>")[0].count("<th ")
    for line in first.split("</thead>")[1].split("<tr>")[1:4]:
        assert line.count("<th ") + line.count("<td>") == heads


def test_an_exact_kl_has_no_bracket(tmp_path: Path) -> None:
    rows = [r | {"kl_low": -5.0, "kl_high": 5.0} for r in plain_rows()]
    page = page_of(tmp_path, study_of(PLAIN), rows)
    assert "-5 to 5" not in page
    assert "between -5 and 5" not in page


def test_the_line_has_no_plate(tmp_path: Path) -> None:
    page = page_of(tmp_path, study_of(PLAIN), plain_rows(), dimension=1)
    assert "No run has pictures" in page


def test_a_broken_evaluation_is_named(tmp_path: Path) -> None:
    rows = plain_rows()
    folder = tmp_path / "runs" / rows[0]["run"]
    folder.mkdir(parents=True)
    (folder / "evaluation.npz").write_text("[1, 2")
    with pytest.raises(BadFile, match=r"evaluation\.npz is truncated .* `coldness evaluate"):
        page_of(tmp_path, study_of(PLAIN), rows)
    with pytest.raises(BadFile, match="is a folder"):
        write_study_report(study_of(PLAIN), [], [], [], tmp_path, tmp_path, COMMAND)


def test_axes_of_columns_and_strips() -> None:
    assert plates.column_axis(CROSSED) == "beta"
    assert plates.strip_levels(CROSSED) == [{"variant": "default"}, {"variant": "other"}]
    fixed = block(variant=axis("a", "b"), beta=axis(0.9))
    assert plates.column_axis(fixed) == "variant"
    assert plates.strip_levels(fixed) == [{"beta": 0.9}]
    assert plates.column_axis(block(a=axis(1, 2), b=axis(1, 2))) == "b"
    assert plates.column_levels(block()) == [{}]
    assert plates.strip_levels(block()) == [{}]


def test_curves_need_numbers_along_the_columns() -> None:
    assert study_curves.is_drawn(PLAIN)
    assert not study_curves.is_drawn(block())
    for levels in (("a", "b"), (0.9,), (False, True), (1, "a")):
        assert not study_curves.is_drawn(block(x=axis(*levels)))


def test_a_wide_axis_and_figures_that_are_not_positive_are_drawn(tmp_path: Path) -> None:
    wide = block(steps=axis(1, 10, 1000))
    rows = [row(wide, steps=steps) | {"kl": -0.001} for steps in (1, 10, 1000)]
    rows.append(row(wide, 1, 50, steps=10))
    page = page_of(tmp_path, study_of(wide), rows)
    plate = rows_of_plate("steps", [1, 10, 1000])
    assert names(page) == plate + [c.format("mixture") for c in CURVES]
    # The line is broken at 10 steps, where one seed diverged: a cross at the top of a logarithmic
    # axis, a third of the way.
    for curve in CURVES:
        x, y = line_in(named(page, curve.format("mixture")).light, figures.LIGHT.runs[0])
        assert 0.35 < x.min() < x.max() < 0.5
        assert y.min() > 0.85


def test_summary() -> None:
    rows = [row(PLAIN, beta=0), row(PLAIN, 1, 5, beta=0)]
    expected = "1 of 3 claims hold, 1 not measured, 2 runs with 2 seeds, 1 of them diverged"
    assert summarise(rows, OUTCOMES) == expected
    assert summarise([], []) == ""


def test_figure_png_holds_the_plate(tmp_path: Path) -> None:
    """Each tile is where it should be and shows its run; a run that diverged is hatched."""
    study, rows = study_of(PLAIN, CROSSED), [*plain_rows()[:2], *crossed_rows()]
    rows.append(row(PLAIN, 0, 1234, beta=0.9))
    evaluate(tmp_path / "runs" / rows[1]["run"], model=0.5)
    page_of(tmp_path, study, rows)
    out = figure_png(study, rows, tmp_path / "runs", "mixture", tmp_path / "mixture.png")
    inch, tile, gap, between = DPI, TILE, GAP, PAIR_GAP
    with Image.open(out) as picture:
        assert picture.format == "PNG"
        drawn = np.asarray(picture.convert("RGB"), dtype=int)
    lefts = [LEFT + tile + between + k * (2 * tile + gap + between) for k in range(3)]
    assert drawn.shape[1] == pytest.approx(inch * (lefts[2] + 2 * tile + gap + 0.1), abs=2)

    def shown_at(left: float, k: int = 0) -> np.ndarray:
        """Levels [x, y] of the tile in row k at places of the grid, away from its edges."""
        top = HEAD + k * (tile + gap)
        places = (SHOWN[2:-2] - SHOWN[0]) / (SHOWN[-1] - SHOWN[0])
        inset = 0.5 * tile / len(SHOWN)  # of a point's own square
        along = inset + places * (tile - 2 * inset)
        x = ((left + along) * inch).astype(int)
        y = ((top + tile - along) * inch).astype(int)
        return levels_of(drawn[y][:, x]).T

    top = np.exp(mixture_log_p(PLANE, 0.2).max())
    for left, std in ((LEFT, 0.2), (lefts[0], 0.3), (lefts[1], 0.5)):
        expected = np.exp(mixture_log_p(PLANE, std)[2:-2, 2:-2]) / top
        # Pixels are interpolated between points of the grid: alike, not equal.
        assert np.corrcoef(shown_at(left).ravel(), expected.ravel())[0, 1] > 0.99
        assert shown_at(left).max() == pytest.approx(expected.max(), abs=0.15)
        assert shown_at(left, 1).mean() > shown_at(left).mean()  # the logarithm below
    hatched = drawn[int(HEAD * inch) : int((HEAD + tile) * inch), int(lefts[2] * inch) :]
    assert (hatched == (0xF2, 0xF4, 0xF6)).all(2).mean() > 0.2
    assert np.ptp(hatched, axis=2).max() < 60  # and nothing of a panel's colours
    crossed = figure_png(study, rows, tmp_path / "runs", "crossed", tmp_path / "crossed.png")
    with Image.open(crossed) as picture:
        colours = np.asarray(picture.convert("RGB"), dtype=int)
    lit = np.ptp(colours, axis=2).max(axis=1) > 60  # rows of pixels that are in a panel
    assert np.count_nonzero(np.diff(lit.astype(int)) == 1) == 2 * 2  # two strips of two rows
    with pytest.raises(BadFile, match="no run of mixture"):
        figure_png(study, [], tmp_path / "runs", "mixture", tmp_path / "none.png")


@pytest.mark.browser
@needs_browser
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """At desktop and phone width every picture loads and nothing sticks out to the right."""
    long = "a-level-with-quite-a-long-name-that-has-no-spaces-to-break-at"
    wide = block("wide", variant=axis("default", long), beta=axis(0, 0.1, 0.3, 0.5, 0.7, 0.9))
    rows = [row(wide, variant="default", beta=beta) for beta in (0, 0.1, 0.3, 0.5, 0.7)]
    rows += [row(wide, 0, 1234, variant=long, beta=0.9), row(wide, variant=long, beta=0)]
    rows += [r | dict.fromkeys(NEW, 0.123456) for r in scheme_rows(tmp_path)]
    page = page_of(tmp_path, study_of(wide, SCHEMES), rows, NUMBERS)
    check_in_browser(page, (1500, 390), tmp_path)
