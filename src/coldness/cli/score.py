"""Score the rows of a file with a trained model: how usual each row is.

examples:
  coldness score runs/table-0 new.csv
  coldness score runs/table-0 new.csv --out scores.csv --explain

MODEL is the folder of a run or of a saved model; the data it was trained on is not needed. FILE is
a table as for training (.csv, .npy, .npz, .txt, and .parquet for models of tables): columns are
found by their names where there are any, and further columns are ignored.

The score is log p in nats, in the units of the columns. Where log Z of the model is not known
closely enough it is -U, which is log p up to a constant; the command says which. The percentile is
the percentage of the run's held-out rows with a lower score: 0 is more unusual than all of them.

--explain names, for each row, the columns that make it unlikely, by the gradient of U.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from coldness.cli.console import output, show_log_lines
from coldness.cli.options import NAME_A_RUN, CommandParser, OptionError
from coldness.cli.rows import Scored, check_out, print_unusual, write_scores
from coldness.data import in_model, read_rows
from coldness.data.table_units import unseen
from coldness.documents import counted
from coldness.evaluation.reasons import explained, reasons
from coldness.likelihood.potential import potential
from coldness.machine import threads
from coldness.model import Model, load
from coldness.runs.reader import read_evaluation

LOG_P = "log p, in nats and the units of the columns"
MINUS_U = "-U, which is log p up to a constant, because log Z is not known closely enough"


def parser() -> CommandParser:
    usage = "MODEL FILE [--out scores.csv] [--explain]"
    parser = CommandParser("score", __doc__, usage, NAME_A_RUN, allow_imports=True)
    parser.add_argument("run", nargs="?", metavar="MODEL", help="folder of a run or of a model")
    parser.add_argument("file", nargs="?", metavar="FILE", help="table of rows to score")
    parser.add_argument("--out", metavar="FILE", help="CSV file to write; default none")
    parser.add_argument("--explain", action="store_true", help="name the columns behind each score")
    parser.add_argument("--rows", type=int, default=10, help="unusual rows to print; default 10")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    if given.file is None:
        raise OptionError("name a file of rows to score, such as new.csv")
    out = check_out(given.out, given.overwrite)
    show_log_lines()
    model = load(given.run, allow_imports=given.allow_imports)
    if model.domain.is_images:
        raise ValueError("`coldness score` scores rows of tables, not images")
    with threads(1):
        rows = read_rows(given.file, model.domain)
        points = in_model(rows, model.domain)
        for note in unseen(rows, model.domain.units):
            output.print(note, markup=False)
        z = model.log_z
        usable = z is not None and z.tight
        scores = _scores(model, points, usable)
        known = _held_out(Path(given.run), model, usable)
        why = []
        if given.explain:
            units = model.domain.units
            names = units.names(model.domain.shape)
            categories = [units.categories(j) for j in range(len(names))]
            why = reasons(explained([model], points), names, categories)
    percentile = None
    if known is not None:
        percentile = 100 * np.searchsorted(np.sort(known), scores) / len(known)
    scored = Scored("log_p" if usable else "minus_u", scores, percentile, why)
    output.print(
        f"{counted(len(scores), 'row')}, scored by {LOG_P if usable else MINUS_U}", markup=False
    )
    if percentile is None:
        output.print("no percentiles: the run has no evaluation with held-out rows")
    print_unusual(scored, given.rows)
    if out is not None:
        write_scores(out, scored)
    return 0


def _scores(model: Model, points: torch.Tensor, usable: bool) -> np.ndarray:
    z = model.log_z.estimate if usable and model.log_z is not None else 0.0
    u = potential(model.energy, points) + model.domain.units.log_stretch(points)
    return (-u - z).numpy()


def _held_out(run: Path, model: Model, usable: bool) -> np.ndarray | None:
    """Scores of the held-out rows that the run was evaluated on."""
    if not (run / "evaluation.npz").is_file():
        return None
    x = torch.from_numpy(read_evaluation(run).arrays["x_data"]).double()
    return _scores(model, x, usable)
