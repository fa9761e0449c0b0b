"""The report: one self-contained page about one or several runs.

Verdict first, then panels {truth, model, short-run samples, long-run samples} x {density, log
density}, training curves, all figures, settings and commands. Pictures are embedded, there is no
script, and the page forbids itself the network. Whatever comes from files is escaped.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from coldness.report import figures
from coldness.report.figures import Array
from coldness.report.verdict import THRESHOLDS, Verdict, judge, number
from coldness.training.checkpoint import BadFile, write_atomically
from coldness.training.log import read_metrics

COMMAND = "# command:"

LABELS = {
    "kl": "KL(data || model), nats",
    "reverse_kl": "KL(model || data), nats",
    "tv": "Total variation",
    "mass_outside": "Model's mass outside the data's box",
    "log_z": "log Z",
    "energy_distance_short": "Energy distance, short-run samples",
    "energy_distance_long": "Energy distance, long-run samples",
    "energy_distance_floor": "Energy distance, two samples of the data (floor)",
    "entropy": "Entropy of the data, nats",
    "coldness": "Coldness",
    "samples": "Samples compared",
    "short_steps": "Steps of short-run chains",
    "long_steps": "Steps of long-run chains",
    "iterations": "Iterations",
    "seconds": "Seconds of training",
}


@dataclass(frozen=True)
class Panel:
    """A picture [x, y], what it shows, and what to say below it."""

    name: str
    density: Array
    log_density: Array
    note: str = ""


@dataclass(frozen=True)
class Run:
    """What a run folder holds that a report needs."""

    name: str
    config: str
    columns: dict[str, Array]
    metrics: dict[str, float]
    arrays: dict[str, Array]

    @property
    def command(self) -> str:
        lines = [x for x in self.config.splitlines() if x.startswith(COMMAND)]
        return lines[0].removeprefix(COMMAND).strip() if lines else ""

    @cached_property
    def settings(self) -> dict[str, str]:
        return {str(k): compact(v) for k, v in (yaml.safe_load(self.config) or {}).items()}

    @cached_property
    def verdict(self) -> Verdict:
        return judge(self.metrics)

    @property
    def box(self) -> float:
        return float(self.arrays["box"])

    @property
    def dimension(self) -> int:
        return self.arrays["x_data"].shape[1]

    @cached_property
    def truth(self) -> Panel:
        """The density where it is known, else that of the data."""
        if "log_p_data" in self.arrays:
            return self._grid("Truth", "log_p_data")
        return self._samples("Data", "x_data")

    @cached_property
    def panels(self) -> list[Panel]:
        model = [self._grid("Model", "log_p_model")] if "log_p_model" in self.arrays else []
        short = self._samples("Short-run samples", "x_short")
        return [*model, short, self._samples("Long-run samples", "x_long")]

    def _grid(self, name: str, key: str) -> Panel:
        log_p = figures.crop(self.arrays["side"], self.arrays[key], self.box)
        return Panel(name, np.exp(log_p), figures.log_density(np.exp(log_p)))

    def _samples(self, name: str, key: str) -> Panel:
        x = self.arrays[key]
        estimate = figures.sample_density if self.dimension == 2 else figures.histogram
        density = estimate(x, self.box)
        outside = 1 - float((np.abs(x[:, :2]) <= self.box).all(1).mean())
        note = f"{outside:.1%} lie outside the panel" if outside >= 0.001 else ""
        return Panel(name, density, figures.log_density(density), note)


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Writes the report on run folders, side by side, to the file `out`.

    Raises:
        BadFile: a folder lacks a file that the report needs, or holds a broken one.
    """
    if not runs:
        raise ValueError("a report needs at least one run")
    if out.is_dir():
        raise BadFile(f"{out} is a folder; name a file, such as {out / 'report.html'}")
    names = [Path(run).resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    loaded = [read_run(Path(run), name) for run, name in zip(runs, names, strict=True)]
    page = render(loaded)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda file: file.write(page.encode()))
    return out


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
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key].astype(np.float64) for key in file.files}
        arrays.setdefault("box", np.abs(arrays["x_data"]).max())  # where the law is not known
        _check(arrays)
    except BadFile:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, yaml.YAMLError) as error:
        again = "train" if path.suffix in (".yaml", ".csv") else f"evaluate {folder}"
        raise BadFile(
            f"{path} is truncated or not of coldness; write it anew with `coldness {again}`"
        ) from error
    return Run(name, config, columns, metrics, arrays)


def _numbers(metrics: Any) -> dict[str, float]:
    if not isinstance(metrics, dict):
        raise ValueError("metrics are no dictionary")
    return {key: float(value) for key, value in metrics.items() if value is not None}


def _check(arrays: Mapping[str, Array]) -> None:
    for key in ("x_data", "x_short", "x_long"):
        if arrays[key].ndim != 2 or not len(arrays[key]):
            raise ValueError(f"{key} is not (n, D)")
    for key in {"log_p_data", "log_p_model"} & set(arrays):
        if arrays[key].shape != 2 * arrays["side"].shape:
            raise ValueError(f"{key} is not (G, G)")
    if not float(arrays["box"]) > 0:
        raise ValueError("box is not > 0")


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


def render(runs: Sequence[Run]) -> str:
    """The page of loaded runs."""
    environment = Environment(
        loader=PackageLoader("coldness.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    columns = [run.columns for run in runs]
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    return environment.get_template("report.html.j2").render(
        runs=runs,
        thresholds=THRESHOLDS,
        groups=_groups(runs),
        colour_scale=figures.colour_scale(),
        curves=[
            (c.title, c.caption, c.render(columns, figures.LIGHT), c.render(columns, figures.DARK))
            for c in figures.curves(columns)
        ],
        light=figures.LIGHT.runs,
        dark=figures.DARK.runs,
        rows=_rows(runs),
        settings=[(key, [run.settings.get(key, "") for run in runs]) for key in keys],
    )


def _rows(runs: Sequence[Run]) -> list[tuple[str, list[float | None]]]:
    """Figures that any run has: those with a label first, in its order."""
    there = dict.fromkeys(key for run in runs for key in run.metrics)
    keys = [k for k in LABELS if k in there] + [k for k in there if k not in LABELS]
    return [(LABELS.get(key, key), [run.metrics.get(key) for run in runs]) for key in keys]


def _groups(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Pictures of runs that share their truth, with one colour scale a row: that of the truth."""
    groups: list[list[Run]] = []
    for run in (run for run in runs if run.dimension >= 2):
        for group in groups:
            if _same_truth(group[0], run):
                group.append(run)
                break
        else:
            groups.append([run])
    return [_pictures(group) for group in groups]


def _pictures(group: Sequence[Run]) -> dict[str, Any]:
    first = group[0]
    high = float(first.truth.density.max()) or 1.0
    high_log = float(np.log(high))
    low_log = high_log - figures.LOG_RANGE
    if first.dimension > 2:  # a histogram: just below a bin with one sample in it
        low_log = float(np.log(first.truth.density[first.truth.density > 0].min(initial=high))) - 1

    def picture(panel: Panel) -> dict[str, str]:
        return {
            "name": panel.name,
            "note": panel.note,
            "density": figures.panel(panel.density, 0.0, high),
            "log density": figures.panel(panel.log_density, low_log, high_log),
        }

    return {
        "box": first.box,
        "dimension": first.dimension,
        "ends": {"density": (0.0, high), "log density": (low_log, high_log)},
        "truth": picture(first.truth),
        "runs": [(run.name, [picture(p) for p in run.panels]) for run in group],
    }


def _same_truth(a: Run, b: Run) -> bool:
    if a.box != b.box or a.dimension != b.dimension:
        return False
    key = "log_p_data" if "log_p_data" in a.arrays else "x_data"
    return key in b.arrays and np.array_equal(a.arrays[key], b.arrays[key])
