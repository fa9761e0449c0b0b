"""Tables: what becomes of every kind of column, exact units, files, and recipes that adapt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

import coldness
from coldness.cli.main import main
from coldness.configuration import construct, describe
from coldness.data import Table, TableUnits, in_model
from coldness.data.points import BadPoints
from coldness.data.table_files import read_sheet
from coldness.domain import Units
from coldness.training.adapting import TableRules
from coldness.training.recipe import Recipe
from coldness.training.table_rules import Decisions

TINY = {
    "energy.net.widths": [8],
    "live": None,
    "stop": None,
    "evaluation.samples": 50,
    "evaluation.long_steps": 5,
    "evaluation.ais.chains": 20,
    "evaluation.ais.levels": 8,
    "iterations": 10,
}


def mixed(count: int = 400, seed: int = 0) -> pd.DataFrame:
    """One column of every kind."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(3, 2, count), "n": rng.poisson(4, count)})
    frame["same"] = 5.0
    frame["sum"] = 2 * frame["a"] - 7
    frame["colour"] = rng.choice(["red", "light green", "blue"], count)
    frame["sex"] = rng.choice(["f", "m"], count)
    frame["gaps"] = np.where(rng.random(count) < 0.2, np.nan, rng.normal(size=count))
    frame["far"] = rng.normal(size=count)
    frame.loc[7, "far"] = 1e30
    frame["id"] = [f"row {k}" for k in range(count)]
    frame["none"] = np.nan
    return frame


@pytest.fixture(scope="module")
def table() -> Table:
    return Table.of(mixed())


# Columns.


def test_every_kind_of_column(table: Table) -> None:
    kinds = dict(zip(table.units.column_names, table.units.kinds, strict=True))
    assert kinds == {
        "a": "number", "n": "whole", "same": "constant", "sum": "dependent", "colour": "onehot",
        "sex": "code", "gaps": "number", "far": "number", "id": "empty", "none": "empty",
    }  # fmt: skip
    assert table.shape == (8,)
    for part in (table.train, table.validation, table.test):
        assert bool(part.isfinite().all())
    assert len(table.train) + len(table.validation) + len(table.test) == 400


def test_each_column_is_named_once_for_what_was_done(table: Table) -> None:
    text = "\n".join(table.notes)
    for name in ("same", "sum", "colour", "sex", "gaps", "far", "id", "none"):
        named = [note for note in table.notes if name in note.partition(":")[0].split(" ")]
        named += [n for n in table.notes if f" {name}," in n.partition(":")[0]]
        assert len(named) == 1, (name, text)
    assert "columns same: constant" in text or "column same: constant" in text
    assert "column sum: a linear combination" in text
    assert "column n: integers, with uniform noise of width 1" in text


def test_ordinary_columns_are_standardised_by_the_training_part() -> None:
    x = np.random.default_rng(0).normal([3.0, -40.0], [2.0, 0.1], (500, 2))
    data = Table.of(x)
    torch.testing.assert_close(data.train.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(data.train.std(0), torch.ones(2), atol=1e-5, rtol=0)
    assert data.notes == ()
    assert data.domain.log_scale == pytest.approx(float(np.log(data.units.scale).sum()))
    assert float(data.units.log_stretch(data.train).abs().max()) == 0


def test_one_far_value_changes_nothing_for_the_others() -> None:
    """Centre and scale of a column are those without the value, to a few hundredths."""
    x = np.random.default_rng(0).normal(size=(1000, 1))
    far = x.copy()
    far[np.argsort(x[:, 0])[500]] = 1e30
    plain, bent = (Table.of(v, held_out=0.0, validation=0.0) for v in (x, far))
    at = np.linspace(-3, 3, 50)[:, None]
    a, b = (in_model(at, data.domain) for data in (plain, bent))
    assert float((a - b).abs().max()) < 0.15
    assert 10 < float(in_model([[1e30]], bent.domain)) < 60
    assert float(in_model([[1e30]], plain.domain)) < 60  # new rows may have such values too


def test_integers_have_noise_as_wide_as_their_gap() -> None:
    """x - round(x) is uniform: mean 0, variance g^2 / 12, within five standard errors."""
    x = 10.0 * np.random.default_rng(0).integers(0, 6, (4000, 1))
    data = Table.of(x, held_out=0.0, validation=0.0)
    own = data.original(data.train)[:, 0].numpy()
    noise = own - 10 * np.round(own / 10)
    assert np.abs(noise).max() <= 5.001
    assert noise.mean() == pytest.approx(0, abs=5 * 10 / np.sqrt(12 * 4000))
    assert noise.var() == pytest.approx(100 / 12, rel=5 * np.sqrt(0.8 / 4000))
    assert (data.units.rounded(own[:, None]) == np.round(own)[:, None]).all()


def test_missing_numbers_are_drawn_from_the_column_and_scored_as_its_median() -> None:
    x = np.random.default_rng(0).exponential(size=(3000, 2))
    known = x[x[:, 0] > 0.5, 0]
    x[x[:, 0] <= 0.5, 0] = np.nan
    data = Table.of(x, held_out=0.0, validation=0.0)
    drawn = data.original(data.train)[:, 0].numpy()
    assert np.isin(np.round(drawn, 4), np.round(known, 4)).mean() > 0.99
    y = in_model([[np.nan, 1.0]], data.domain)
    assert float(data.original(y)[0, 0]) == pytest.approx(np.median(known))


def test_repeated_rows_are_kept_and_counted() -> None:
    x = np.random.default_rng(0).normal(size=(100, 2))
    data = Table.of(np.concatenate([x, x]), held_out=0.0, validation=0.0)
    assert len(data.train) == 200
    assert "100 of 200 training rows repeat others; they are kept" in data.notes


# Units: exact laws.


def test_log_p_is_exact_in_the_units_of_the_table(table: Table) -> None:
    """log_scale + log_stretch is log |det d original / dy| by automatic differentiation."""
    numeric = Table.of(mixed()[["a", "gaps", "far"]])
    y = torch.linspace(-20, 20, 60, dtype=torch.float64).reshape(-1, 3)
    found = numeric.domain.log_scale + numeric.units.log_stretch(y)
    for k, row in enumerate(y):
        jacobian = torch.autograd.functional.jacobian(
            lambda v: numeric.units.original(v[None])[0], row
        )
        assert float(found[k]) == pytest.approx(float(torch.logdet(jacobian)), abs=1e-9)


def test_there_and_back(table: Table) -> None:
    """Columns that are not categories return to themselves; dropped ones are restored."""
    y = table.test.double()
    own = table.original(y)
    again = table.units.into_model(own)
    hot = table.units.places[table.units.column_names.index("colour")]
    ordinary = [k for k in range(8) if not hot.start <= k < hot.stop]
    torch.testing.assert_close(again[:, ordinary], y[:, ordinary], rtol=1e-9, atol=1e-9)
    columns = dict(zip(table.units.column_names, own.T, strict=True))
    assert bool((columns["same"] == 5).all())
    torch.testing.assert_close(columns["sum"], 2 * columns["a"] - 7, rtol=1e-6, atol=1e-6)


def test_units_are_saved_with_any_names_in_them(table: Table) -> None:
    frame = mixed().rename(columns={"a": "os.system('x') {a: 1}", "colour": "a b: c, d"})
    units = Table.of(frame).units
    assert construct(Units, yaml.safe_load(yaml.safe_dump(describe(units)))) == units  # type: ignore[type-abstract]


def test_rows_are_the_same_from_frames_in_any_order_and_with_unknown_categories(
    table: Table,
) -> None:
    frame = mixed()
    y = in_model(frame, table.domain)
    assert torch.equal(y, in_model(frame[frame.columns[::-1]], table.domain))
    assert torch.equal(y[:5], in_model(frame[:5], table.domain))
    frame["colour"] = "purple"
    hot = table.units.places[table.units.column_names.index("colour")]
    zeros = table.units.bent(torch.zeros(1, 8, dtype=torch.float64))[0, hot]
    assert torch.equal(in_model(frame, table.domain)[0, hot], zeros)
    with pytest.raises(ValueError, match="no column 'a'"):
        in_model(frame.drop(columns="a"), table.domain)
    with pytest.raises(ValueError, match="column 'a' holds numbers, got 'x'"):
        in_model(frame.assign(a="x"), table.domain)


def test_columns_are_found_by_name_or_refused(tmp_path: Path) -> None:
    """A file without a column that the model needs is never scored by position instead."""
    frame = mixed()[["a", "n", "gaps", "same"]]
    units = Table.of(frame).units
    expected = units.coded(frame)
    for changed in (frame[frame.columns[::-1]], frame.drop(columns="same"), frame.assign(z="x")):
        changed.to_csv(tmp_path / "x.csv", index=False)
        np.testing.assert_array_equal(units.codes_of(read_sheet(str(tmp_path / "x.csv"))), expected)
    np.testing.assert_array_equal(units.coded(frame.to_numpy()), expected)
    other = frame.drop(columns="a").assign(z=1.0)
    with pytest.raises(ValueError, match="no column 'a'; it has n, gaps, same, z"):
        units.coded(other)
    with pytest.raises(ValueError, match="no column 'a' and 2 more that the model needs; it has A"):
        units.coded(frame.rename(columns=str.upper))


def test_new_rows_are_finite_or_refused() -> None:
    frame = mixed()[["a", "far", "sex"]]
    data = Table.of(frame)
    largest = frame[:2].assign(a=[1.7e308, -1.7e308], far=[-1.7e308, 1.7e308])
    y = in_model(largest, data.domain)
    assert bool(y.isfinite().all())
    assert bool(data.units.log_stretch(y).isfinite().all())
    with pytest.raises(ValueError, match="column 'far' has an infinite value in row 1"):
        in_model(frame[:3].assign(far=[0.0, np.inf, 0.0]), data.domain)
    frame.loc[8, "far"] = -1.7e308
    assert bool(Table.of(frame, held_out=0.0).train.isfinite().all())


def test_truth_values_are_the_same_in_every_file(tmp_path: Path) -> None:
    frame = mixed(60)[["a"]].assign(b=np.arange(60) % 3 == 0)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.replace({"b": {True: "TRUE", False: "FALSE"}}).to_csv(tmp_path / "r.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    units = Table.of(frame).units
    assert units.category_names[1] == ("False", "True")
    expected = units.coded(frame)
    assert expected[:4, 1].tolist() == [1, 0, 0, 1]
    for name in ("x.csv", "r.csv", "x.parquet"):
        found = units.codes_of(read_sheet(str(tmp_path / name)))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    gaps = frame.astype({"b": object})
    gaps.loc[0, "b"] = None
    np.testing.assert_array_equal(units.coded(gaps)[:4, 1], [2, 0, 0, 1])
    np.testing.assert_array_equal(units.coded(gaps.astype({"b": "boolean"}))[:4, 1], [2, 0, 0, 1])


def test_values_are_written_as_people_read_them(table: Table) -> None:
    shown = [table.units.written(0, v) for v in (66960.4, 66960.0, 0.123456, 1e30, -3.0)]
    assert shown == ["66960", "66960", "0.1235", "1e+30", "-3"]
    assert table.units.written(4, 0.0) == "blue"


def test_columns_that_are_dropped_say_why() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=100), "id": np.arange(100) + 10**17})
    frame["gaps"] = rng.normal(size=100).astype(str)
    frame.loc[::9, "gaps"] = "n.d."
    assert Table.of(frame).notes == (
        "column id: constant but for the last of its digits, dropped",
        "column gaps: numbers among text such as 'n.d.', dropped; as NA it is missing",
    )


# Files.


def test_names_of_columns_become_unique_as_in_pandas(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(",a, a,a.1,\n0,1,2,3,\n1,4,5,6,\n")
    assert read_sheet(str(path)).names == ("Unnamed: 0", "a", "a.1", "a.1.1", "Unnamed: 4")


def test_cells_may_begin_with_a_hash_and_be_very_long(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"# a comment\ncolour,x\n#f00,1\n#00f,2\n{'long ' * 100_000},3\n")
    sheet = read_sheet(str(path))
    assert sheet.names == ("colour", "x")
    assert [name[:4] for name in sheet.categories[0]] == ["#00f", "#f00", "long"]
    path.write_text("colour,x\n#f00,1\n")
    assert read_sheet(str(path)).categories == (("#f00",), ())
    path.write_text("# a b\n1 2\n# in between\n3 4\n")
    np.testing.assert_array_equal(read_sheet(str(path)).values, [[1, 2], [3, 4]])


@pytest.mark.parametrize("labels", [["u", None, "v"] * 20, [0.0, np.nan, 1.0] * 20])
def test_rows_without_a_target_are_a_class(tmp_path: Path, labels: list[object]) -> None:
    frame = mixed(60)[["a"]].assign(y=labels)
    frame.to_csv(tmp_path / "x.csv", index=False)
    data = Table(str(tmp_path / "x.csv"), target="y")
    assert len(data.classes) == 3
    assert "missing" in data.classes
    assert data.notes == ("the target is missing in 20 rows, a class of their own",)


def test_the_same_table_from_every_kind_of_file(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", X=x, y=np.arange(50) % 2)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_csv(tmp_path / "x.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "x.parquet")
    np.savetxt(tmp_path / "x.txt", x, fmt="%.17g")
    expected = Table.of(x).train
    for path in sorted(tmp_path.iterdir()):
        torch.testing.assert_close(Table(str(path)).train, expected, rtol=1e-6, atol=1e-6)


def test_text_dates_and_missing_cells_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("﻿x;colour;when;note\n1;red;2020-01-01;a\n?;;2020-01-03;\n2.5;blue;NA;c\n")
    sheet = read_sheet(str(path))
    assert sheet.names == ("x", "colour", "when", "note")
    assert sheet.categories == ((), ("blue", "red"), (), ("a", "c"))
    expected = [[1, 1, 18262, 0], [np.nan, np.nan, 18264, np.nan], [2.5, 0, np.nan, 1]]
    np.testing.assert_array_equal(sheet.values, expected)


def test_decimal_commas_between_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = "1,5;K\u00f6ln, Nord;3\n-2;K\u00f6ln;4\nNA;Bern;5\n"
    path.write_text(f"\ufeffGr\u00f6\u00dfe;Ort;n\n{rows}", encoding="utf-8")
    sheet = read_sheet(str(path))
    np.testing.assert_array_equal(sheet.values, [[1.5, 2, 3], [-2, 1, 4], [np.nan, 0, 5]])
    assert sheet.names == ("Gr\u00f6\u00dfe", "Ort", "n")
    assert sheet.categories[1] == ("Bern", "K\u00f6ln", "K\u00f6ln, Nord")
    path.write_text("Gr\u00f6\u00dfe;n\n1;2\n", encoding="latin-1")
    with pytest.raises(BadPoints, match="not UTF-8; save it as CSV with UTF-8"):
        read_sheet(str(path))
    path.write_text("1,5;2,5\n3,5;4\n")
    plain = read_sheet(str(path))
    np.testing.assert_array_equal(plain.values, [[1.5, 2.5], [3.5, 4]])
    assert not plain.named


def test_a_target_is_no_column_and_gives_classes(tmp_path: Path) -> None:
    frame = mixed(100)[["a", "gaps", "sex"]]
    frame.to_csv(tmp_path / "x.csv", index=False)
    data = Table(str(tmp_path / "x.csv"), target="sex")
    assert data.classes == ("f", "m")
    assert data.shape == (2,)
    assert data.labelled is data
    x, labels = data.sample_labelled(500, torch.Generator().manual_seed(0))
    whole = {tuple(row.tolist()): int(k) for row, k in zip(data.train, data.train_labels)}  # noqa: B905
    assert all(whole[tuple(row.tolist())] == int(k) for row, k in zip(x, labels, strict=True))
    with pytest.raises(BadPoints, match="no column 'size'; it has a, gaps, sex"):
        Table(str(tmp_path / "x.csv"), target="size")
    assert Table(str(tmp_path / "x.csv"), target="0").labelled is None


REFUSED = {
    "constant": (np.ones((30, 2)), "no column of .* varies"),
    "infinite": (np.array([[1.0, 2.0], [np.inf, 1.0]] * 10), "column '0' .* infinite value in row"),
    "few": (np.zeros((3, 2)), "3 rows; at least 5"),
    "complex": (np.ones((30, 2), complex), "real numbers or text"),
    "cube": (np.ones((30, 2, 2)), "rows and columns"),
}


@pytest.mark.parametrize(("x", "message"), REFUSED.values(), ids=REFUSED)
def test_tables_that_nothing_can_be_done_about(x: np.ndarray, message: str) -> None:
    with pytest.raises(BadPoints, match=message) as caught:
        Table.of(x)
    assert "\n" not in str(caught.value)


def test_a_file_is_not_copied_in_memory(tmp_path: Path) -> None:
    """Values of an .npy file stay in it: rows are read in blocks."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32))
    assert isinstance(read_sheet(str(tmp_path / "x.npy")).values, np.memmap)
    data = Table(str(tmp_path / "x.npy"), held_out=0.2)
    parts = (data.test, data.validation, data.train)
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 1


# Recipes that adapt.


def test_rules_decide_and_overrides_count() -> None:
    """Decisions go under overrides, whichever is the wider path, and rules are gone after them."""
    found = Decisions({"iterations": 40, "energy.net": {"widths": [5, 5]}, "ema": 0.5}, ("a", "b"))
    given = {"iterations": 7, "energy.net.widths": [9], "adapt.budget": "fast"}
    recipe = Recipe.read("table", given)
    decided = recipe.decided(found)
    assert decided["iterations"] == 7
    assert decided["energy.net.widths"] == [9]
    assert decided["ema"] == 0.5
    assert decided["adapt"] is None
    assert recipe.overruled(found) == ["given instead: iterations 7"]
    plain = Recipe.read("table").decided(found)
    assert (plain["iterations"], plain["energy.net.widths"]) == (40, [5, 5])
    assert decided.decided(found) == decided
    assert decided.seeded(5) == decided.replace({"seed": 5})


def test_a_run_keeps_what_was_decided_and_said(tmp_path: Path) -> None:
    frame = mixed(200)
    model = coldness.train("table", data=frame, out=tmp_path / "run", overrides=TINY)
    config = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    assert config["adapt"] is None
    lines = [json.loads(x) for x in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    said = [line["text"] for line in lines if line["cause"] == "settings"]
    data = Table.of(frame)
    told = [*data.notes, *TableRules().decide(data).said]
    assert said[: len(told)] == told
    assert "given instead: iterations 10" in said[len(told) :]
    resumed = coldness.train("table", data=frame, out=tmp_path / "run", resume=True, overrides=TINY)
    assert (tmp_path / "run/events.jsonl").read_text().splitlines() == list(map(json.dumps, lines))
    loaded = coldness.load(tmp_path / "run")
    assert loaded.domain == model.domain
    assert isinstance(loaded.domain.units, TableUnits)
    np.testing.assert_array_equal(loaded.potential(frame), model.potential(frame))
    np.testing.assert_array_equal(resumed.potential(frame), model.potential(frame))


@pytest.mark.filterwarnings("ignore:log Z is only known")
def test_the_gradient_of_log_p_is_that_of_finite_differences() -> None:
    x = mixed(200)[["a", "gaps", "far"]].to_numpy()
    model = coldness.train("table", data=x, overrides=TINY)
    model.energy.double()
    at = np.array([[1.0, 0.5, 0.2], [4.0, -1.0, 1e3]])
    slope = model.score(at)
    for j, step in enumerate((1e-5, 1e-5, 1e-2)):
        move = np.zeros((1, 3))
        move[0, j] = step
        change = (model.log_prob(at + move) - model.log_prob(at - move)) / (2 * step)
        np.testing.assert_allclose(slope[:, j], change, rtol=2e-4, atol=1e-7)


def test_from_a_table_to_a_report(tmp_path: Path) -> None:
    mixed(300).to_csv(tmp_path / "my table.csv", index=False)
    words = [f"--{path}={json.dumps(value)}" for path, value in TINY.items()]
    path, out = str(tmp_path / "my table.csv"), tmp_path / "run"
    assert main(["train", "table", "--data.path", path, "--out", str(out), *words]) == 0
    metrics = json.loads((out / "metrics.json").read_text())
    assert {"log_likelihood_test", "log_likelihood_gaussian"} <= metrics.keys()
    assert main(["evaluate", str(out), "--data", path, "--samples=50"]) == 0
    assert main(["train", "table", "--data.path", path, "--out", str(out), "--resume"]) == 0


def test_test_points_carry_the_noise_of_training(table: Table) -> None:
    """Else columns of ones would lie on a plane, which has no density."""
    x = table.units.spread(torch.from_numpy(table.units.coded(mixed())), 0)
    assert int(torch.linalg.matrix_rank(torch.cov(x.T))) == 8
    plain = in_model(mixed(), table.domain)
    assert float((x - plain).mean(0).abs().max()) < 0.1
