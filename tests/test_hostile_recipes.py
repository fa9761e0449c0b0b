"""Recipes that were written to do harm, or by accident: one line, nothing imported, at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from coldness.cli.main import main
from coldness.cli.options import overrides_of
from coldness.documents import MOST_DEPTH, SHOWN, BadDocument, read_yaml, shortened
from coldness.signatures import imported
from coldness.training.recipe import Recipe, RecipeError, packaged

BASE = packaged()["mixture2d"].read_text()
ENERGY, KERNEL = "class_path: ScalarEnergy", "kernel: Langevin"


def bomb(form: str) -> str:
    """430 bytes that stand for 9^9 values: lists of aliases, or mappings that merge aliases."""
    lines = ["a: &a {x: 1}" if "<<" in form else "a: &a [x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} " + form.format(",".join([f"*{before}"] * 9)))
    return "\n".join(lines)


HOSTILE = {
    "a number for a part": "base: mixture2d\nset: {sampler: 5}",
    "a number for a list": "base: mixture2d\nset: {sources: 5}",
    "text for arguments": "base: mixture2d\nset: {energy: {class_path: MLP, init_args: a}}",
    "text for arguments of a network": BASE.replace("init_args: {inputs: 2}", "init_args: text"),
    "a field of text": BASE.replace("init_args: {inputs: 2}", "init_args: text")
    + "\nbase: mixture2d",
    "a kernel without a class": BASE.replace(KERNEL, "kernel: {step_size: 1}"),
    "a kernel that is no kernel": BASE.replace(KERNEL, "kernel: annotations"),
    "a kernel that is a module": BASE.replace(KERNEL, "kernel: run"),
    "deep lists": "data: " + "[" * 5000 + "]" * 5000,
    "deep mappings": "data: " + "{a: " * 5000 + "1" + "}" * 5000,
    "a list in itself": "data: &a [*a]\nenergy: ScalarEnergy",
    "a mapping in itself": "data: &a {x: *a}\nenergy: ScalarEnergy",
    "its own base": "base: ./recipe.yaml",
    "aliases of aliases": bomb("[{}]"),
    "merged aliases": bomb("{{<<: [{}]}}"),
    "a long whole number": BASE.replace("10000", "9" * 5000),
    "no date": BASE.replace("10000", "2001-99-99"),
    "a date": BASE.replace("10000", "2001-01-01"),
    "a set": BASE.replace("10000", "!!set {a, b}"),
    "bytes": BASE.replace("10000", "!!binary aGVsbG8="),
    "a Python object": BASE.replace("10000", "!!python/object/apply:os.system [true]"),
    "a list as a key": BASE + "? [1, 2]\n: 3",
    "a number as a key": BASE + "1: 3",
    "nothing as a key": "base: mixture2d\nset: {~: 3}",
    "a long path": "base: mixture2d\nset: {" + "a." * 100 + "b: 1}",
    "a long name": BASE.replace("ScalarEnergy", "x" * 10_000),
    "a long field": BASE + "y" * 10_000 + ": 3",
    "a long value": BASE.replace("10000", "z" * 10_000),
    "a long base": "base: " + "z" * 10_000,
    "much text": "# " + "z" * 300_000 + "\n" + BASE,
    "the command itself": BASE.replace(ENERGY, "class_path: coldness.__main__.main"),
    "a module that runs": BASE.replace(ENERGY, "class_path: hostile.part"),
    "no noise": BASE.replace("noise: 0.05", "noise: 1.0e-300"),
    "endless noise": BASE.replace("noise: 0.05", "noise: 1.0e+300"),
    "endless drift": BASE.replace("drift: 1.0", "drift: .inf"),
    "control characters": BASE + "\x07: 1",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_recipe_is_refused_in_one_short_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError) as raised:
        Recipe.read(path).parts()
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) <= SHOWN
    before = sorted(tmp_path.iterdir())
    assert main(["train", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("coldness: ")
    assert said.count("\n") == 1
    assert len(said) <= SHOWN + len("coldness: \n")
    assert sorted(tmp_path.iterdir()) == before
    assert "hostile" not in sys.modules


def test_two_files_that_are_each_others_base(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: b.yaml\n")
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    with pytest.raises(RecipeError, match="its own base"):
        Recipe.read(tmp_path / "a.yaml")


def test_a_chain_of_bases_is_no_circle(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("base: b.yaml\nset: {iterations: 7}\n")
    (tmp_path / "b.yaml").write_text("base: mixture2d\nset: {iterations: 8, seed: 3}\n")
    recipe = Recipe.read(tmp_path / "a.yaml")
    assert (recipe.iterations, recipe.seed) == (7, 3)


@pytest.mark.parametrize("value", ["{class_path: hostile.part}", "hostile.part"])
def test_an_override_imports_nothing(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(RecipeError, match="allow-imports"):
        Recipe.read("mixture2d", overrides_of(["--energy", value]))
    assert "hostile" not in sys.modules


@pytest.mark.parametrize(
    ("path", "trusted"),
    [
        ("coldness.kernels.Langevin", True),
        ("torch.optim.Adam", True),
        ("coldness.__main__.main", False),
        ("coldness.model._hub", False),
        ("json.JSONDecoder", False),
    ],
)
def test_only_public_names_of_coldness_are_imported(path: str, trusted: bool) -> None:
    assert (imported(path) is not None) == trusted


def test_aliases_are_read_within_bounds() -> None:
    assert read_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}}") == {
        "a": [1, 2], "b": [1, 2], "c": {"d": 1},
    }  # fmt: skip
    assert read_yaml("") is None
    with pytest.raises(BadDocument, match="more than 5 values"):
        read_yaml("a: &x [1, 2]\nb: *x", values=5)


@pytest.mark.parametrize(("depth", "read"), [(MOST_DEPTH - 1, True), (MOST_DEPTH, False)])
def test_the_bound_on_depth(depth: int, read: bool) -> None:
    text = "[" * depth + "1" + "]" * depth
    if read:
        value: Any = read_yaml(text)
        for _ in range(depth):
            (value,) = value
        assert value == 1
    else:
        with pytest.raises(BadDocument, match="levels deep"):
            read_yaml(text)


def test_a_noise_that_no_temperature_has_is_named() -> None:
    """0.9 ended with a ZeroDivisionError."""
    with pytest.raises(RecipeError, match=r"no finite coldness and step, got .*1e-300"):
        Recipe.read("mixture2d", overrides_of(["--temperature.noise", "1e-300"]))


def test_long_messages_keep_both_ends() -> None:
    assert shortened("x" * SHOWN) == "x" * SHOWN
    short = shortened("begin" + "x" * 10_000 + "end")
    assert len(short) == SHOWN
    assert short.startswith("begin")
    assert short.endswith("end")
