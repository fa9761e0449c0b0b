"""`python -m campaigns [NAME ...] [--count N] [--seed N] [--quick]`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from campaigns import CAMPAIGNS, Tally

FINDINGS_SHOWN = 20


def main() -> int:
    """Runs campaigns; 1 if anything was lost."""
    options = _options()
    console = Console(highlight=False)
    tallies: list[Tally] = []
    for name in options.names or CAMPAIGNS:
        campaign = import_module(f"campaigns.{name}")
        count = options.count or (campaign.QUICK if options.quick else campaign.COUNT)
        begin = time.perf_counter()
        with (
            tempfile.TemporaryDirectory(prefix=f"campaign-{name}-") as folder,
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process,
        ):
            # In a process of its own, for one that has trained cannot be forked.
            tally: Tally = process.submit(campaign.run, count, options.seed, Path(folder)).result()
        tallies.append(tally)
        seconds = time.perf_counter() - begin
        line = f"{name}: {tally.survived} of {tally.tried} survived in {seconds:.0f} s"
        console.print(line, markup=False)
        for finding in tally.findings[:FINDINGS_SHOWN]:
            console.print(f"  {finding}", markup=False)
        if len(tally.findings) > FINDINGS_SHOWN:
            console.print(f"  and {len(tally.findings) - FINDINGS_SHOWN} more")
    console.print(_table(tallies))
    return int(any(tally.lost for tally in tallies))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m campaigns")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CAMPAIGNS)}")
    parser.add_argument("--count", type=int, metavar="N", help="faults of each campaign")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument("--quick", action="store_true", help="as few faults as CI tries")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in CAMPAIGNS]
    if unknown:
        parser.error(f"no campaign {unknown[0]!r}; there are {', '.join(CAMPAIGNS)}")
    if options.count is not None and options.count < 1:
        parser.error(f"--count must be >= 1, got {options.count}")
    return options


def _table(tallies: list[Tally]) -> Table:
    table = Table("campaign", box=None)
    for heading in ("tried", "survived", "lost", "slowest (s)"):
        table.add_column(heading, justify="right")
    for tally in tallies:
        counts = (tally.tried, tally.survived, tally.lost)
        table.add_row(tally.name, *map(str, counts), f"{tally.slowest:.2f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
