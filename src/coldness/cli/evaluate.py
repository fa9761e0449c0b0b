"""Evaluate a trained model again, and write metrics.json and the report anew.

Prints what the model can be trusted with, and the log-likelihood of test points as a bracket from
annealed importance sampling; where the bracket is loose, more --ais-levels tighten it.

--trust prints a table of five questions instead: does it generate from noise, do long chains keep
their quality, is its density right, does it detect out-of-distribution data, was training healthy.
If metrics.json has all that and no other option asks for a new evaluation, the table is printed
from there and nothing is written.

examples:
  coldness evaluate runs/mixture2d-0
  coldness evaluate runs/mixture2d-0 --trust
  coldness evaluate runs/mixture2d-0 --ais-levels 5000 --ood mine.npy

--ood FILE... adds your own out-of-distribution sets: .npy, .npz, .csv or .txt files with one point
per row in the data's units; for images, folders, .npz files or names such as svhn, resized to the
data's size. They count in the answer; the next evaluation without --ood drops them.
"""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from coldness.chains import Bank
from coldness.cli.console import output, stages
from coldness.cli.options import NAME_A_RUN, CommandParser, allow_imports_option
from coldness.cli.tables import as_data, trust_table
from coldness.cli.train import print_verdict
from coldness.evaluation import evaluate
from coldness.evaluation.bank_checks import bank_metrics
from coldness.evaluation.ood import read_sets
from coldness.likelihood.ais import AIS
from coldness.report import write_report
from coldness.runs.files import BadFile, load_checkpoint
from coldness.runs.folder import FolderError, RunFolder, as_json
from coldness.training.settings import Settings
from coldness.trust.ood_answer import set_names
from coldness.trust.training_answer import training_metrics
from coldness.trust.verdict import judge

CHANGES = ("samples", "long_steps", "ais_levels", "ais_chains", "ood")
"""Options that ask for a new evaluation."""


def parser() -> CommandParser:
    usage = "RUN [--trust] [--json] [--ood FILE ...] [--samples N] [--ais-levels N] ..."
    parser = CommandParser("evaluate", __doc__, usage, NAME_A_RUN)
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder of a trained run")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.add_argument("--trust", action="store_true", help="print five plain answers as a table")
    parser.add_argument(
        "--ood", nargs="+", metavar="FILE", help="out-of-distribution sets of your own"
    )
    parser.add_argument("--samples", type=int, metavar="N", help="number of chains")
    parser.add_argument("--long-steps", type=int, metavar="N", help="length of long-run chains")
    parser.add_argument(
        "--ais-levels", type=int, metavar="N", help="levels of the path to log Z; more are tighter"
    )
    parser.add_argument(
        "--ais-chains", type=int, metavar="N", help="chains in each direction for log Z"
    )
    allow_imports_option(parser)
    return parser


def main(words: list[str]) -> int:
    given = parser().read(words)
    folder = RunFolder(Path(given.run))
    if not folder.holds_run():
        raise FolderError(f"{folder.path} holds no run of coldness")
    wanted = any(getattr(given, name) is not None for name in CHANGES)
    metrics = {} if wanted or not given.trust else _measured(folder)
    printed_only = bool(metrics)
    if not printed_only:
        metrics = _evaluate(folder, given)
    if given.trust:
        verdict = judge(metrics)
        if given.json:
            output.print_json(json.dumps(as_data(verdict)))
            return 0
        output.print(trust_table(verdict), soft_wrap=False)
        output.print(verdict.summary, style="bold", markup=False)
    elif given.json:
        output.print_json(json.dumps(as_json(metrics)))
        return 0
    else:
        print_verdict(metrics)
    if not printed_only:
        output.print(f"report: {folder.report}", markup=False)
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
