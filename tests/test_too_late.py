"""What could only fail after training is refused before it, in one line, and nothing is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from coldness import machine
from coldness.batching import activation_bytes
from coldness.cli.main import main
from coldness.data import Labelled
from coldness.evaluation.class_samples import fit_class_judge
from coldness.likelihood.ais import AIS
from coldness.machine import check_memory, check_threads, memory, most_threads
from coldness.training import build
from small import measured, settings

BILLION = 10**9
TOO_MUCH = {
    "evaluation.samples": f"--evaluation.samples={BILLION}",
    "evaluation.grid": "--evaluation.grid=1000000",
    "evaluation.long_steps": f"--evaluation.long_steps={BILLION}",
    "chains of AIS": f"--evaluation.ais.chains={BILLION}",
    "levels": f"--evaluation.ais.levels={BILLION}",
    "settling": f"--evaluation.ais.settling={BILLION}",
    "evaluation.widening": "--evaluation.widening=1e20",
    "evaluation.grid must be >= widening": "--evaluation={grid: 2, widening: 3}",
    "evaluation.class_samples": f"--evaluation.class_samples={BILLION}",
    "evaluation.refine_steps": f"--evaluation.refine_steps={BILLION}",
    "wide_std": "--evaluation.ais.wide_std=1e300",
    "gradients per step": f"--evaluation.ais.kernel.leapfrog_steps={BILLION}",
    "evaluation.seed must": "--evaluation.seed=-5",
    "seed must": "--seed=-1",
    "seed must be >= 0": f"--seed={2**64}",
    "chains of walkers": f"--live={{chains: {BILLION}}}",
    "levels of walkers": f"--live={{levels: {BILLION}}}",
    "threads": "--threads=100000",
    "batch_size": f"--batch_size={BILLION}",
    "sources.0.start": f"--sources.0.start={{class_path: Bank, init_args: {{capacity: {10**12}}}}}",
}


@pytest.mark.parametrize(("name", "word"), TOO_MUCH.items(), ids=TOO_MUCH.keys())
def test_too_much_is_refused_before_training(
    name: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "mixture2d", "--out", str(tmp_path / "run"), word]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert name in said
    assert not list(tmp_path.iterdir())


def test_memory_is_compared_with_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", lambda: 2e9)
    check_memory({"a": 1e9, "b": 0.9e9})
    with pytest.raises(ValueError, match=r"at least 2\.1 GB .* 1\.2 GB of it for b, .* has 2 GB"):
        check_memory({"a": 0.9e9, "b": 1.2e9})


def test_a_network_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    s = settings("mixture2d")
    monkeypatch.setattr(machine, "memory", lambda: 100.0)
    with pytest.raises(ValueError, match=r"this machine has 1e-07 GB"):
        build(s)
    assert s.memory["energy"] == 2 * 4 * sum(p.numel() for p in s.energy.parameters()) > 0


def test_activations_count_for_examples_that_are_in_memory_at_once() -> None:
    """Of a layer of 7 and one of 5 units: input, and what each layer hands on."""
    net = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 1))
    assert activation_bytes(net, (3,)) == 4 * (3 + 7 + 5)


def test_the_memory_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory()
    assert whole > 1e8
    for text, expected in (("123456789\n", 123456789.0), ("max\n", whole)):
        (tmp_path / "memory.max").write_text(text)
        monkeypatch.setattr(machine, "GROUP_LIMIT", tmp_path / "memory.max")
        assert memory() == expected


def test_threads_are_bounded() -> None:
    check_threads(None)
    check_threads(most_threads())
    for count in (0, most_threads() + 1):
        with pytest.raises(ValueError, match="threads must be"):
            check_threads(count)


def test_generous_settings_pass() -> None:
    AIS(chains=100_000, levels=20_000)
    s = settings("mixture2d", "--evaluation.samples=200000", "--evaluation.grid=2000")
    assert sum(s.memory.values()) < 1e8


def test_the_widest_grid_and_gaussian_can_be_evaluated() -> None:
    """What is not refused does not fail after training either."""
    widest = ("--evaluation.widening=20", "--evaluation.ais.wide_std=1e6")
    for grid in (20, 40):
        metrics, _ = measured(settings("mixture2d", *widest, f"--evaluation.grid={grid}"))
        assert {"kl", "log_z"} <= set(metrics)


def test_a_judge_that_would_see_one_class_is_left_out() -> None:
    x = torch.rand(40, 1, 4, 4)
    data = SimpleNamespace(
        domain=SimpleNamespace(is_images=True, classes=("a", "b")),
        shape=(1, 4, 4), train=x, test=x,
        train_labels=torch.zeros(40, dtype=torch.int64),
        test_labels=torch.zeros(40, dtype=torch.int64),
    )  # fmt: skip
    few: Labelled = data  # type: ignore[assignment]
    assert fit_class_judge(few, torch.Generator()) is None
    data.train_labels[20:] = 1
    assert fit_class_judge(few, torch.Generator()) is not None
