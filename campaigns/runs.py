"""Small runs for campaigns, in processes forked from this one, which has imported all it needs.

The parent must not train itself: after a backward pass, PyTorch refuses to train in a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from coldness import files
from coldness.cli.main import main
from coldness.report.figures import Curve
from coldness.runs.folder import RunFolder
from coldness.signals import HANDLED
from coldness.trainer import carry_out
from coldness.training.recipe import Recipe

SMALL = (
    "--iterations=60",
    "--checkpoint_every=20",
    "--guard.snapshot_every=20",
    "--energy.net.widths=[8]",
    "--batch_size=16",
    "--sources.0.steps=2",
    "--evaluation.samples=50",
    "--evaluation.long_steps=5",
    "--evaluation.grid=20",
    "--evaluation.ais.chains=20",
    "--evaluation.ais.levels=4",
    "--compile=never",
)
"""Options of a run of mixture2d that takes about a second."""

BRIEF = {
    "iterations": 60,
    "checkpoint_every": 20,
    "guard.snapshot_every": 20,
    "energy.net.widths": [8],
    "batch_size": 16,
    "sources.0.steps": 2,
    "evaluation.ais": None,
    "compile": "never",
}
"""Fields of the same run without an estimate of log Z, which takes a third of that."""

BLANK = "data:image/png;base64,iVBORw0KGgo="
TRACEBACK = 99
"""Exit code of a child that ended with a traceback."""


@dataclass(frozen=True)
class Ended:
    """How a child ended.

    Args:
        code: its exit code, negative for the signal that killed it.
        said: what it printed.
        seconds: how long it took.
    """

    code: int
    said: str
    seconds: float


def train(out: Path, *more: str) -> list[str]:
    """The command line of the small run."""
    return ["train", "mixture2d", f"--out={out}", *SMALL, *more]


def prepare() -> None:
    """Imports what commands need, with one thread and without the figures of the report."""
    torch.set_num_threads(1)
    for name in ("train", "evaluate", "report", "sample", "compare"):
        importlib.import_module(f"coldness.cli.{name}")
    Curve.render = lambda *_: BLANK  # type: ignore[method-assign]


def quietly(words: list[str]) -> tuple[int, str]:
    """A command in this process: its exit code, TRACEBACK for an exception, and its output."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(words)
        except Exception:
            traceback.print_exc()
            code = TRACEBACK
    return code, said.getvalue()


def child(
    work: Callable[[], int],
    log: Path,
    *,
    reached: Callable[[str, Path], None] | None = None,
    after: float | None = None,
    number: int = signal.SIGKILL,
) -> Ended:
    """Work in a child.

    Args:
        work: returns the exit code.
        log: file for what it prints.
        reached: takes the place of the writer's hook in the child.
        after: seconds after which the child gets a signal; None for never.
        number: of that signal.
    """
    begin = time.perf_counter()
    process = os.fork()
    if not process:
        _in_child(work, log, reached)
    if after is not None:
        time.sleep(after)
        os.kill(process, number)
    _, status = os.waitpid(process, 0)
    seconds = time.perf_counter() - begin
    said = log.read_text() if log.is_file() else ""
    return Ended(os.waitstatus_to_exitcode(status), said, seconds)


def _in_child(
    work: Callable[[], int], log: Path, reached: Callable[[str, Path], None] | None
) -> None:
    code = TRACEBACK
    try:
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if reached is not None:
            files.reached = reached  # type: ignore[assignment]
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def trained(recipe: Recipe, out: Path) -> int:
    """Trains into a folder, from where it is, and writes files as an evaluation does."""
    folder = RunFolder(out)
    carry_out(recipe, out=out, resume=folder.holds_run())
    with folder.locked():
        folder.save_evaluation({"d": 0.5}, {"x_data": torch.zeros(3, 2)})
    return 0


def outcome(run: Path) -> dict[str, bytes]:
    """What must be the same of a run and an uninterrupted one."""
    names = ("model/weights.safetensors", "metrics.csv", "events.jsonl")
    found = {name: (run / name).read_bytes() for name in names if (run / name).is_file()}
    return found | {f"left over: {path.name}": b"" for path in run.rglob("*.partial")}


def difference(found: dict[str, bytes], expected: dict[str, bytes]) -> str:
    """Names of what differs; empty for nothing."""
    names = sorted({*found, *expected})
    return ", ".join(name for name in names if found.get(name) != expected.get(name))
