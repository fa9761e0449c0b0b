"""Train a model from a recipe, evaluate it and write its report.

RECIPE is a packaged name (see `coldness recipes`) or a YAML file. Every recipe field is also an
option; index list entries by position.

examples:
  coldness train mixture2d
  coldness train mixture2d --contrast.beta 0.5 --sources.0.steps 50 --out runs/mine
  coldness train table --data.path my.csv --data.target label
  coldness train points --data.path my.npy --seed 3

Ctrl-C and the signals of schedulers (SIGTERM, SIGHUP, SIGUSR1, SIGUSR2) save the run. The same
command with --resume continues it, with the same result to the bit as an uninterrupted run. The
newest checkpoints are kept (--keep 3); --resume takes the newest that is whole, and --resume-from
another one.

A guard watches the run. When training diverges, it rolls back to the last good state and continues
with milder settings for a while; --guard.policy stop and --guard.policy warn do less. A run that
cannot be recovered ends with its last good model and exit code 3; events.jsonl and the report say
what happened.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from coldness.cli.console import console, show_log_lines
from coldness.cli.doctor import print_temperature
from coldness.cli.options import NAME_A_RECIPE, CommandParser, read_recipe, saved_recipe
from coldness.cli.tables import print_verdict
from coldness.evaluation.bank_checks import banks_of
from coldness.evaluation.ood import read_sets
from coldness.machine import threads
from coldness.progress import OnBlock, stages, training_bar
from coldness.report import write_report
from coldness.runs.folder import RunFolder
from coldness.signals import Interrupted, number_of
from coldness.trainer import Outcome, carry_out
from coldness.training.recipe import Recipe
from coldness.training.settings import Settings
from coldness.trust.judgement import judge


def parser() -> CommandParser:
    usage = "RECIPE [--out DIR] [--seed N] [--resume | --overwrite] [--FIELD VALUE ...]"
    parser = CommandParser("train", __doc__, usage, NAME_A_RECIPE, takes_recipe=Recipe)
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default runs/RECIPE-SEED)")
    parser.add_argument("--resume", action="store_true", help="resume the run in --out")
    parser.add_argument(
        "--resume-from", metavar="ITERATION|FILE", help="resume from another checkpoint"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    parser.add_argument(
        "--insist", action="store_true", help="train even where hardly any negative would count"
    )
    return parser


def main(words: list[str]) -> int:
    given, recipe = read_recipe(parser(), words)
    out = Path(given.out or f"runs/{Path(recipe.name).stem}-{recipe.seed}")
    given.resume = given.resume or given.resume_from is not None
    if given.resume and RunFolder(out).holds_run():
        recipe = saved_recipe(RunFolder(out), recipe, given.overrides)
    show_log_lines()
    command = shlex.join(["coldness", "train", *words])
    names = ("resume", "resume_from", "overwrite", "insist")
    train_and_judge(recipe, out, command, **{name: getattr(given, name) for name in names})
    return 0


def train_and_judge(
    recipe: Recipe,
    out: Path,
    command: str,
    *,
    resume: bool = False,
    resume_from: str | None = None,
    overwrite: bool = False,
    insist: bool = False,
) -> None:
    """Trains into the folder `out`, judges the model, and writes its report.

    Raises:
        Diverged: after all that, where the run was given up.
        Interrupted: by a signal; the message says what is saved.
    """

    def on_ready(settings: Settings) -> None:
        read_sets(settings.evaluation.ood, settings.data)  # refused now, and not after training
        console.print(f"[bold]{escape(recipe.name)}[/] into {escape(str(out))}, seed {recipe.seed}")
        print_temperature(settings)

    outcome = carry_out(
        recipe,
        out=out,
        resume=resume,
        resume_from=resume_from,
        overwrite=overwrite,
        insist=insist,
        command=command,
        on_ready=on_ready,
        bar=_resuming_bar if resume else training_bar,
        stage=stages,
    )
    with RunFolder(out).locked():
        try:
            finish(RunFolder(out), outcome)
        except KeyboardInterrupt as error:
            text = "stopped while the model was evaluated; it is trained and saved: "
            text += f"`coldness evaluate {shlex.quote(str(out))}` continues"
            raise Interrupted(text, number_of(error)) from None
    if outcome.diverged is not None:
        raise outcome.diverged


@contextmanager
def _resuming_bar(iterations: int, done: int) -> Iterator[OnBlock]:
    console.print(f"resuming at iteration {done}")
    with training_bar(iterations, done) as bar:
        yield bar


def finish(folder: RunFolder, outcome: Outcome) -> None:
    """Judges the trained model and writes its report."""
    s = outcome.settings
    banks = banks_of(s.sources, [source.state_dict() for source in s.sources])
    with stages("evaluate") as stage, threads(s.threads):
        judgement = judge(
            outcome.model, s.data, seed=s.evaluation.seed, evaluation=s.evaluation, banks=banks,
            on_stage=stage,
        )  # fmt: skip
        folder.save_evaluation(judgement.metrics, judgement.arrays)
        stage("report")
        write_report([folder.path], folder.report)
    print_verdict(judgement.verdict, judgement.metrics)
    console.print(f"report: {folder.report}", markup=False)
