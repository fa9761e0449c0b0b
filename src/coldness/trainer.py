"""Training with one function: from a recipe to a model, optionally in a folder.

    model = train("mixture2d", seed=0)
    model = train("points", data=array, out="runs/mine")

`carry_out` also does the work for commands, studies and estimators, which add their own display and
files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coldness.batching import at_most
from coldness.configuration import construct
from coldness.data import Augmentation, as_data, fingerprint
from coldness.doctor.combinations import combinations
from coldness.documents import read_yaml
from coldness.guard.policy import Diverged
from coldness.machine import threads
from coldness.model import Model
from coldness.progress import OnBlock, Stage, silent_bar, silent_stages, stages, training_bar
from coldness.runs.checkpoints import drop_later, iteration_of, saved
from coldness.runs.folder import FolderError, RunFolder
from coldness.signals import Interrupted, number_of
from coldness.signatures import find_class
from coldness.training.build import build
from coldness.training.fit import History, fit
from coldness.training.health import metrics_of, training_metrics
from coldness.training.loop import Training
from coldness.training.recipe import Recipe, RecipeError
from coldness.training.result import model_of, normalise
from coldness.training.settings import Settings

MAY_CHANGE_ON_RESUME = {
    "iterations", "checkpoint_every", "keep", "tensorboard", "evaluation", "guard", "live", "stop",
}  # fmt: skip


def train(
    recipe: str | Path | Recipe,
    *,
    data: Any = None,
    seed: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    resume_from: int | str | Path | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    allow_imports: bool = False,
    insist: bool = False,
) -> Model:
    """Trains a model and returns it, with averaged weights and its log Z.

    Args:
        recipe: a packaged name (see `coldness recipes`), a YAML file, or a Recipe.
        data: `Data`, or an array or tensor of points (N, D) or of images; None for the recipe's.
        seed: of everything random; None for the recipe's.
        overrides: fields of the recipe by their paths: {"contrast.beta": 0.9}.
        out: folder for configuration, logs, checkpoints and model; None to write nothing.
        resume: continue the run in `out`, as if it had not been interrupted, from its newest
            checkpoint that is whole.
        resume_from: continue it from another checkpoint, by its iteration or its path; later ones
            are removed.
        overwrite: replace the run in `out`.
        progress: show a progress bar; None to show it in a terminal only.
        allow_imports: let the recipe name classes from outside coldness.
        insist: train even where not one negative would count (docs/doctor.md).
    Raises:
        Diverged: the guard stopped the run; `model` of the error is the last good one.
        Interrupted: Ctrl-C or another signal (coldness/signals.py); `model` of the error is that of
            the last iteration, and a run with a folder is saved.
        FullDisk: there is no room for a file of the run; nothing that was saved is lost.
        RecipeError: the settings are wrong or cannot run; nothing was written.
        FolderError: the folder must not be written to.
    """
    changes = {**(overrides or {}), **({} if seed is None else {"seed": seed})}
    read = Recipe.read(recipe, changes, allow_imports=allow_imports)
    shown = sys.stderr.isatty() if progress is None else progress
    outcome = carry_out(
        read,
        data=data,
        out=None if out is None else Path(out),
        resume=resume,
        resume_from=resume_from,
        overwrite=overwrite,
        insist=insist,
        bar=training_bar if shown else silent_bar,
        stage=stages if shown else silent_stages,
    )
    if outcome.diverged is not None:
        raise outcome.diverged
    return outcome.model


@dataclass(frozen=True)
class Outcome:
    """The result of a training.

    Args:
        model: the trained model, or the last good one of a run that diverged.
        settings: the live parts of the run; sources hold their banks.
        seconds: duration of training.
        iterations: number of iterations that were made.
        diverged: why the guard stopped the run; None if it did not.
        history: metrics and events of a run without a folder that did not diverge.
    """

    model: Model
    settings: Settings
    seconds: float
    iterations: int
    diverged: Diverged | None = None
    history: History | None = None


def carry_out(
    recipe: Recipe,
    *,
    data: Any = None,
    out: Path | None = None,
    resume: bool = False,
    resume_from: int | str | Path | None = None,
    overwrite: bool = False,
    insist: bool = True,
    command: str = "",
    on_ready: Callable[[Settings], None] = lambda settings: None,
    bar: Callable[[int, int], AbstractContextManager[OnBlock]] = silent_bar,
    stage: Callable[[str], AbstractContextManager[Stage]] = silent_stages,
) -> Outcome:
    """Trains a recipe, in a folder if one is given.

    Args:
        recipe: the configuration.
        data: as in `train`.
        out: folder of the run.
        resume: continue the run there.
        resume_from: checkpoint to continue it from; None for the newest that is whole.
        overwrite: replace it.
        insist: train even where not one negative would count.
        command: command line that makes the same run, for its config.yaml.
        on_ready: called with the settings once they are known to run, before anything is written.
        bar: shows the iterations.
        stage: shows the stages after them.
    Raises:
        the errors of `train`, except Diverged, which is part of the outcome.
    """
    resume = resume or resume_from is not None
    if resume and overwrite:
        raise FolderError("resume and overwrite cannot be combined")
    folder = None if out is None else RunFolder(out)
    if folder is not None:
        folder.check_for(resume, overwrite)
    live = {} if data is None else {"data": as_data(data, data_options(recipe), _named(recipe))}
    mark = fingerprint(live["data"]) if live else ""
    settings = recipe.parts(**live)
    notes = settings.data.notes
    if settings.adapt is not None:
        decisions = settings.adapt.decide(settings.data)
        notes += (*decisions.said, *recipe.overruled(decisions))
        recipe = recipe.decided(decisions)
        settings = recipe.parts(data=settings.data)
    if folder is not None and resume:
        check_same(folder, recipe, mark)
    with threads(settings.threads):
        training = _ready(settings)
        on_ready(settings)
        for finding in () if insist else combinations(settings):
            if finding.cause == "hopeless":
                raise RecipeError(f"{finding.line}; to train all the same: insist (--insist)")
        # Nothing has been written so far.
        if folder is None:
            return _fit(training, None, bar, stage, notes)
        with folder.locked():
            try:
                folder.open(overwrite)
                state = folder.saved_state(resume_from) if resume else None
                kept = folder.command() if resume else command
                folder.save_config(recipe.text, recipe.name, kept, mark)
                if state is not None:
                    training.resume(state)
                    drop_later(folder.checkpoints, state)
                return _fit(training, folder, bar, stage, notes if state is None else ())
            except KeyboardInterrupt as error:
                raise Interrupted(what_is_saved(folder), number_of(error)) from None


def what_is_saved(folder: RunFolder) -> str:
    """Of a run that was stopped between two of its steps."""
    there = saved(folder.checkpoints)
    if not there:
        return "stopped before anything was saved"
    return f"stopped; saved at iteration {iteration_of(there[-1])}, --resume continues it"


def _ready(settings: Settings) -> Training:
    """The live run, after one iteration of it has been tried and undone."""
    try:
        training = build(settings)
        training.check()
    except Exception as error:  # whatever a part raises, the settings are at fault
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RecipeError(f"these settings do not run: {line}") from error
    return training


def _fit(
    training: Training,
    folder: RunFolder | None,
    bar: Callable[[int, int], AbstractContextManager[OnBlock]],
    stage: Callable[[str], AbstractContextManager[Stage]],
    notes: Sequence[str],
) -> Outcome:
    s, path = training.settings, None if folder is None else folder.path
    diverged, history = None, None
    try:
        with bar(s.iterations, training.iteration) as on_block:
            history = fit(training, path, on_block, notes)
    except Diverged as error:  # `training` holds the last good model
        diverged = error
    except Interrupted as error:
        error.model = model_of(training)
        raise
    model = model_of(training)
    model.training = _metrics(folder, history, training)
    if folder is not None:
        folder.save_model(model)
    try:
        with stage("log Z") as on_stage, at_most(s.at_once):
            normalise(model, s.data, s.evaluation, on_stage)
    except KeyboardInterrupt as error:
        saved_too = "" if folder is None else " and saved; --resume continues"
        text = f"stopped while log Z was estimated; the model is trained{saved_too}"
        interrupted = Interrupted(text, number_of(error))
        interrupted.model = model
        raise interrupted from None
    if folder is not None:
        folder.save_model(model)
    if diverged is not None:
        diverged.model = model
    return Outcome(model, s, training.seconds, training.iteration, diverged, history)


def _metrics(
    folder: RunFolder | None, history: History | None, training: Training
) -> dict[str, float]:
    """Metrics of the training."""
    found: dict[str, float] = {}
    if folder is not None:
        found = training_metrics(folder.path)
    elif history is not None:
        columns = {name: np.array(values) for name, values in history.columns.items()}
        found = metrics_of(columns, history.events)
    more = {"seconds": round(training.seconds, 3), "iterations": float(training.iteration)}
    if training.live.stopping.weights is not None:
        more["kept_iteration"] = float(training.live.stopping.iteration)
    return {**{name: float(value) for name, value in found.items()}, **more}


def data_options(recipe: Recipe) -> dict[str, Any]:
    """Arguments of the recipe's own data that also apply to an array."""
    node = recipe["data"]
    given = dict(node.get("init_args") or {}) if isinstance(node, dict) else {}
    if given.get("augmentation") is not None:
        given["augmentation"] = construct(
            Augmentation,  # type: ignore[type-abstract]
            given["augmentation"],
            allow_imports=recipe.allow_imports,
        )
    return {k: v for k, v in given.items() if k not in ("path", "test_path", "levels")}


def _named(recipe: Recipe) -> type | None:
    """The class of the recipe's own data."""
    node = recipe["data"]
    name = node.get("class_path") if isinstance(node, dict) else node
    return find_class(name, recipe.allow_imports) if isinstance(name, str) else None


def check_same(folder: RunFolder, recipe: Recipe, mark: str) -> None:
    """Raises FolderError unless a run is resumed with its own settings and data."""
    if folder.given_data() != mark:
        was = folder.given_data() or "the data of its recipe"
        raise FolderError(
            f"{folder.path} was trained on other data ({was}): resume it with the same data"
        )
    saved = _without_nulls(read_yaml(folder.config.read_text()))
    now = _without_nulls(recipe.values)
    keys = [key for key in {**saved, **now} if key not in MAY_CHANGE_ON_RESUME]
    changed = [key for key in keys if now.get(key) != saved.get(key)]
    if changed:
        raise FolderError(
            f"{folder.path} was trained with other settings ({', '.join(changed)}): "
            "resume without overrides, or choose another --out"
        )


def _without_nulls(part: Any) -> Any:
    """The settings without those that are None, which files of earlier versions may lack."""
    if isinstance(part, dict):
        return {k: _without_nulls(v) for k, v in part.items() if v is not None}
    return [_without_nulls(v) for v in part] if isinstance(part, list) else part
