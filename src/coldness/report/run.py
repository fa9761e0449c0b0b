"""One run of a report: what its folder holds, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from coldness.configuration import ConfigurationError, construct
from coldness.domain import Units
from coldness.files import BadFile
from coldness.report.densities import Densities
from coldness.report.figures import Array, Mark
from coldness.report.tables import TableReport, table_report
from coldness.runs import reader
from coldness.runs.events import Event, read_events
from coldness.runs.reader import Evaluation, Grids
from coldness.training.health import metrics_of
from coldness.trust import Verdict, verdict_on

COMMAND = "# command:"


@dataclass(frozen=True)
class Run:
    """What a report shows of a run folder.

    Args:
        name: on the page.
        config: the text of config.yaml.
        columns: of metrics.csv.
        metrics: of metrics.json, and those of the training.
        evaluation: the arrays of evaluation.npz.
        events: of the guard.
        grids: of image runs, negatives during training.
        card: of the model, the contents of model.yaml.
    """

    name: str
    config: str
    columns: dict[str, Array]
    metrics: dict[str, float]
    evaluation: Evaluation
    events: Sequence[Event] = field(default=())
    grids: Grids | None = None
    card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command that made the run; empty where it was not recorded."""
        lines = [x for x in self.config.splitlines() if x.startswith(COMMAND)]
        return lines[0].removeprefix(COMMAND).strip() if lines else ""

    @cached_property
    def settings(self) -> dict[str, str]:
        """Every setting in one line."""
        return {str(k): compact(v) for k, v in reader.settings_of(self.config).items()}

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of classes by the card of the model, else by the settings of the data."""
        data = reader.settings_of(self.config).get("data")
        given = data.get("init_args") if isinstance(data, dict) else None
        return _names(self.card, "classes") or _names(given, "classes")

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of attributes by the card of the model."""
        return _names(self.card, "attributes")

    @cached_property
    def units(self) -> Units | None:
        """The units of the data by the card of the model; None where there is no such card."""
        if "units" not in self.card:
            return None
        try:
            return construct(Units, self.card["units"])  # type: ignore[type-abstract]
        except ConfigurationError as error:
            raise BadFile(f"the card of the model of {self.name} has no units: {error}") from error

    @cached_property
    def table(self) -> TableReport | None:
        """What there is of a table; None for other data."""
        return table_report(self.evaluation.arrays, self.metrics, self.units)

    @cached_property
    def densities(self) -> Densities:
        """Panels of runs in the plane."""
        return Densities(self.evaluation)

    @property
    def marks(self) -> list[Mark]:
        """Events of the guard, for curves."""
        return [(event.iteration, event.event) for event in self.events]

    @cached_property
    def verdict(self) -> Verdict:
        return verdict_on(self.metrics)


def read_run(folder: Path, name: str) -> Run:
    """Everything in a run folder that the report shows; nothing in it is executed.

    Raises:
        BadFile: a file is missing or broken.
    """
    config, columns = reader.read_config(folder), reader.read_columns(folder)
    metrics, evaluation = reader.read_final_metrics(folder), reader.read_evaluation(folder)
    grids = reader.read_grids(folder) if evaluation.is_images else None
    events = read_events(folder / "events.jsonl")
    metrics |= metrics_of(columns, events)
    card = reader.read_card(folder)
    return Run(name, config, columns, metrics, evaluation, events, grids, card)


def _names(given: Any, key: str) -> tuple[str, ...]:
    """Of a list in a mapping; empty where there is no such list."""
    found = given.get(key) if isinstance(given, Mapping) else None
    return tuple(map(str, found)) if isinstance(found, list) else ()


def compact(value: Any) -> str:
    """A setting in one line: parts as Class(argument=value, ...)."""
    if isinstance(value, dict) and "class_path" in value:
        name = str(value["class_path"]).rpartition(".")[2]
        arguments = value.get("init_args") or {}
        return f"{name}({', '.join(f'{k}={compact(v)}' for k, v in arguments.items())})"
    if isinstance(value, dict):
        return ", ".join(f"{k}={compact(v)}" for k, v in value.items())
    if isinstance(value, list):
        return f"[{', '.join(compact(v) for v in value)}]"
    return "none" if value is None else str(value)
