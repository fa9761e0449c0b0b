"""Files that hold tensors: atomic, checked, and never code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch

from coldness.files import BadFile, write_atomically
from coldness.tensor_files import load_checkpoint, load_tensors, save_checkpoint, save_tensors


def test_round_trip(tmp_path: Path) -> None:
    state = {"iteration": 3, "x": torch.arange(4.0), "ema": None, "nested": [{"y": torch.ones(2)}]}
    save_checkpoint(tmp_path / "a.ckpt", state)
    back = load_checkpoint(tmp_path / "a.ckpt")
    assert back["iteration"] == 3
    assert torch.equal(back["x"], state["x"])
    assert back["ema"] is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    save_checkpoint(path, {"iteration": 1})

    def torn(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_atomically(path, torn)
    assert load_checkpoint(path)["iteration"] == 1


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused(part: float, tmp_path: Path) -> None:
    checkpoint, weights = tmp_path / "a.ckpt", tmp_path / "a.safetensors"
    save_checkpoint(checkpoint, {"x": torch.randn(100)})
    save_tensors(weights, {"x": torch.randn(100)})
    for path, load in ((checkpoint, load_checkpoint), (weights, load_tensors)):
        contents = path.read_bytes()
        path.write_bytes(contents[: int(part * len(contents))])
        with pytest.raises(BadFile, match=r"truncated|no checkpoint"):
            load(path)


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("owned",)


def test_loading_never_runs_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"format": "coldness-checkpoint-1", "x": Malicious()}, "torch.ckpt")
    Path("plain.ckpt").write_bytes(pickle.dumps(Malicious()))
    for name in ("torch.ckpt", "plain.ckpt"):
        with pytest.raises(BadFile):
            load_checkpoint(Path(name))
    assert not Path("owned").exists()


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    torch.save({"model": torch.ones(1)}, tmp_path / "foreign.ckpt")
    with pytest.raises(BadFile, match="no checkpoint of coldness"):
        load_checkpoint(tmp_path / "foreign.ckpt")
    with pytest.raises(BadFile, match="no checkpoint at"):
        load_checkpoint(tmp_path / "missing.ckpt")
    with pytest.raises(BadFile, match="no weights at"):
        load_tensors(tmp_path / "missing.safetensors")
