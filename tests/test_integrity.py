"""Checksums, and the checkpoints of a run: damage is seen, and a whole one is found."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import coldness
from coldness.cards import MARK
from coldness.checksums import checked_npz, load_json, save_json, save_npz
from coldness.cli.main import main
from coldness.files import BadFile
from coldness.runs.checkpoints import Checkpoints, drop_later, saved
from coldness.runs.folder import FolderError, RunFolder
from coldness.tensor_files import load_checkpoint, save_checkpoint
from coldness.trainer import carry_out
from coldness.training.recipe import Recipe
from small import read

BRIEF = (
    "--iterations=50", "--checkpoint_every=10", "--energy.net.widths=[4]", "--batch_size=8",
    "--sources.0.steps=1", "--evaluation.ais=null", "--compile=never",
)  # fmt: skip


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return read("mixture2d", *BRIEF)


@pytest.fixture(scope="module")
def whole(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    carry_out(recipe, out=out)
    return out


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def names(run: Path) -> list[str]:
    return [path.name for path in saved(run / "checkpoints")]


def weights(run: Path) -> bytes:
    return (run / "model" / "weights.safetensors").read_bytes()


def damage(path: Path) -> None:
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)


def test_every_flipped_bit_is_seen(whole: Path, tmp_path: Path) -> None:
    """Of small files every bit in turn; of others a few of many. 0.9 saw 8 of 400."""
    save_json(tmp_path / "a.json", {"d": 0.5, "kl": 1e-5, "name": "inf"})
    save_npz(tmp_path / "a.npz", {"x": np.arange(3)})
    save_checkpoint(tmp_path / "a.ckpt", {"x": torch.arange(3)})
    shutil.copytree(whole / "model", tmp_path / "model")
    readers: list[tuple[Path, Callable[[Path], object], int]] = [
        (tmp_path / "a.json", load_json, 1),
        (tmp_path / "a.npz", lambda path: np.load(checked_npz(path))["x"], 7),
        (tmp_path / "a.ckpt", load_checkpoint, 101),
        (tmp_path / "model" / "model.yaml", lambda path: coldness.load(path.parent), 499),
        (tmp_path / "model" / "weights.safetensors", lambda path: coldness.load(path.parent), 97),
    ]
    for path, load, every in readers:
        before = path.read_bytes()
        load(path)
        for bit in range(random.Random(0).randrange(every), 8 * len(before), every):
            damaged = bytearray(before)
            damaged[bit // 8] ^= 1 << bit % 8
            path.write_bytes(damaged)
            with pytest.raises(BadFile):
                load(path)
        path.write_bytes(before)


def test_what_was_written_without_checksums_is_read(run: Path) -> None:
    state = load_checkpoint(saved(run / "checkpoints")[-1])
    old = run / "checkpoints" / "last.ckpt"
    torch.save({**state, "format": "coldness-checkpoint-2"}, old)
    assert load_checkpoint(old)["iteration"] == 50
    assert names(run)[0] == "last.ckpt"
    np.savez_compressed(run / "a.npz", x=np.arange(3))
    assert np.load(checked_npz(run / "a.npz"))["x"].tolist() == [0, 1, 2]
    (run / "a.json").write_text('{\n  "d": 0.5\n}\n')
    assert load_json(run / "a.json") == {"d": 0.5}
    (run / "a.json").write_text('{\n  "d": ' + "1" * 5000 + "\n}\n")
    with pytest.raises(BadFile, match="not JSON"):
        load_json(run / "a.json")
    card = run / "model" / "model.yaml"
    card.write_text("\n".join([MARK, *card.read_text().splitlines()[1:]]))
    coldness.load(run)


def test_the_newest_checkpoints_are_kept(run: Path) -> None:
    assert names(run) == [f"iteration-{k}.ckpt" for k in (30, 40, 50)]


def test_the_best_by_held_out_likelihood_is_among_them(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, keep=1)
    for iteration, likelihood in ((1, -3.0), (2, -1.0), (3, -2.0)):
        kept.save({"iteration": iteration}, likelihood)
    assert [path.name for path in saved(tmp_path)] == ["iteration-2.ckpt", "iteration-3.ckpt"]
    resumed = Checkpoints(tmp_path, 1, load_checkpoint(tmp_path / "iteration-3.ckpt")["held_out"])
    resumed.save({"iteration": 4}, -1.5)
    assert [path.name for path in saved(tmp_path)] == ["iteration-2.ckpt", "iteration-4.ckpt"]
    resumed.save({"iteration": 3, "attempt": 1}, -0.5)  # after a rollback
    assert [path.name for path in saved(tmp_path)] == ["iteration-3-attempt-1.ckpt"]


def test_a_run_goes_on_from_the_newest_that_is_whole(
    run: Path, whole: Path, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    damage(run / "checkpoints" / "iteration-50.ckpt")
    shutil.rmtree(run / "model")
    carry_out(recipe, out=run, resume=True)
    assert "iteration-50.ckpt is truncated or damaged" in caplog.text
    assert weights(run) == weights(whole)
    assert (run / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    for path in saved(run / "checkpoints"):
        damage(path)
    with pytest.raises(BadFile, match="no other checkpoint is whole"):
        carry_out(recipe, out=run, resume=True)


@pytest.mark.parametrize("by", ["iteration", "path"])
def test_a_run_goes_on_from_a_chosen_checkpoint(
    by: str, run: Path, whole: Path, recipe: Recipe
) -> None:
    path = run / "checkpoints" / "iteration-30.ckpt"
    which = 30 if by == "iteration" else path
    (run / "metrics.csv").write_bytes((run / "metrics.csv").read_bytes() + b"half a r")
    carry_out(recipe, out=run, resume_from=which)
    assert weights(run) == weights(whole)
    assert (run / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()
    with pytest.raises(BadFile, match=r"no checkpoint of iteration 7; it has 30, 40, 50"):
        carry_out(recipe, out=run, resume_from=7)


def test_later_checkpoints_do_not_outlive_their_rows(run: Path) -> None:
    folder = RunFolder(run)
    state = folder.saved_state(30)
    assert state is not None
    drop_later(folder.checkpoints, state)
    assert names(run) == ["iteration-30.ckpt"]


def test_without_its_checkpoints_a_run_does_not_start_over(run: Path, recipe: Recipe) -> None:
    """0.9 began again at iteration 0, without a word."""
    rows = (run / "metrics.csv").read_bytes()
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FolderError, match="checkpoints are gone"):
        carry_out(recipe, out=run, resume=True)
    assert (run / "metrics.csv").read_bytes() == rows
    (run / "metrics.csv").unlink()
    with pytest.raises(FolderError, match="checkpoints are gone"):  # of a model that is there
        carry_out(recipe, out=run, resume=True)


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_bad_snapshot_of_the_guard_does_not_block_the_checkpoint(
    how: str, run: Path, whole: Path, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    for path in (run / "checkpoints").glob("good-*"):
        path.unlink() if how == "missing" else damage(path)
    shutil.rmtree(run / "model")
    carry_out(recipe, out=run, resume=True)
    assert weights(run) == weights(whole)
    assert "without this snapshot" in caplog.text


FIELDS: dict[str, object] = {
    "iteration": "x", "attempt": None, "seconds": [1], "validated": 5, "held_out": {"a": "b"},
    "energy": 5, "sources": {}, "terms": 5, "data_generator": 5,
    "guard": 5, "guard.watch": "x", "guard.watch.laws": {"a": 1}, "guard.watch.laws.d": None,
    "guard.watch.laws.d.values": "x", "guard.watch.laws.d.reference": [], "guard.watch.gaps": ["x"],
    "guard.snapshots": [None], "guard.spell": {"a": 1}, "guard.relief": {"rate": []},
    "guard.warned": {"gap": "x"}, "guard.lost": "x", "guard.events": math.nan,
    "optimiser": [], "optimiser.state": 5, "optimiser.state.0.step": torch.zeros(3),
    "optimiser.state.0.exp_avg": True, "optimiser.state.0.exp_avg_sq": torch.zeros(3),
    "optimiser.state.0.max_exp_avg_sq": torch.zeros(3), "optimiser.param_groups.0.amsgrad": True,
    "optimiser.param_groups.0.betas": (0.9,), "optimiser.param_groups.0.eps": torch.zeros(3),
}  # fmt: skip
"""Values of other types. With those of the optimiser, Adam writes elsewhere or crashes."""


def changed(state: object, names: list[str], value: object) -> object:
    if not names:
        return value
    key = int(names[0]) if names[0].isdigit() else names[0]
    if isinstance(state, list):
        return [changed(v, names[1:], value) if k == key else v for k, v in enumerate(state)]
    assert isinstance(state, dict)
    return {**state, key: changed(state.get(key), names[1:], value)}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_of_other_types_are_refused_in_one_line(
    name: str, run: Path, recipe: Recipe
) -> None:
    """Of a checkpoint whose checksum is right."""
    path, rows = run / "checkpoints" / "iteration-50.ckpt", (run / "metrics.csv").read_bytes()
    wrong = changed(load_checkpoint(path), name.split("."), FIELDS[name])
    assert isinstance(wrong, dict)
    save_checkpoint(path, wrong)
    with pytest.raises(BadFile, match=r"^[^\n]{1,300}$"):
        carry_out(recipe, out=run, resume=True)
    assert (run / "metrics.csv").read_bytes() == rows


@pytest.mark.parametrize("name", ["iteration", "energy", "optimiser.state", "sources"])
def test_snapshots_with_fields_of_other_types_are_left_out(
    name: str, run: Path, whole: Path, recipe: Recipe, caplog: pytest.LogCaptureFixture
) -> None:
    path = run / "checkpoints" / "good-0-0.ckpt"
    wrong = changed(load_checkpoint(path), name.split("."), 5.5)
    assert isinstance(wrong, dict)
    save_checkpoint(path, wrong)
    carry_out(recipe, out=run, resume=True)
    assert "without this snapshot" in caplog.text
    assert weights(run) == weights(whole)


@pytest.mark.parametrize("x", [5, torch.zeros(3), torch.zeros(1000, 3)], ids=["5", "3", "3D"])
def test_an_evaluation_refuses_banks_of_other_types(
    x: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank = "--sources.0.start={class_path: Bank, init_args: {capacity: 1000}}"
    carry_out(read("mixture2d", *BRIEF, "--iterations=10", bank), out=tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "iteration-10.ckpt"
    wrong = changed(load_checkpoint(path), ["sources", "0", "start", "x"], x)
    assert isinstance(wrong, dict)
    save_checkpoint(path, wrong)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), "--samples=50"]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "coldness: " in line]
    assert len(said) == 1
    assert "does not fit the bank" in said[0]


def test_missing_fields_are_refused_too(run: Path, recipe: Recipe) -> None:
    path = run / "checkpoints" / "iteration-50.ckpt"
    whole = load_checkpoint(path)
    for name in ("iteration", "energy", "optimiser", "sources", "chain_generator"):
        save_checkpoint(path, {k: v for k, v in whole.items() if k != name})
        with pytest.raises(BadFile, match="does not fit"):
            carry_out(recipe, out=run, resume=True)
    for name in ("watch", "snapshots", "spell", "relief", "warned", "events"):
        guard = {k: v for k, v in whole["guard"].items() if k != name}
        save_checkpoint(path, {**whole, "guard": guard})
        with pytest.raises(BadFile, match="does not fit its guard"):
            carry_out(recipe, out=run, resume=True)


def test_keep_may_change_on_resume(run: Path, recipe: Recipe) -> None:
    more = read("mixture2d", *BRIEF, "--iterations=70", "--keep=1")
    carry_out(more, out=run, resume=True)
    assert names(run) == ["iteration-70.ckpt"]
    with pytest.raises(ValueError, match="keep must be >= 1"):
        read("mixture2d", "--keep=0").parts()
