"""Numbers of studies beside those of their runs; here the appendices of `beta-theory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from coldness.runs.folder import RunFolder
from coldness.studies.deserved import trust_numbers
from coldness.studies.fixed_point import fixed_point
from coldness.studies.identities import identities
from coldness.studies.number import Number
from coldness.studies.optimisers import optimisers
from coldness.studies.rescues import guard_numbers, guard_rows
from coldness.training.recipe import Recipe


def theory(
    rows: Sequence[Mapping[str, Any]], runs: Path, quick: bool, stage: Callable[[str], None]
) -> list[Number]:
    """All numbers of the study; rows and runs are those of its grid."""
    stage("identities")
    numbers = list(identities())
    for row in rows:
        if row["diverged_at"] is None:
            stage(f"fixed point of {row['run']}")
            numbers += _fixed_point(row, RunFolder(runs / row["run"]))
    stage("optimisers without good negatives")
    return [*numbers, *optimisers(quick)]


def _fixed_point(row: Mapping[str, Any], run: RunFolder) -> list[Number]:
    model, data = run.load(), Recipe.read(run.config).parts().data.known
    assert data is not None
    assert model.sampler is not None
    return list(fixed_point(row, model.energy, model.sampler, data))


NUMBERS: dict[str, Callable[..., list[Number]]] = {
    "theory": theory,
    "guard": guard_numbers,
    "trust": trust_numbers,
}
"""Functions by their name in a study's file: of rows, folder of runs, quick, and a display."""

ROWS: dict[str, Callable[..., list[dict[str, Any]]]] = {"guard": guard_rows}
"""Functions that add columns comparing runs, by the same names: of rows and folder."""
