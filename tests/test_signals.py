"""Signals: what they stop is saved, the exit code names them, and handlers are put back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import coldness
from coldness.cli import train as train_command
from coldness.cli.main import main
from coldness.runs.checkpoints import saved
from coldness.signals import HANDLED, Interrupted, Signalled, raising, waiting
from coldness.trainer import carry_out
from coldness.training.loop import Training
from coldness.training.recipe import Recipe
from small import QUICK, read

BRIEF = (
    "--iterations=20", "--checkpoint_every=10", "--energy.net.widths=[4]", "--batch_size=8",
    "--sources.0.steps=1", "--compile=never",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _as_in_a_terminal() -> Iterator[None]:
    """Default handlers, also where pytest was started to ignore signals."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    for number in HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return read("mixture2d", *BRIEF, "--evaluation.ais=null")


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def at_iteration(which: int, number: int) -> Callable[[Training], Any]:
    """`iterate` that sends a signal in one iteration; the first call is that of the trial."""
    iterate, calls = Training.iterate, iter(range(1000))

    def sending(self: Training) -> Any:
        if next(calls) == which + 1:
            send(number)
        return iterate(self)

    return sending


def test_all_five_are_handled() -> None:
    assert [128 + number for number in HANDLED] == [130, 143, 129, 138, 140]


@pytest.mark.parametrize("number", HANDLED)
@pytest.mark.parametrize("iteration", [0, 5])
def test_a_signal_saves_and_the_run_goes_on(
    iteration: int, number: int, tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 0.9 only SIGINT did. The first iteration, which may compile, is not waited for."""
    with monkeypatch.context() as patch:
        patch.setattr(Training, "iterate", at_iteration(iteration, number))
        with pytest.raises(Interrupted, match=r"stopped at iteration .* and saved") as caught:
            carry_out(recipe, out=tmp_path / "a")
    assert caught.value.exit_code == 128 + number
    assert saved(tmp_path / "a" / "checkpoints")[-1].name == (
        "iteration-0.ckpt" if not iteration else "iteration-6.ckpt"
    )
    assert caught.value.model is not None
    if number == signal.SIGTERM:
        carry_out(recipe, out=tmp_path / "a", resume=True)
        carry_out(recipe, out=tmp_path / "b")
        for name in ("model/weights.safetensors", "metrics.csv"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("phase", ["judge", "write_report"])
def test_during_the_evaluation_it_is_said_that_the_model_is_saved(
    phase: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def sending(*_: Any, **__: Any) -> None:
        send(signal.SIGTERM)

    words = ["train", "mixture2d", f"--out={tmp_path / 'run'}", *QUICK, "--iterations=10"]
    monkeypatch.setattr(train_command, phase, sending)
    if phase == "write_report":
        monkeypatch.setattr(train_command, "judge", lambda *_, **__: Judged)
    assert main(words) == 143
    said = capsys.readouterr().err.splitlines()[-1]
    assert "trained and saved: `coldness evaluate" in said
    assert coldness.load(tmp_path / "run").log_z is not None


class Judged:
    """Stands for a judgement."""

    metrics: dict[str, float] = {"d": 0.0}  # noqa: RUF012
    arrays: dict[str, Any] = {}  # noqa: RUF012


def test_nothing_is_said_to_be_saved_before_it_is(
    tmp_path: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sending(*_: Any) -> None:
        with raising():
            send(signal.SIGHUP)

    monkeypatch.setattr("coldness.runs.folder.RunFolder.save_config", sending)
    with pytest.raises(Interrupted, match="stopped before anything was saved") as caught:
        carry_out(recipe, out=tmp_path / "a")
    assert caught.value.exit_code == 129


def test_a_command_that_saves_nothing_names_the_signal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coldness.cli.recipes.main", lambda words: send(signal.SIGTERM))
    assert main(["recipes"]) == 143
    assert capsys.readouterr().err == "coldness: interrupted by SIGTERM\n"


def test_handlers_are_put_back_and_those_of_others_stay() -> None:
    heard: list[int] = []
    ours = lambda number, frame: heard.append(number)  # noqa: E731
    signal.signal(signal.SIGUSR1, ours)
    with raising(), waiting() as signals:
        send(signal.SIGUSR1)
    assert heard == [signal.SIGUSR1]
    assert signals.number is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_is_ignored_stays_ignored() -> None:
    """As under nohup, and in the background of a shell without job control."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with raising(), waiting() as signals:
        send(signal.SIGINT)
        send(signal.SIGHUP)
    assert signals.number is None


def test_a_signal_that_nobody_took_is_raised_at_the_end() -> None:
    with raising(), pytest.raises(Signalled) as caught, waiting():
        send(signal.SIGTERM)
    assert caught.value.number == signal.SIGTERM


def test_a_second_ctrl_c_ends_at_once() -> None:
    with raising(), waiting() as signals:
        send(signal.SIGINT)
        with pytest.raises(Signalled):
            send(signal.SIGINT)
        signals.taken = True
