"""coldness evaluate RUN: judge a trained model, and write metrics.json and the report again.

Prints what the model can be trusted with, and the log-likelihood of test points as a bracket
from annealed importance sampling; where that is loose it says so, and --ais-levels tightens it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from jsonargparse import ArgumentParser

from coldness.cli.console import output, stages
from coldness.cli.train import print_verdict
from coldness.cli.words import allow_imports_option
from coldness.evaluation import evaluate
from coldness.evaluation.ais import AIS
from coldness.report import write_report
from coldness.training.checkpoint import BadFile
from coldness.training.folder import RunFolder, as_json


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog="coldness evaluate", description=__doc__, exit_on_error=False)
    parser.add_argument("run", help="folder of a trained run")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
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
    settings = folder.load(given.allow_imports)
    if given.samples is not None:
        settings.evaluation.samples = given.samples
    if given.long_steps is not None:
        settings.evaluation.long_steps = given.long_steps
    if given.ais_levels is not None or given.ais_chains is not None:
        ais = settings.evaluation.ais or AIS()
        settings.evaluation.ais = replace(
            ais,
            levels=ais.levels if given.ais_levels is None else given.ais_levels,
            chains=ais.chains if given.ais_chains is None else given.ais_chains,
        )
    settings.evaluation.__post_init__()
    settings.use_threads()
    with stages("evaluate") as stage:
        figures, arrays = evaluate(settings, stage)
        try:
            before = folder.metrics()
            figures.update({k: before[k] for k in ("seconds", "iterations") if k in before})
        except BadFile:
            figures["iterations"] = settings.iterations
        folder.save_evaluation(figures, arrays)
        stage("report")
        write_report([folder.path], folder.report)
    if given.json:
        output.print_json(json.dumps(as_json(figures)))
    else:
        print_verdict(figures)
        output.print(f"report: {folder.report}")
    return 0
