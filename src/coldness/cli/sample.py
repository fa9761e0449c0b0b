"""Draw samples from a trained model into an .npz file.

examples:
  coldness sample runs/mixture2d-0 --n 5000 --steps 2000 --out samples.npz
  coldness sample runs/digits-jem-0 --label 3
  coldness sample runs/digits-clel-0 --like three.png --n 64
  coldness sample runs/faces --all-of young,smiling,-hat --guidance 0.02

MODEL is the folder of a run or of a saved model; the data it was trained on is not needed. The file
holds x, one sample per row in the data's own units, and potential, U(x) = -log p(x) - log Z. Chains
start and move as in training; more --steps bring them closer to the model's own density.

One condition can be given. --label draws samples of one class, by its name or number, and --label
all of each class in turn; the file then holds labels too. Models that were guided by an encoder
also take --like and --all-of. --like draws samples that share what the given images have in common:
image files, folders or .npz files. --all-of draws samples that have all of these attributes or
classes: `-name` or `not name` for one that they should not have, `name:2` for twice the weight. A
list that begins with a dash needs `=`, as in --all-of=-large. --guidance sets the weight of these
latents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coldness.cli.console import output, show_log_lines
from coldness.cli.options import NAME_A_RUN, CommandParser
from coldness.data.image_files import read_images
from coldness.data.images import in_channels
from coldness.domain import Domain
from coldness.files import write_atomically
from coldness.machine import threads
from coldness.model import load
from coldness.progress import stages
from coldness.runs.folder import FolderError


def parser() -> CommandParser:
    usage = "MODEL [--label CLASS | --like IMAGE... | --all-of NAMES] [--n N] [--out FILE]"
    parser = CommandParser("sample", __doc__, usage, NAME_A_RUN, allow_imports=True)
    parser.add_argument("run", nargs="?", metavar="MODEL", help="folder of a run or of a model")
    parser.add_argument("--n", type=int, default=1000, help="number of samples; default 1000")
    parser.add_argument("--steps", type=int, default=None, help="chain length; default as trained")
    parser.add_argument("--label", metavar="CLASS", help="class by name or number, or `all`")
    parser.add_argument("--like", nargs="+", metavar="IMAGE", help="images to be like")
    parser.add_argument(
        "--all-of", metavar="NAMES", help="attributes or classes, with commas between"
    )
    parser.add_argument(
        "--guidance", type=float, help="weight of latents; default that of training"
    )
    parser.add_argument("--out", default="samples.npz", help="file to write; default samples.npz")
    parser.add_argument("--seed", type=int, default=0, help="of the chains; default 0")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    parser.add_argument(
        "--threads", type=int, default=1, help="of the processor; default 1, fastest for small nets"
    )
    return parser


def read_like(paths: list[str], domain: Domain) -> Tensor:
    """Images (N, C, H, W) of files, in the data's own units, in the size of the model."""
    if not domain.is_images:
        raise ValueError("--like needs a model of images")
    channels, height, width = domain.shape
    found = [read_images(path, height if height == width else None) for path in paths]
    images = [in_channels(x.float(), channels) for x in found]
    return domain.units.original(torch.cat(images) / 127.5 - 1)


def main(words: list[str]) -> int:
    given = parser().read(words)
    if given.n < 1 or (given.steps is not None and given.steps < 0):
        raise ValueError("--n must be >= 1 and --steps >= 0")
    if given.threads < 1:
        raise ValueError(f"--threads must be >= 1, got {given.threads}")
    out = Path(given.out)
    if out.suffix != ".npz" or out.is_dir():
        raise FolderError(f"--out must name a file that ends in .npz, got {out}")
    if out.exists() and not given.overwrite:
        raise FolderError(f"{out} exists: --overwrite replaces it")
    if not out.parent.is_dir():
        raise FolderError(f"there is no folder {out.parent} to write {out.name} to")
    show_log_lines()
    model = load(given.run, allow_imports=given.allow_imports)
    steps = given.steps
    with stages("sample") as stage, threads(given.threads):
        stage(f"{given.n} chains" + ("" if steps is None else f" of {steps} steps"))
        condition, labels = model.condition(
            given.n,
            label=given.label,
            like=None if given.like is None else read_like(given.like, model.domain),
            all_of=given.all_of,
            guidance=given.guidance,
        )
        x, u = model.draw(given.n, steps=steps, seed=given.seed, condition=condition)
    arrays: dict[str, Any] = {
        "x": model.domain.units.original(x).numpy(),
        "potential": u.numpy(),
    }
    if labels is not None:
        arrays["labels"] = labels.numpy()
    write_atomically(out, lambda file: np.savez(file, **arrays))
    output.print(f"{given.n} samples: {out}", markup=False)
    return 0
