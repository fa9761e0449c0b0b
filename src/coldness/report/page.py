"""The report: one self-contained page about one or several runs.

Verdict first, then panels {truth, model, short-run samples, long-run samples} x {density, log
density}, chains, training curves, all figures, settings and commands. Pictures are embedded, there
is no script, and the page forbids itself the network. Whatever comes from files is escaped.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from coldness.report import chains, figures, line
from coldness.report.figures import Array
from coldness.report.loss_noise import with_noise
from coldness.report.panels import Densities, Ends, Panel, read_densities
from coldness.report.verdict import THRESHOLDS, Verdict, judge, number
from coldness.training.checkpoint import BadFile, write_atomically
from coldness.training.log import read_metrics

COMMAND = "# command:"

BROKEN = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)
"""What reading a file may raise that is truncated or not of coldness."""

LABELS = {
    "kl": "KL(data || model), nats",
    "kl_low": "KL(data || model), lower end of its bracket",
    "kl_high": "KL(data || model), upper end of its bracket",
    "reverse_kl": "KL(model || data), nats",
    "tv": "Total variation",
    "slice_kl": "KL(data || model) on the slice, nats",
    "slice_tv": "Total variation on the slice",
    "kl_gaussian": "KL(data || Gaussian of the same moments), nats",
    "log_likelihood_test": "Log-likelihood of held-out or fresh points, nats a point",
    "log_likelihood_low": "Log-likelihood, lower end of its bracket",
    "log_likelihood_high": "Log-likelihood, upper end of its bracket",
    "log_likelihood_train": "Log-likelihood of training points",
    "log_likelihood_gaussian": "Log-likelihood of held-out points, Gaussian",
    "log_likelihood_kde": "Log-likelihood of held-out points, kernel estimate",
    "mass_outside": "Model's mass outside the data's box",
    "log_z": "log Z",
    "log_z_low": "log Z, lower end of its bracket",
    "log_z_high": "log Z, upper end of its bracket",
    "log_z_ess_forward": "Effective share of chains from the Gaussian (AIS forward)",
    "log_z_ess_reverse": "Effective share of chains from data (AIS in reverse)",
    "log_z_failed": "AIS met numbers that are not finite",
    "log_z_error": "Change of log Z on a grid of half as many points a side",
    "energy_distance_short": "Energy distance, short-run samples",
    "energy_distance_long": "Energy distance, long-run samples",
    "energy_distance_data": "Energy distance, chains from data",
    "energy_distance_mala": "Energy distance, chains with the Metropolis test",
    "neighbours_short": "Nearest neighbours of their own kind, short-run samples",
    "neighbours_long": "Nearest neighbours of their own kind, long-run samples",
    "neighbours_data": "Nearest neighbours of their own kind, chains from data",
    "neighbours_mala": "Nearest neighbours of their own kind, chains with the Metropolis test",
    "energy_distance_floor": "Energy distance, two samples of the data (floor)",
    "lost_chains_short": "Short-run chains lost to numbers that are not finite",
    "lost_chains_long": "Long-run chains lost to numbers that are not finite",
    "lost_chains_data": "Chains from data lost to numbers that are not finite",
    "lost_chains_mala": "Chains with the Metropolis test lost",
    "u_shift": "Mean U of long-run chains less that of data, in the data's standard deviations",
    "u_drift": "Change of their median U over the second half, in the same",
    "acceptance": "Acceptance of the training's step under a Metropolis test",
    "mala_acceptance": "Acceptance of chains with the Metropolis test",
    "mala_step": "Their step, adapted",
    "entropy": "Entropy of the data, nats",
    "coldness": "Coldness",
    "samples": "Samples compared",
    "short_steps": "Steps of short-run chains",
    "long_steps": "Steps of long-run chains",
    "data_steps": "Steps of chains from data",
    "iterations": "Iterations",
    "seconds": "Seconds of training",
}


@dataclass(frozen=True)
class Run:
    """What a run folder holds that a report needs."""

    name: str
    config: str
    columns: dict[str, Array]
    metrics: dict[str, float]
    densities: Densities

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
        densities = read_densities(path)
    except BadFile:
        raise
    except (*BROKEN, yaml.YAMLError) as error:
        again = "train" if path.suffix in (".yaml", ".csv") else f"evaluate {folder}"
        raise BadFile(
            f"{path} is truncated or not of coldness; write it anew with `coldness {again}`"
        ) from error
    return Run(name, config, columns, metrics, densities)


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


def environment() -> Environment:
    """Of the templates: whatever they are given is escaped, and has to be there."""
    environment = Environment(
        loader=PackageLoader("coldness.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment


def render(runs: Sequence[Run]) -> str:
    """The page of loaded runs."""
    columns = [with_noise(run.columns) for run in runs]
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    template = environment().get_template("report.html.j2")
    return template.render(
        runs=runs,
        thresholds=THRESHOLDS,
        groups=_groups(runs),
        lines=[
            (run.name, line.pictures(run.densities.arrays))
            for run in runs
            if run.densities.dimension == 1
        ],
        chains=[
            (run.name, drawn)
            for run in runs
            if (drawn := chains.pictures(run.densities.arrays, run.metrics))
        ],
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
    for run in (run for run in runs if run.densities.dimension >= 2):
        for group in groups:
            if group[0].densities.same_truth(run.densities):
                group.append(run)
                break
        else:
            groups.append([run])
    return [_pictures(group) for group in groups]


def _pictures(group: Sequence[Run]) -> dict[str, Any]:
    first = group[0].densities

    def picture(panel: Panel, of: Ends = first.ends) -> dict[str, str]:
        drawn = {kind: figures.panel(panel.values(kind), *ends) for kind, ends in of.items()}
        return {"name": panel.name, "note": panel.note, **drawn}

    def of_run(x: Densities) -> dict[str, Any]:
        panels = [panel for panel in (x.model, x.short, x.long) if panel is not None]
        sliced = picture(x.slice_model, first.slice_ends) if x.has_slices else None
        return {"panels": [picture(panel) for panel in panels], "slice": sliced}

    sliced = first.has_slices
    return {
        "box": first.box,
        "dimension": first.dimension,
        "by_kernels": first.by_kernels,
        "ends": first.ends,
        "truth": picture(first.truth),
        "slice_ends": first.slice_ends if sliced else None,
        "slice_truth": picture(first.slice_truth, first.slice_ends) if sliced else None,
        "runs": [(run.name, of_run(run.densities)) for run in group],
    }
