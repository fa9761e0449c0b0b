"""Find the unusual rows of a table: fits a density to the file and scores its own rows.

examples:
  coldness detect my.csv
  coldness detect my.csv --target label --budget fast --out my-scores.csv

FILE is a table: .csv, .tsv, .txt, .npy, .npz or .parquet, with text and missing values as they are.
The command prints the most unusual rows with the columns that make them so, and writes every row
with its log p, its percentile among held-out rows, whether it is an outlier, and why.

The same from Python: coldness.estimators.EnergyDetector. To keep the model for new rows, train it
with `coldness train table --data.path FILE` and use `coldness score`.
"""

from __future__ import annotations

from pathlib import Path

from coldness.cli.console import console
from coldness.cli.options import CommandParser
from coldness.cli.rows import Scored, check_out, print_unusual, write_scores
from coldness.data.table_files import read_sheet
from coldness.estimators import EnergyDetector
from coldness.evaluation.reasons import reasons
from coldness.machine import threads

NAME_A_FILE = ("file", "name a table, such as my.csv")


def parser() -> CommandParser:
    usage = "FILE [--target COLUMN] [--budget fast|default|best] [--out FILE]"
    parser = CommandParser("detect", __doc__, usage, NAME_A_FILE)
    parser.add_argument("file", nargs="?", metavar="FILE", help="the table")
    parser.add_argument("--target", metavar="COLUMN", help="column to leave out, by name or number")
    parser.add_argument(
        "--budget", choices=("fast", "default", "best"), default="default", help="amount of work"
    )
    parser.add_argument(
        "--contamination", type=float, metavar="SHARE",
        help="share of rows that are outliers; default: lower than 95%% of held-out rows",
    )  # fmt: skip
    parser.add_argument("--iterations", type=int, help="updates; default by budget and table")
    parser.add_argument("--out", metavar="FILE", help="CSV to write (default NAME-scores.csv)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    parser.add_argument("--rows", type=int, default=10, help="unusual rows to print; default 10")
    parser.add_argument("--seed", type=int, default=0, help="of everything random; default 0")
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    out = check_out(given.out or f"{Path(given.file).stem}-scores.csv", given.overwrite)
    assert out is not None
    share = given.contamination
    if share is not None and not 0 < share <= 0.5:
        raise ValueError(f"--contamination must be in (0, 0.5], got {share}")
    sheet = read_sheet(given.file, given.target)
    detector = EnergyDetector(
        contamination="auto" if share is None else share,
        budget=given.budget,
        iterations=given.iterations,
        random_state=given.seed,
        verbose=1,
    )
    with threads(1):
        detector.fit(sheet)
        scores, gradients = detector.score_samples(sheet), detector.explain(sheet)
    outlier = detector.decision_function(sheet) < 0
    name = "log_p" if detector.normalised_ else "minus_u"
    why = reasons(gradients, sheet.names, sheet.categories)
    scored = Scored(name, scores, detector.percentile(sheet), why, outlier, sheet)
    console.print(f"{int(outlier.sum())} of {len(scores)} rows are below the threshold")
    print_unusual(scored, given.rows)
    write_scores(out, scored)
    return 0
