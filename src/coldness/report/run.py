"""What a run folder holds that a report needs. Nothing in it is run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from coldness.files import BadFile
from coldness.report.figures import Array, Mark
from coldness.report.image_grids import Moments, read_moments
from coldness.report.panels import Densities, read_densities
from coldness.runs.events import Event, read_events
from coldness.runs.log import read_metrics
from coldness.training.health import metrics_of
from coldness.trust import Verdict, verdict_on

COMMAND = "# command:"

BROKEN = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)
"""What reading a file may raise that is truncated or not of coldness."""


@dataclass(frozen=True)
class Run:
    """What a run folder holds that a report needs."""

    name: str
    config: str
    columns: dict[str, Array]
    metrics: dict[str, float]
    densities: Densities
    events: Sequence[Event] = field(default=())
    moments: Moments | None = None

    @property
    def command(self) -> str:
        lines = [x for x in self.config.splitlines() if x.startswith(COMMAND)]
        return lines[0].removeprefix(COMMAND).strip() if lines else ""

    @cached_property
    def settings(self) -> dict[str, str]:
        return {str(k): compact(v) for k, v in (yaml.safe_load(self.config) or {}).items()}

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of classes, where the settings of the data say them."""
        data = (yaml.safe_load(self.config) or {}).get("data")
        given = data.get("init_args") if isinstance(data, dict) else None
        found = given.get("classes") if isinstance(given, dict) else None
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def marks(self) -> list[Mark]:
        """Events of the guard, for curves."""
        return [(event.iteration, event.event) for event in self.events]

    @cached_property
    def verdict(self) -> Verdict:
        return verdict_on(self.metrics)


def read_run(folder: Path, name: str) -> Run:
    """Everything in a run folder that the report shows; nothing in it is run."""
    for file in ("config.yaml", "metrics.csv"):
        if not (folder / file).is_file():
            raise BadFile(f"{folder} is no run: it has no {file}; make one with `coldness train`")
    for file in ("metrics.json", "evaluation.npz"):
        if not (folder / file).is_file():
            raise BadFile(f"{folder} has no {file}; run `coldness evaluate {folder}` first")
    path = folder / "config.yaml"
    try:
        config = path.read_text()
        if not isinstance(yaml.safe_load(config), dict | None):
            raise BadFile(f"{path} holds no settings; it should be a mapping")
        path = folder / "metrics.csv"
        columns = {k: np.array(v, dtype=np.float64) for k, v in read_metrics(path).items()}
        path = folder / "metrics.json"
        metrics = _numbers(json.loads(path.read_text()))
        path = folder / "evaluation.npz"
        densities = read_densities(path)
        path = folder / "grids.npz"
        moments = read_moments(folder) if densities.of_images else None
        events = read_events(folder / "events.jsonl")
    except BadFile:
        raise
    except (*BROKEN, yaml.YAMLError) as error:
        trained = ("config.yaml", "metrics.csv", "grids.npz")
        again = "train" if path.name in trained else f"evaluate {folder}"
        raise BadFile(
            f"{path} is truncated or not of coldness; write it anew with `coldness {again}`"
        ) from error
    metrics |= metrics_of(columns, events)
    return Run(name, config, columns, metrics, densities, events, moments)


def _numbers(metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, dict):
        raise ValueError("metrics are no dictionary")
    return {key: float(value) for key, value in metrics.items() if value is not None}


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
