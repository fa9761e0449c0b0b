"""`python -m benchmarks [--json F] [--quick] [--threads N] [--only toy|jem]`."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.jem_works import JEMWorks
from benchmarks.works import Row, Works


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    console = Console(highlight=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    console.print(f"{_machine()}, {options.threads} thread(s), torch {torch.__version__}")
    rows: list[Row] = []
    for name, works in (("toy", Works), ("jem", JEMWorks)):
        if options.only not in (None, name):
            continue
        made = works(options.threads, options.quick, lambda line: console.print(line, markup=False))
        for of_work in made.rows():
            rows += of_work
            if options.json is not None:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(_table(rows))
    console.print("Medians over rounds in which contenders take turns; compilation not counted.")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--json", type=Path, metavar="F", help="write the rows to this file")
    parser.add_argument("--quick", action="store_true", help="without the largest sizes")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--only", choices=("toy", "jem"), help="one of the two works")
    options = parser.parse_args()
    if options.threads < 1:
        parser.error(f"--threads must be >= 1, got {options.threads}")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    return options


def _machine() -> str:
    """The processor's name, where Linux tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "unknown processor"


def _table(rows: list[Row]) -> Table:
    units = ("milliseconds", "megabytes")
    table = Table("work", "contender", box=None)
    for heading in (*units, "x coldness"):
        table.add_column(heading, justify="right")
    work = None
    for row in rows:
        if work is not None and row["work"] != work:
            table.add_section()
        first = row["work"] if row["work"] != work else ""
        work = row["work"]
        figures = [f"{row[unit]:.3g}" if unit in row else "" for unit in units]
        table.add_row(first, row["name"], *figures, f"{row['ratio']:.2f}")
    return table


if __name__ == "__main__":
    main()
