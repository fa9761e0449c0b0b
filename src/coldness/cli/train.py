"""coldness train RECIPE: train a model, judge it, and write its report.

RECIPE is a packaged name (see `coldness recipes`) or a YAML file. Every field below can be
overridden, in lists by number: --sources.0.steps 50. A paper's pair of drift and noise goes by
--temperature.drift and --temperature.noise. `--data.help Rings2D` shows the fields of a part.

Ctrl-C saves the run; the same command with --resume goes on, bit for bit as if it had not stopped.

A guard watches the run. When it goes wrong, it is rolled back to its last good state and goes on
with milder settings for a while; --guard.policy stop or warn do less. A run that cannot be saved
ends with its last good model and exit code 3; what was seen and done is in events.jsonl and in the
report.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from coldness.cli.console import console, show_log_lines, stages, training_bar
from coldness.cli.doctor import print_temperature
from coldness.cli.words import allow_imports_option, read_recipe
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import bank_metrics
from coldness.evaluation.ood import read_sets
from coldness.training.health import training_metrics
from coldness.report import write_report
from coldness.files import load_checkpoint
from coldness.runs.folder import FolderError, RunFolder
from coldness.training import Diverged, Training, fit
from coldness.training.recipe import RecipeError, Resolved, settings_parser
from coldness.trust import verdict_on
from coldness.trust.density_answer import likelihood_line

MAY_CHANGE_ON_RESUME = {"iterations", "checkpoint_every", "tensorboard", "evaluation", "guard"}


def parser() -> ArgumentParser:
    usage = "coldness train RECIPE [--out DIR] [--seed N] [--resume] [--FIELD VALUE ...]"
    parser = settings_parser(prog="coldness train", description=__doc__, usage=usage)
    parser.add_argument("--out", type=str, default=None, help="folder; default runs/RECIPE-SEED")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --out")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    allow_imports_option(parser)
    return parser


def main(words: list[str]) -> int:
    resolved, given, recipe = read_recipe(words, parser())
    out = Path(given.out or f"runs/{Path(recipe).stem}-{resolved.settings.seed}")
    show_log_lines()
    train(resolved, out, recipe, words, resume=given.resume, overwrite=given.overwrite)
    return 0


def train(
    resolved: Resolved,
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
    folder, settings = RunFolder(out), resolved.settings
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
        console.print(f"[bold]{recipe}[/] into {out}, seed {settings.seed}")
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
    console.print(f"report: {folder.report}")
    return metrics


def print_verdict(metrics: dict[str, float]) -> None:
    """The verdict of the report, in the terminal."""
    verdict = verdict_on(metrics)
    console.print(f"[bold]{verdict.summary}[/]")
    for answer in verdict.answers.values():
        console.print(f"  {answer.question:<42} [bold]{answer.grade}[/]  {answer.measured}")
    console.print(f"  {'log-likelihood of test points':<42} {likelihood_line(metrics)}")


def _check_same(folder: RunFolder, resolved: Resolved) -> None:
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
