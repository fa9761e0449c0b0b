"""Train an encoder of images, without an energy, for the latent guidance of energies later.

RECIPE is a packaged name (see `coldness recipes`) or a YAML file. Every recipe field is also an
option; `method` holds the encoder, its optimiser and how it learns:

  Masked    a masked autoencoder: completes images of which it sees a few patches
  SimCLR    a contrastive encoder: tells views of one image from those of others
  BYOL      an encoder that predicts its own average

examples:
  coldness pretrain pretrain/digits-mae
  coldness pretrain pretrain/digits-mae --method.mask 0.5 --iterations 1000 --out runs/mae
  coldness pretrain pretrain/cifar10-mae --data.path my-images.npz

The encoder is written to DIR/model. Recipes of `coldness train` guide an energy by it: the teacher
MAE trains a new head on its features, and Frozen uses it as it is. Both take DIR as their path.

Ctrl-C and SIGTERM save the run. The same command with --resume continues it, with the same result
to the bit as an uninterrupted run. At the end, the accuracy of nearest neighbours by the encoder's
features is measured on held-out images, where they have classes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape

from coldness.cli.console import console, output, show_log_lines
from coldness.cli.options import NAME_AN_ENCODER, CommandParser, read_recipe, saved_recipe
from coldness.evaluation.latent_checks import knn_accuracy
from coldness.machine import threads
from coldness.pretraining.run import Pretrained, carry_out
from coldness.pretraining.settings import PretrainingRecipe
from coldness.progress import OnBlock, training_bar
from coldness.runs.folder import RunFolder


def parser() -> CommandParser:
    usage = "RECIPE [--out DIR] [--seed N] [--resume | --overwrite] [--FIELD VALUE ...]"
    parser = CommandParser(
        "pretrain", __doc__, usage, NAME_AN_ENCODER, takes_recipe=PretrainingRecipe
    )
    parser.add_argument("--out", metavar="DIR", help="folder of the run (default runs/RECIPE-SEED)")
    parser.add_argument("--resume", action="store_true", help="resume the run in --out")
    parser.add_argument(
        "--resume-from", metavar="ITERATION|FILE", help="resume from another checkpoint"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    return parser


def main(words: list[str]) -> int:
    given, read = read_recipe(parser(), words)
    out = Path(given.out or f"runs/{Path(read.name).stem}-{read.seed}")
    given.resume = given.resume or given.resume_from is not None
    if given.resume and RunFolder(out).holds_run():
        read = saved_recipe(RunFolder(out), read, given.overrides)
    recipe = PretrainingRecipe.read(read)
    show_log_lines()

    @contextmanager
    def bar(iterations: int, done: int) -> Iterator[OnBlock]:
        begin = f", from iteration {done}" if done else ""
        place = f"into {escape(str(out))}, seed {recipe.seed}{begin}"
        console.print(f"[bold]{escape(recipe.name)}[/] {place}")
        with training_bar(iterations, done) as on_block:
            yield on_block

    found = carry_out(
        recipe,
        out=out,
        resume=given.resume,
        resume_from=given.resume_from,
        overwrite=given.overwrite,
        command=shlex.join(["coldness", "pretrain", *words]),
        bar=bar,
    )
    print_accuracy(found)
    output.print(f"encoder: {out}/model", markup=False)
    return 0


def print_accuracy(found: Pretrained) -> None:
    """What simple classifiers can read off the features, where images have classes."""
    data = found.settings.data.labelled
    if data is None or len(data.classes) < 2:
        return
    with threads(found.settings.threads):
        accuracy = knn_accuracy(found.encoder, data)
    output.print(
        f"k-NN accuracy {accuracy:.3f} on {len(data.test)} held-out images in "
        f"{len(data.classes)} classes (chance {1 / len(data.classes):.3g})"
    )
