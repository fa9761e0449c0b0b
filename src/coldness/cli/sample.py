"""Draw samples from a trained model into an .npz file.

The file holds `x`, one sample per row in the data's units, and `potential`, U(x) = -log p(x) - log
Z. Chains start and move as in the run's sampler, or in its first source where it has none; more
--steps bring them closer to the model's own density. For a classifier, --label draws from p(x|y)
of one class, by name or number, and --label all from each class in turn; the file then also holds
`labels`.

examples:
  coldness sample runs/mixture2d-0
  coldness sample runs/mixture2d-0 --n 5000 --steps 2000 --out many.npz
  coldness sample runs/digits-jem-0 --label all
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coldness.batching import at_most, at_once
from coldness.cli.console import output, show_log_lines, stages
from coldness.cli.options import NAME_A_RUN, CommandParser, allow_imports_option
from coldness.data import Labelled
from coldness.energies import Conditional
from coldness.evaluation.likelihood import potential as potential_of
from coldness.kernels import worth_compiling
from coldness.precision import autocast
from coldness.runs.files import write_atomically
from coldness.runs.folder import FolderError, RunFolder
from coldness.schedules import value_at
from coldness.seeds import generators
from coldness.signatures import nearest
from coldness.training.settings import Settings

EXAMPLES_FOR_SCALE = 1000


def parser() -> CommandParser:
    usage = "RUN [--n N] [--steps N] [--label CLASS] [--seed N] [--out FILE]"
    parser = CommandParser("sample", __doc__, usage, NAME_A_RUN)
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder of a trained run")
    parser.add_argument("--n", type=int, default=1000, help="number of samples (default 1000)")
    parser.add_argument("--steps", type=int, metavar="N", help="chain length (default as trained)")
    parser.add_argument("--label", metavar="CLASS", help="class, or `all` (default: all of p(x))")
    parser.add_argument(
        "--out", metavar="FILE", default="samples.npz", help="file to write (default samples.npz)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="random seed of the chains (default 0)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    allow_imports_option(parser)
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    if given.n < 1 or (given.steps is not None and given.steps < 0):
        raise ValueError("--n must be >= 1 and --steps >= 0")
    out = Path(given.out)
    if out.suffix != ".npz" or out.is_dir():
        raise FolderError(f"--out must name a file that ends in .npz, got {out}")
    if out.exists() and not given.overwrite:
        raise FolderError(f"{out} exists: --overwrite replaces it")
    if not out.parent.is_dir():
        raise FolderError(f"there is no folder {out.parent} to write {out.name} to")
    show_log_lines()
    settings = RunFolder(Path(given.run)).load(given.allow_imports)
    settings.use_threads()
    energy, source = settings.energy, settings.sampling
    labels = None if given.label is None else _labels(given.label, given.n, settings)
    steps = source.steps if given.steps is None else given.steps
    of_data, generator = generators(given.seed)
    x_data = settings.data.sample(EXAMPLES_FOR_SCALE, of_data)
    scale = value_at(source.step_scale, settings.iterations - 1, settings.iterations)
    with stages("sample") as stage:
        stage(f"{given.n} chains of {steps} steps")
        compiled = settings.compile != "never" and worth_compiling(steps)
        with autocast(settings.precision, x_data.device), at_most(settings.at_once):
            found = [
                source.sample(
                    energy, x_data, len(part), generator, steps=steps, step_scale=scale,
                    compiled=compiled, labels=None if labels is None else labels[part],
                ).x
                for part in torch.arange(given.n).split(at_once(x_data.shape[1:]))
            ]  # fmt: skip
            x = torch.cat(found)
            potential = potential_of(energy, x)
    if not bool(potential.isfinite().all()):
        bad = int((~potential.isfinite()).sum())
        raise ValueError(f"{bad} of {given.n} chains became NaN or infinite; nothing was written")
    arrays: dict[str, Any] = {
        "x": settings.data.original(x).numpy(),
        "potential": potential.numpy(),
    }
    if labels is not None:
        arrays["labels"] = labels.numpy()
    write_atomically(out, lambda file: np.savez(file, **arrays))
    output.print(f"{given.n} samples of {steps} steps: {out}", markup=False)
    return 0


def _labels(label: str, count: int, settings: Settings) -> Tensor:
    """Classes (count,) by name or number; all of them in turn for `all`."""
    data = settings.data
    if not isinstance(data, Labelled) or not isinstance(settings.energy, Conditional):
        raise ValueError("--label needs a run of a classifier on data with labels")
    if label == "all":
        return torch.arange(count) % len(data.classes)
    known = {**{str(k): k for k in range(len(data.classes))}, **_numbers(data.classes)}
    if label not in known:
        raise ValueError(f"there is no class {label!r}{nearest(label, known)}; or `all`")
    return torch.full((count,), known[label])


def _numbers(names: Sequence[str]) -> dict[str, int]:
    return {name: k for k, name in enumerate(names)}
