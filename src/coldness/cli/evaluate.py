"""coldness evaluate RUN: judge a trained model, and write metrics.json and the report again.

Prints what the model can be trusted with, and the log-likelihood of test points as a bracket
from annealed importance sampling; where that is loose it says so, and --ais-levels tightens it.

--trust prints a table instead: does it generate from noise, do long chains keep the quality, is
its density right, does it detect out-of-distribution points, was training healthy. If
metrics.json has all that, and no other option asks for a new evaluation, it is printed from there
at once and nothing is written; else the model is evaluated first.

--ood FILE... tells data from your own points too: .npy, .npz, .csv or .txt, one point a row in the
data's units, by the file's name in the table; for images, folders, .npz files and names, such as
svhn, brought to the size of the data. They count in the answer; the next evaluation without --ood
forgets them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from coldness.chains import Bank
from coldness.cli.console import output, stages
from coldness.cli.tables import as_data, trust_table
from coldness.cli.train import print_verdict
from coldness.cli.words import allow_imports_option
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import bank_metrics
from coldness.evaluation.ood import read_sets
from coldness.evaluation.training_health import training_metrics
from coldness.likelihood.ais import AIS
from coldness.metrics import set_names
from coldness.report import write_report
from coldness.runs.files import BadFile, load_checkpoint
from coldness.runs.folder import FolderError, RunFolder, as_json
from coldness.training.settings import Settings
from coldness.trust import verdict_on

CHANGES = ("samples", "long_steps", "ais_levels", "ais_chains", "ood")
"""Options that ask for a new evaluation."""


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="coldness evaluate", description=__doc__, exit_on_error=False)
    parser.add_argument("run", help="folder of a trained run")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.add_argument("--trust", action="store_true", help="print five plain answers as a table")
    parser.add_argument(
        "--ood",
        nargs="+",
        type=str,
        default=None,
        metavar="FILE",
        help="out-of-distribution points",
    )
    parser.add_argument("--samples", type=int, default=None, help="number of chains")
    parser.add_argument("--long-steps", type=int, default=None, help="length of long-run chains")
    parser.add_argument(
        "--ais-levels", type=int, default=None, help="levels of the path to log Z: more are tighter"
    )
    parser.add_argument("--ais-chains", type=int, default=None, help="chains each way for log Z")
    allow_imports_option(parser)
    return parser


def main(words: list[str]) -> int:
    given = parser().parse_args(words or ["--help"])
    folder = RunFolder(Path(given.run))
    if not folder.holds_run():
        raise FolderError(f"{folder.path} holds no run of coldness")
    wanted = any(given[name] is not None for name in CHANGES)
    metrics = {} if wanted or not given.trust else _measured(folder)
    printed_only = bool(metrics)
    if not printed_only:
        metrics = _evaluate(folder, given)
    if given.trust:
        verdict = verdict_on(metrics)
        if given.json:
            output.print_json(json.dumps(as_data(verdict)))
            return 0
        output.print(trust_table(verdict), soft_wrap=False)
        output.print(f"[bold]{verdict.summary}[/]")
    elif given.json:
        output.print_json(json.dumps(as_json(metrics)))
        return 0
    else:
        print_verdict(metrics)
    if not printed_only:
        output.print(f"report: {folder.report}")
    return 0


def _measured(folder: RunFolder) -> dict[str, Any]:
    """Metrics that are there, with those of training as its files are now; none if any lack."""
    try:
        metrics = folder.metrics()
    except BadFile:
        return {}
    return {**metrics, **training_metrics(folder.path)} if set_names(metrics) else {}


def _evaluate(folder: RunFolder, given: Namespace) -> dict[str, Any]:
    """Judges the model anew, and writes what came of it."""
    settings = folder.load(given.allow_imports)
    _change(settings, given)
    others = read_sets(given.ood or (), settings.data)
    of_training = training_metrics(folder.path)
    settings.use_threads()
    with stages("evaluate") as stage:
        banks = _banks(folder, settings)
        metrics, arrays = evaluate(settings, stage, others, banks)
        metrics |= {**of_training, **(bank_metrics(settings, banks) if banks else {})}
        try:
            before = folder.metrics()
            metrics.update({k: before[k] for k in ("seconds", "iterations") if k in before})
        except BadFile:
            metrics["iterations"] = settings.iterations
        folder.save_evaluation(metrics, arrays)
        stage("report")
        write_report([folder.path], folder.report)
    return metrics


def _banks(folder: RunFolder, settings: Settings) -> list[dict[str, Any]]:
    """States of persistent chains, which are in the checkpoint as long as that is kept."""
    if not any(isinstance(source.start, Bank) for source in settings.sources):
        return []
    if not folder.checkpoint.is_file():
        return []
    sources: list[dict[str, Any]] = load_checkpoint(folder.checkpoint)["sources"]
    return sources


def _change(settings: Settings, given: Namespace) -> None:
    """What options ask of the evaluation."""
    how = settings.evaluation
    if given.samples is not None:
        how.samples = given.samples
    if given.long_steps is not None:
        how.long_steps = given.long_steps
    if given.ais_levels is not None or given.ais_chains is not None:
        ais = how.ais or AIS()
        how.ais = replace(
            ais,
            levels=ais.levels if given.ais_levels is None else given.ais_levels,
            chains=ais.chains if given.ais_chains is None else given.ais_chains,
        )
    how.__post_init__()
