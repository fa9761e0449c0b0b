"""Pretraining with one function: from a recipe to an encoder, optionally in a folder.

    encoder = pretrain("pretrain/digits-mae", seed=0)
    encoder = pretrain("pretrain/digits-mae", out="runs/mae")      # for MAE and Frozen by its path

One iteration draws images, computes the loss of the method without negatives of a model, and
updates the encoder. A loss that is NaN or infinite ends the run before the update.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coldness.data import as_data, fingerprint
from coldness.guard.policy import Diverged
from coldness.machine import threads
from coldness.nets import Encoder
from coldness.precision import autocast
from coldness.pretraining.settings import Pretraining, PretrainingRecipe
from coldness.progress import OnBlock, silent_bar, training_bar
from coldness.runs.checkpoints import Checkpoints, drop_later
from coldness.runs.folder import FolderError, RunFolder
from coldness.runs.log import MetricsLog
from coldness.seeds import generators
from coldness.signals import Interrupted, number_of, waiting
from coldness.tensor_files import MISFITS, check_form, misfit
from coldness.trainer import check_same, data_options, what_is_saved
from coldness.training.fit import ITERATIONS_PER_BLOCK
from coldness.training.recipe import Recipe, RecipeError

Bar = Callable[[int, int], AbstractContextManager[OnBlock]]


def pretrain(
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
) -> Encoder:
    """Pretrains an encoder and returns it, in eval mode.

    Args:
        recipe: a packaged name (see `coldness recipes`), a YAML file, or a Recipe.
        data: `Data`, or an array or tensor of images; None for the recipe's.
        seed: of everything random; None for the recipe's.
        overrides: fields of the recipe by their paths: {"method.mask": 0.5}.
        out: folder for configuration, logs, checkpoints and encoder; None to write nothing.
        resume: continue the run in `out`, as if it had not been interrupted, from its newest
            checkpoint that is whole.
        resume_from: continue it from another checkpoint, by its iteration or its path; later ones
            are removed.
        overwrite: replace the run in `out`.
        progress: show a progress bar; None to show it in a terminal only.
        allow_imports: let the recipe name classes from outside coldness.
    Raises:
        Diverged: the loss became NaN or infinite.
        Interrupted: Ctrl-C; `model` of the error is the encoder so far, and a run with a folder is
            saved.
        RecipeError: the settings are wrong or cannot run; nothing was written.
        FolderError: the folder must not be written to.
    """
    changes = {**(overrides or {}), **({} if seed is None else {"seed": seed})}
    read = PretrainingRecipe.read(recipe, changes, allow_imports=allow_imports)
    shown = sys.stderr.isatty() if progress is None else progress
    bar: Bar = training_bar if shown else silent_bar
    folder = None if out is None else Path(out)
    return carry_out(
        read, data=data, out=folder, resume=resume, resume_from=resume_from, overwrite=overwrite,
        bar=bar,
    ).encoder  # fmt: skip


@dataclass(frozen=True)
class Pretrained:
    """The result of a pretraining.

    Args:
        encoder: averaged where the method averages it, in eval mode.
        settings: the live parts of the run.
        seconds: duration of training.
    """

    encoder: Encoder
    settings: Pretraining
    seconds: float


def carry_out(
    recipe: PretrainingRecipe,
    *,
    data: Any = None,
    out: Path | None = None,
    resume: bool = False,
    resume_from: int | str | Path | None = None,
    overwrite: bool = False,
    command: str = "",
    bar: Bar = silent_bar,
) -> Pretrained:
    """Pretrains a recipe, in a folder if one is given.

    Args:
        recipe: the configuration.
        data: as in `pretrain`.
        out: folder of the run.
        resume: continue the run there.
        resume_from: checkpoint to continue it from; None for the newest that is whole.
        overwrite: replace it.
        command: command line that makes the same run, for its config.yaml.
        bar: shows the iterations.
    """
    resume = resume or resume_from is not None
    if resume and overwrite:
        raise FolderError("resume and overwrite cannot be combined")
    folder = None if out is None else RunFolder(out)
    if folder is not None:
        folder.check_for(resume, overwrite)
    live = {} if data is None else {"data": as_data(data, data_options(recipe))}
    mark = fingerprint(live["data"]) if live else ""
    if folder is not None and resume:
        check_same(folder, recipe, mark)
    settings: Pretraining = recipe.parts(**live)
    with threads(settings.threads):
        run = Run(settings)
        # Nothing has been written so far.
        if folder is None:
            encoder = _fit(run, None, bar)
            return Pretrained(encoder, settings, run.seconds)
        with folder.locked():
            try:
                folder.open(overwrite)
                state = folder.saved_state(resume_from) if resume else None
                kept = folder.command() if resume else command
                folder.save_config(recipe.text, recipe.name, kept, mark)
                if state is not None:
                    run.load_state_dict(state)
                    drop_later(folder.checkpoints, state)
                encoder = _fit(run, folder, bar)
                folder.save_encoder(encoder, settings.data.domain)
            except KeyboardInterrupt as error:
                raise Interrupted(what_is_saved(folder), number_of(error)) from None
    return Pretrained(encoder, settings, run.seconds)


def _fit(run: Run, folder: RunFolder | None, bar: Bar) -> Encoder:
    with bar(run.settings.iterations, run.iteration) as on_block:
        fit(run, folder, on_block)
    return run.settings.method.trained()


class Run:
    """A pretraining in memory: all mutable state, and the iteration that changes it.

    Args:
        settings: the parts of the run; the method is used in place.
    Raises:
        RecipeError: the parts do not fit each other; the message is one line.
    """

    def __init__(self, settings: Pretraining) -> None:
        self.settings, method = settings, settings.method
        self.device = Fabric(accelerator="auto", devices=1).device
        self.data_generator, generator = generators(settings.seed, self.device)
        try:
            method.check(method.encoder.latent, settings.data)
            method.prepare(settings.data, self.device, generator)
        except Exception as error:  # whatever a part raises, the settings are at fault
            line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise RecipeError(f"these settings do not run: {line}") from error
        self.no_negatives = torch.empty(0, method.encoder.latent, device=self.device)
        self.iteration, self.seconds, self.last = 0, 0.0, math.nan

    def iterate(self) -> Tensor:
        """Updates the encoder once; returns the loss of this iteration.

        Raises:
            Diverged: the loss is NaN or infinite; nothing was updated.
        """
        s = self.settings
        x = s.data.sample(s.batch_size, self.data_generator).to(self.device)
        with autocast(s.precision, self.device):
            loss = s.method.loss(x, self.no_negatives)
        value = float(loss.detach())
        if not math.isfinite(value):
            numbers = {"loss before": self.last, "largest |x|": float(x.abs().max())}
            raise Diverged(self.iteration, f"the loss is {value}", numbers)
        loss.backward()
        s.method.update(self.iteration, s.iterations)
        self.iteration, self.last = self.iteration + 1, value
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "seconds": self.seconds,
            "last": self.last,
            "data_generator": self.data_generator.get_state(),
            "method": self.settings.method.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        form = self.state_dict()
        check_form({k: v for k, v in state.items() if k in form}, form, "the checkpoint")
        try:
            self.iteration, self.seconds = state["iteration"], state["seconds"]
            self.last = state["last"]
            self.data_generator.set_state(state["data_generator"])
            self.settings.method.load_state_dict(state["method"])
        except MISFITS as error:
            raise misfit("the checkpoint does not fit this run's settings", error) from error


def fit(run: Run, folder: RunFolder | None, on_block: OnBlock) -> None:
    """Iterates to the end, logging to metrics.csv and saving checkpoints.

    Ctrl-C and other signals (signals.py) save the run and raise Interrupted.

    Args:
        run: fresh or loaded from a checkpoint.
        folder: of the run; None to write nothing.
        on_block: called regularly with the iteration and its metrics, for a progress display.
    """
    s, begin = run.settings, time.perf_counter() - run.seconds
    metrics = MetricsLog(None if folder is None else folder.path / "metrics.csv", run.iteration)
    kept = None if folder is None else Checkpoints(folder.checkpoints, s.keep)

    def save() -> None:
        run.seconds = time.perf_counter() - begin
        if kept is not None:
            kept.save(run.state_dict())

    with waiting() as signals:
        if not run.iteration:
            save()  # a run that has begun can be resumed at any time
        while run.iteration < s.iterations:
            metrics.add(run.iteration, {"loss": run.iterate()})
            t, stop = run.iteration, signals.number
            due = stop is not None or t == s.iterations or t % s.checkpoint_every == 0
            if not due and t % ITERATIONS_PER_BLOCK:
                continue
            rows = metrics.drain()
            metrics.write(rows)
            on_block(t, rows[-1])
            if due:
                save()
            if stop is not None:
                signals.taken = True
                saved = "" if folder is None else " and saved; --resume continues it"
                error = Interrupted(f"stopped at iteration {t}{saved}", stop)
                error.model = s.method.trained()
                raise error
