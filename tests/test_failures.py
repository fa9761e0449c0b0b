"""The library of failures: every packaged way to fail is seen by the guard, for its own reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from coldness.guard import Diverged
from coldness.runs.events import read_events
from coldness.training import build, fit
from coldness.training.recipe import packaged
from small import read

NAN = "--terms=[{class_path: NaNGradient, init_args: {at: 33}}]"

SOON = {
    # name: iterations to run, causes that may come first, changes that bring an accident forward
    "adam-amplification": (240, {"gap", "starvation"}, ["--sources.0.start.at=200"]),
    "degenerate-dimension": (300, {"gap"}, []),
    "energy-drift": (100, {"gap"}, []),
    "large-step": (80, {"gap"}, []),
    # The recipe's rate fails between iterations 600 and 800, which depends on the processor.
    "learning-rate": (300, {"gap", "gradient", "not_finite"}, ["--optimiser.lr=0.1"]),
    "nan-gradient": (40, {"not_finite"}, [NAN]),
    "poisoned-bank": (220, {"gap"}, ["--sources.0.start.at=200"]),
    "shifted-start": (200, {"gap"}, []),
    "starved": (40, {"starvation"}, []),
}  # fmt: skip


def test_all_failures_are_here() -> None:
    assert {f"failures/{name}" for name in SOON} == {n for n in packaged() if "failures/" in n}


@pytest.mark.parametrize("name", SOON)
def test_a_failure_is_seen(name: str, tmp_path: Path) -> None:
    """Schedules are those of the whole run; it is only cut short."""
    iterations, causes, changes = SOON[name]
    words = ["--guard.policy=warn", "--compile=never", *changes]
    training = build(read(f"failures/{name}", *words).parts())

    class Enough(Exception):
        pass

    def stop(iteration: int, row: dict[str, float]) -> None:
        if iteration >= iterations:
            raise Enough

    with pytest.raises((Enough, Diverged)):
        fit(training, tmp_path, on_block=stop)
    first = read_events(tmp_path / "events.jsonl")[0]
    assert first.cause in causes
    assert first.iteration < iterations
