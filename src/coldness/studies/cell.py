"""One run of a study: trained and judged in a folder of its own, and its row of the table.

The result of a run is in its row.json. A run without this file is not finished, and is resumed from
its last checkpoint. The command in its config.yaml identifies the run, so a row is never mistaken
for that of other settings.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coldness.checksums import save_json
from coldness.evaluation.bank_checks import banks_of
from coldness.evaluation.ood import read_sets
from coldness.machine import threads
from coldness.metrics import STUDIED
from coldness.progress import OnBlock, Stage
from coldness.runs.events import read_lines
from coldness.runs.folder import FolderError, RunFolder
from coldness.runs.reader import read_row
from coldness.schedules import name_or_value
from coldness.studies.claims import Record
from coldness.studies.loose import COLUMN, kl_bracket
from coldness.studies.study import Cell
from coldness.trainer import Outcome, carry_out
from coldness.training.recipe import Recipe
from coldness.training.settings import Settings
from coldness.trust.judgement import judge

Progress = Callable[[float, str], None]

QUICK = 10
"""Factor by which a quick study has fewer iterations."""


def quick(cell: Cell) -> Cell:
    """The same run with a tenth of the iterations."""
    return cell.with_options(iterations=max(1, read_cell(cell).iterations // QUICK))


def read_cell(cell: Cell) -> Recipe:
    """The recipe of a run."""
    return Recipe.read(cell.recipe, cell.overrides)


def command(cell: Cell) -> str:
    """The command that trains the same run."""
    return shlex.join(["coldness", "train", cell.recipe, *cell.words])


def finished_row(cell: Cell, folder: Path) -> Record | None:
    """The row of a finished run; None if it is not finished.

    Raises:
        FolderError: the folder holds a run with other settings, or something else.
    """
    run = RunFolder(folder / cell.name)
    if not run.holds_run():
        run.check_for(resume=False, overwrite=False)
        return None
    if run.command() != command(cell):
        raise FolderError(f"{run.path} holds a run with other settings; choose another --out")
    return read_row(run.path)


def run_cell(
    cell: Cell,
    folder: Path,
    on_progress: Progress = lambda share, metrics: None,
) -> Record:
    """Trains and judges one run in folder/NAME, from its last checkpoint on; returns its row.

    Args:
        cell: the run.
        folder: of the study's runs.
        on_progress: called with the fraction of the run that is done, and metrics to show.
    """
    run = RunFolder(folder / cell.name)
    done = finished_row(cell, folder)
    if done is not None:
        return done
    begin = time.perf_counter()

    def on_ready(settings: Settings) -> None:
        read_sets(settings.evaluation.ood, settings.data)  # refused now, and not after training

    @contextmanager
    def bar(iterations: int, start: int) -> Iterator[OnBlock]:
        yield lambda t, row: on_progress(t / iterations, f"d {row['d']:+.3g}")

    @contextmanager
    def stage(name: str) -> Iterator[Stage]:
        yield lambda text: on_progress(1.0, text)

    outcome = carry_out(
        read_cell(cell),
        out=run.path,
        resume=run.holds_run(),
        command=command(cell),
        on_ready=on_ready,
        bar=bar,
        stage=stage,
    )
    with run.locked():
        row = _row(cell, run, outcome, on_progress)
        row["seconds"] = round(time.perf_counter() - begin, 3)
        save_json(run.path / "row.json", row)
    return row


def _row(cell: Cell, run: RunFolder, outcome: Outcome, on_progress: Progress) -> Record:
    """The row of the run."""
    s, diverged = outcome.settings, outcome.diverged
    row: Record = {"block": cell.block, "recipe": cell.recipe, **_settings_of(s)}
    row |= {**cell.levels, "seed": cell.seed, **dict.fromkeys(STUDIED)}
    row |= {"seconds": 0.0, "seconds_per_iteration": None, "run": cell.name}
    row |= {"diverged_at": None if diverged is None else diverged.iteration, **_guard_of(run)}
    if diverged is not None and s.guard.policy == "warn":
        reached = outcome.model.training
        return row | {name: value for name, value in reached.items() if name.endswith("_best")}
    row["seconds_per_iteration"] = round(outcome.seconds / s.iterations, 6)
    banks = banks_of(s.sources, [source.state_dict() for source in s.sources])
    with threads(s.threads):
        judgement = judge(
            outcome.model, s.data, seed=s.evaluation.seed, evaluation=s.evaluation, banks=banks,
            on_stage=lambda stage: on_progress(1.0, stage),
        )  # fmt: skip
    metrics = judgement.metrics
    bad = [name for name, value in metrics.items() if not math.isfinite(value)]
    row |= {name: metrics.get(name) for name in STUDIED if name not in bad}
    row[COLUMN] = kl_bracket(metrics)
    if "kl" in bad:
        row["diverged_at"] = s.iterations
    if row["kl"] is not None:
        row["kl_per_dimension"] = row["kl"] / row["dimension"]
    if bad:
        row["not_finite"] = ", ".join(bad)
    else:
        run.save_evaluation(metrics, judgement.arrays)
    return row


def _guard_of(run: RunFolder) -> Record:
    """The guard's first alarm, and its actions."""
    events = read_lines(run.events)
    seen = [e["iteration"] for e in events if e["event"] in ("warning", "alarm", "stopped")]
    actions = [e["action"] for e in events if e["event"] == "rollback"]
    return {
        "detected_at": seen[0] if seen else None,
        "rollbacks": len(actions),
        "actions": "; ".join(actions),
    }


def _settings_of(settings: Settings) -> Record:
    """Settings that are columns of the table."""
    beta, source = settings.contrast.beta, settings.sources[0]
    return {
        "data": type(settings.data).__name__.lower(),
        "dimension": settings.data.domain.dimensions,
        "beta": name_or_value(beta),
        "variant": settings.contrast.variant,
        "steps": source.steps,
        "negatives": sum(s.chains_for(settings.batch_size) for s in settings.sources),
        "iterations": settings.iterations,
    }
