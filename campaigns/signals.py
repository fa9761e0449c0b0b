"""Signals in every phase of a run: the exit code tells the signal, and the run goes on from there.

SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 in each of

    compile      the first iteration, in which chains are compiled; nothing waits for it
    train        a later iteration
    checkpoint   the writing of a checkpoint
    evaluate     the evaluation, after the model is saved
    report       the writing of the report

What is said to be saved is there, and --resume ends with the weights of an uninterrupted run.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import coldness.cli.train as of_train
from campaigns.runs import child, difference, outcome, prepare, train
from campaigns.tally import Tally
from coldness import files
from coldness.cli.main import main
from coldness.runs.checkpoints import saved
from coldness.signals import HANDLED, name_of
from coldness.training.loop import Training

COUNT, QUICK = 25, 3

PHASES = ("compile", "train", "checkpoint", "evaluate", "report")
TRAINED = ("evaluate", "report")
"""Phases in which the model is trained and saved already."""


def run(count: int, seed: int, folder: Path) -> Tally:
    """Sends `count` signals: all five in all phases, in an order that is drawn."""
    prepare()
    tally, log = Tally("signals"), folder / "log.txt"
    whole = child(lambda: main(train(folder / "whole")), log)
    if whole.code:
        raise RuntimeError(f"the run without signals failed: {whole.said}")
    expected = outcome(folder / "whole")
    rng = random.Random(seed)
    orders = [[(phase, n) for n in rng.sample(HANDLED, len(HANDLED))] for phase in PHASES]
    cases = [case for turn in zip(*orders, strict=True) for case in turn]
    for k in range(count):
        phase, number = cases[k % len(cases)]
        out = folder / "run"
        stopped = child(partial(_stopped, phase, number, out), log)
        finding = _said_wrong(phase, number, stopped.code, stopped.said, out)
        again = child(partial(main, [*train(out), "--resume"]), log)
        if not finding and again.code:
            finding = f"not resumed, exit code {again.code}: {again.said[-300:]}"
        finding = finding or difference(outcome(out), expected)
        name = f"{name_of(number)} in phase {phase}"
        tally.count(f"{name}: {finding}" if finding else "", stopped.seconds + again.seconds)
        shutil.rmtree(out, ignore_errors=True)
    return tally


def _said_wrong(phase: str, number: int, code: int, said: str, out: Path) -> str:
    """What the end of a stopped run says wrongly; empty for nothing."""
    if code != 128 + number:
        return f"exit code {code}: {said[-300:]}"
    if "Traceback" in said or "saved" not in said:
        return f"said {said[-300:]}"
    if not saved(out / "checkpoints"):
        return "no checkpoint"
    if phase in TRAINED and not (out / "model" / "model.yaml").is_file():
        return "no model"
    return ""


def _stopped(phase: str, number: int, out: Path) -> int:
    with _sends(phase, number):
        return main(train(out))


@contextmanager
def _sends(phase: str, number: int) -> Iterator[None]:
    """This process gets a signal in the phase."""

    def before(call: Callable[..., Any], due: Callable[..., bool]) -> Callable[..., Any]:
        def sending(*words: Any, **more: Any) -> Any:
            if due(*words):
                os.kill(os.getpid(), number)
            return call(*words, **more)

        return sending

    calls = iter(range(1_000_000))
    # The first call is that of the trial, before anything is written.
    iteration = {"compile": 1, "train": 10}
    place: tuple[Any, str, Callable[..., bool]] = {
        "compile": (Training, "iterate", lambda *_: next(calls) == iteration[phase]),
        "train": (Training, "iterate", lambda *_: next(calls) == iteration[phase]),
        "checkpoint": (
            files,
            "reached",
            lambda point, path: point == "sync" and path.name == "iteration-20.ckpt",
        ),
        "evaluate": (of_train, "judge", lambda *_: True),
        "report": (of_train, "write_report", lambda *_: True),
    }[phase]
    owner, name, due = place
    with mock.patch.object(owner, name, before(getattr(owner, name), due)):
        yield
