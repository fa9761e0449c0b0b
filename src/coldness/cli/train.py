"""Train a model from a recipe, evaluate it and write its report.

RECIPE is a packaged name (see `coldness recipes`) or a YAML file. Every recipe field is also an
option; index list entries by position.

examples:
  coldness train mixture2d
  coldness train mixture2d --contrast.beta 0.5 --sources.0.steps 50 --out runs/mine
  coldness train points --data.path my.npy --seed 3

Ctrl-C saves the run. The same command with --resume continues it, with the same result to the bit
as an uninterrupted run.

A guard watches the run. When training diverges, it rolls back to the last good state and continues
with milder settings for a while; --guard.policy stop and --guard.policy warn do less. A run that
cannot be recovered ends with its last good model and exit code 3; events.jsonl and the report say
what happened.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.markup import escape

from coldness.cli.console import console, show_log_lines, stages, training_bar
from coldness.cli.doctor import print_temperature
from coldness.cli.options import CommandParser, read_recipe, read_with, recipe_parser
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import bank_metrics
from coldness.evaluation.ood import read_sets
from coldness.report import write_report
from coldness.runs.files import load_checkpoint
from coldness.runs.folder import FolderError, RunFolder
from coldness.training import Diverged, Training, fit
from coldness.training.recipe import Recipe, RecipeError
from coldness.trust.density_answer import likelihood_line
from coldness.trust.training_answer import training_metrics
from coldness.trust.verdict import judge

MAY_CHANGE_ON_RESUME = {"iterations", "checkpoint_every", "tensorboard", "evaluation", "guard"}


def parser() -> CommandParser:
    usage = "RECIPE [--out DIR] [--seed N] [--resume | --overwrite] [--FIELD VALUE ...]"
    parser = recipe_parser("train", __doc__, usage)
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default runs/RECIPE-SEED)")
    parser.add_argument("--resume", action="store_true", help="resume the run in --out")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    return parser


def main(words: list[str]) -> int:
    given, recipe = read_recipe(parser(), words)
    out = Path(given.out or f"runs/{Path(recipe.name).stem}-{recipe.seed}")
    name = recipe.name
    if given.resume and RunFolder(out).holds_run():
        recipe = _saved(RunFolder(out), recipe, given.overrides)
    show_log_lines()
    train(recipe, out, name, words, resume=given.resume, overwrite=given.overwrite)
    return 0


def _saved(folder: RunFolder, recipe: Recipe, overrides: Mapping[str, Any]) -> Recipe:
    """The recipe that a run was trained with, with the fields that are overridden now."""
    if folder.recipe() != recipe.name:
        raise FolderError(f"{folder.path} holds a run of {folder.recipe()}, not of {recipe.name}")
    return read_with(str(folder.config), overrides, recipe.allow_imports)


def train(
    resolved: Recipe,
    out: Path,
    recipe: str,
    words: Sequence[str],
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, float]:
    """Trains into the folder `out`; gives the metrics that go into metrics.json."""
    if resume and overwrite:
        raise FolderError("--resume and --overwrite exclude each other")
    folder, settings = RunFolder(out), resolved.parts()
    folder.check_for(resume, overwrite)
    if resume:
        _check_same(folder, resolved)
    try:
        Training.check(settings)
    except Exception as error:  # whatever a part raises, it is the settings that do not fit
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RecipeError(f"these settings do not run: {line}") from error
    read_sets(settings.evaluation.ood, settings.data)  # refused now, and not after training
    # Nothing has been written so far.
    with folder.locked():
        folder.open(overwrite)
        command = folder.command() if resume else shlex.join(["coldness", "train", *words])
        folder.save_config(resolved.text, recipe, command)
        console.print(f"[bold]{escape(recipe)}[/] into {escape(str(out))}, seed {settings.seed}")
        print_temperature(settings)
        training = Training(settings)
        if resume and folder.checkpoint.exists():
            training.load_state_dict(load_checkpoint(folder.checkpoint))
        if resume:
            console.print(f"resuming at iteration {training.iteration}")
        diverged = None
        try:
            with training_bar(settings.iterations, training.iteration) as bar:
                fit(training, out, on_block=bar)
        except Diverged as error:  # `training` holds the last good model
            diverged = error
        folder.save_model(training.weights())
        settings.load_model_state(training.weights())
        metrics = finish(folder, training)
        if diverged is not None:
            raise diverged
        return metrics


def finish(folder: RunFolder, training: Training) -> dict[str, float]:
    """Judges the trained model and writes its report."""
    with stages("evaluate") as stage:
        banks = [source.state_dict() for source in training.settings.sources]
        metrics, arrays = evaluate(training.settings, stage, banks=banks)
        metrics |= {**training_metrics(folder.path), **bank_metrics(training.settings, banks)}
        metrics["seconds"] = round(training.seconds, 3)
        metrics["iterations"] = training.iteration
        folder.save_evaluation(metrics, arrays)
        stage("report")
        write_report([folder.path], folder.report)
    print_verdict(metrics)
    console.print(f"report: {folder.report}", markup=False)
    return metrics


def print_verdict(metrics: dict[str, float]) -> None:
    """The verdict of the report, in the terminal."""
    verdict = judge(metrics)
    console.print(verdict.summary, style="bold", markup=False)
    for answer in verdict.answers:
        console.print(f"  {answer.question:<36} [bold]{answer.answer}[/]  {escape(answer.figure)}")
    console.print(
        f"  {'log-likelihood of test points':<36} {likelihood_line(metrics)}", markup=False
    )


def _check_same(folder: RunFolder, resolved: Recipe) -> None:
    saved = _without_nulls(yaml.safe_load(folder.config.read_text()))
    now = _without_nulls(yaml.safe_load(resolved.text))
    keys = [key for key in {**saved, **now} if key not in MAY_CHANGE_ON_RESUME]
    changed = [key for key in keys if now.get(key) != saved.get(key)]
    if changed:
        raise FolderError(
            f"{folder.path} was trained with other settings ({', '.join(changed)}): "
            "resume without overrides, or choose another --out"
        )


def _without_nulls(part: Any) -> Any:
    """Settings that are null are left out of the files of earlier versions."""
    if isinstance(part, dict):
        return {k: _without_nulls(v) for k, v in part.items() if v is not None}
    return [_without_nulls(v) for v in part] if isinstance(part, list) else part
