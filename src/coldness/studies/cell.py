"""One run of a study: trained and judged in a folder of its own, and its row of the table.

What a run came to is in its row.json; a run without one is not finished, and goes on at its last
checkpoint. The command in its config.yaml says what the run is, so a row is never taken for that
of other settings.
"""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from coldness.evaluation import evaluate
from coldness.evaluation.ood import read_sets
from coldness.guard.policy import Diverged
from coldness.runs.events import read_events
from coldness.runs.files import load_checkpoint, write_atomically
from coldness.runs.folder import FolderError, RunFolder
from coldness.runs.reader import read_row
from coldness.schedules import Schedule
from coldness.studies.claims import Record
from coldness.studies.study import FIGURES, Cell
from coldness.training import Training, fit
from coldness.training.recipe import Resolved, find, resolve
from coldness.training.settings import Settings
from coldness.trust.training_answer import training_metrics

QUICK = 10
"""What iterations are divided by for a quick look."""


def quick(cell: Cell) -> Cell:
    """The same with a tenth of the iterations."""
    iterations = read_cell(cell).settings.iterations
    return cell.with_options(iterations=max(1, iterations // QUICK))


def read_cell(cell: Cell) -> Resolved:
    """The settings of a run."""
    return resolve(find(cell.recipe), cell.overrides)[0]


def command(cell: Cell) -> str:
    """That trains the same."""
    return shlex.join(["coldness", "train", cell.recipe, *cell.overrides])


def finished_row(cell: Cell, folder: Path) -> Record | None:
    """Of a finished run; None where it is not finished.

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
    on_progress: Callable[[float, str], None] = lambda share, figures: None,
) -> Record:
    """Trains and judges one run in folder/NAME, from its last checkpoint on; gives its row.

    Args:
        cell: the run.
        folder: of the study's runs.
        on_progress: called with the share of the run that is done, and figures to show.
    """
    run = RunFolder(folder / cell.name)
    done = finished_row(cell, folder)
    if done is not None:
        return done
    resolved = read_cell(cell)
    with run.locked():
        run.save_config(resolved.text, cell.recipe, command(cell))
        row = _train(cell, run, resolved.settings, on_progress)
        text = json.dumps(row, allow_nan=False)
        write_atomically(run.path / "row.json", lambda file: file.write(text.encode()))
    return row


def _train(
    cell: Cell, run: RunFolder, settings: Settings, on_progress: Callable[[float, str], None]
) -> Record:
    row: Record = {"block": cell.block, "recipe": cell.recipe, **_settings_of(settings)}
    row |= {**cell.levels, "seed": cell.seed, **dict.fromkeys(FIGURES)}
    row |= {"seconds": 0.0, "seconds_per_iteration": None, "diverged_at": None, "run": cell.name}
    row |= {"detected_at": None, "rollbacks": 0, "actions": ""}
    read_sets(settings.evaluation.ood, settings.data)  # refused now, and not after training
    training = Training(settings)
    if run.checkpoint.exists():
        training.load_state_dict(load_checkpoint(run.checkpoint))
    begin = time.perf_counter() - training.seconds
    n = settings.iterations
    try:
        fit(training, run.path, on_block=lambda t, f: on_progress(t / n, f"d {f['d']:+.3g}"))
    except Diverged as diverged:
        row["diverged_at"] = diverged.iteration
    row |= _guard_of(run)
    if row["diverged_at"] is None or settings.guard.policy != "warn":
        row["seconds_per_iteration"] = round(training.seconds / n, 6)
        run.save_model(training.weights())
        settings.load_model_state(training.weights())
        banks = [source.state_dict() for source in settings.sources]
        figures, arrays = evaluate(settings, lambda stage: on_progress(1.0, stage), banks=banks)
        figures |= training_metrics(run.path)
        bad = [name for name, value in figures.items() if not math.isfinite(value)]
        row |= {name: figures.get(name) for name in FIGURES if name not in bad}
        if "kl" in bad:
            row["diverged_at"] = n
        if row["kl"] is not None:
            row["kl_per_dimension"] = row["kl"] / row["dimension"]
        if bad:
            row["not_finite"] = ", ".join(bad)
        else:
            run.save_evaluation({**figures, "iterations": n}, arrays)
    else:
        reached = training_metrics(run.path)
        row |= {name: value for name, value in reached.items() if name.endswith("_best")}
    row["seconds"] = round(time.perf_counter() - begin, 3)
    return row


def _guard_of(run: RunFolder) -> Record:
    """The guard's first alarm, and what it did."""
    events = read_events(run.events)
    seen = [e["iteration"] for e in events if e["event"] in ("warning", "alarm", "stopped")]
    actions = [e["action"] for e in events if e["event"] == "rollback"]
    return {
        "detected_at": seen[0] if seen else None,
        "rollbacks": len(actions),
        "actions": "; ".join(actions),
    }


def _settings_of(settings: Settings) -> Record:
    """What tables are read by."""
    beta, source = settings.contrast.beta, settings.sources[0]
    return {
        "data": type(settings.data).__name__.lower(),
        "dimension": math.prod(settings.data.shape),
        "beta": type(beta).__name__ if isinstance(beta, Schedule) else beta,
        "variant": settings.contrast.variant,
        "steps": source.steps,
        "negatives": sum(s.chains_for(settings.batch_size) for s in settings.sources),
        "iterations": settings.iterations,
    }
