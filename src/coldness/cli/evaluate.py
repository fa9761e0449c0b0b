"""Judge a trained model again, and write metrics.json and the report.

examples:
  coldness evaluate runs/mixture2d-0 --trust
  coldness evaluate runs/mine --ais-levels 2000
  coldness evaluate runs/mine --data test.npy --ood other.csv

Prints what the model can be trusted with, and the log-likelihood of test points as a bracket from
annealed importance sampling; where that is loose it says so, and --ais-levels tightens it.

--trust prints a table instead: does it generate from noise, do long chains keep the quality, is
its density right, does it detect out-of-distribution points, was training healthy. If metrics.json
has all that, and no other option asks for a new evaluation, it is printed from there at once and
nothing is written; otherwise the model is evaluated first.

The model is compared with the data of its recipe. Where that is gone, or you want another test
set, --data FILE names test points in the data's units (.npy, .npz, .csv or .txt; for images a
folder or an .npz file).

--ood FILE... names out-of-distribution points of your own: files as for --data, one point per row,
by the file's name in the table; for images, folders, .npz files and names, such as svhn, resized to
the data. They count in the answer; the next evaluation without --ood forgets them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from coldness.cli.console import output
from coldness.cli.options import NAME_A_RUN, CommandParser
from coldness.cli.tables import as_data, print_verdict, trust_table
from coldness.data import Data, read_rows, test_data
from coldness.data.image_files import read_images
from coldness.evaluation.bank_checks import Banks, banks_of
from coldness.evaluation.ood import read_sets
from coldness.files import BadFile
from coldness.likelihood.ais import AIS
from coldness.machine import threads
from coldness.metrics import set_names
from coldness.model import Model
from coldness.progress import stages
from coldness.report import write_report
from coldness.runs.checkpoints import newest
from coldness.runs.folder import FolderError, RunFolder, as_json
from coldness.tensor_files import MISFITS, misfit
from coldness.training.health import training_metrics
from coldness.training.recipe import Recipe, RecipeError
from coldness.training.settings import Evaluation, Settings
from coldness.trust.judgement import judge
from coldness.trust.verdict import verdict_on

CHANGES = ("data", "samples", "long_steps", "ais_levels", "ais_chains", "ood")
"""Options that ask for a new evaluation."""


def parser() -> CommandParser:
    usage = "RUN [--trust] [--data FILE]"
    parser = CommandParser("evaluate", __doc__, usage, NAME_A_RUN, allow_imports=True)
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder of a trained run")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.add_argument("--trust", action="store_true", help="print the five answers as a table")
    parser.add_argument("--data", default=None, metavar="FILE", help="test points to judge by")
    parser.add_argument(
        "--ood", nargs="+", default=None, metavar="FILE", help="out-of-distribution points"
    )
    parser.add_argument("--samples", type=int, default=None, help="number of chains")
    parser.add_argument("--long-steps", type=int, default=None, help="length of long-run chains")
    parser.add_argument(
        "--ais-levels", type=int, default=None, help="levels of the path to log Z: more are tighter"
    )
    parser.add_argument("--ais-chains", type=int, default=None, help="chains each way for log Z")
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
    verdict = verdict_on(metrics)
    if given.json:
        output.print_json(json.dumps(as_data(verdict) if given.trust else as_json(metrics)))
        return 0
    if given.trust:
        output.print(trust_table(verdict), soft_wrap=False)
        output.print(f"[bold]{verdict.summary}[/]")
    else:
        print_verdict(verdict, metrics)
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


def _evaluate(folder: RunFolder, given: argparse.Namespace) -> dict[str, Any]:
    """Judges the model anew, and writes what came of it."""
    model = folder.load(given.allow_imports)
    data, settings = _data(folder, model, given)
    how = _how(settings, given)
    if given.ais_levels is not None or given.ais_chains is not None:
        model.z = None
    others = read_sets(given.ood or (), data)
    of_training = {**model.training, **training_metrics(folder.path)}
    count = 1 if settings is None else settings.threads
    with stages("evaluate") as stage, threads(count):
        judgement = judge(
            model, data, seed=how.seed, evaluation=how, others=others,
            banks=_banks(folder, settings, model), training=of_training, on_stage=stage,
        )  # fmt: skip
        folder.save_evaluation(judgement.metrics, judgement.arrays)
        folder.save_model(model)
        stage("report")
        write_report([folder.path], folder.report)
    return judgement.metrics


def _data(
    folder: RunFolder, model: Model, given: argparse.Namespace
) -> tuple[Data, Settings | None]:
    """What the model is judged by, and the run's parts where its own data is there."""
    if given.data is not None:
        domain = model.domain
        if domain.is_images:
            size = domain.shape[1] if domain.shape[1] == domain.shape[2] else None
            return test_data(read_images(given.data, size), domain), None
        return test_data(read_rows(given.data, domain), domain), None
    if folder.given_data():
        raise FolderError(
            f"{folder.path} was trained on data given in Python: evaluating needs --data FILE with "
            "test points"
        )
    try:
        settings = Recipe.read(folder.config, allow_imports=given.allow_imports).parts()
    except RecipeError as error:
        raise RecipeError(
            f"{error}; evaluating needs the data of the run, or --data FILE with test points"
        ) from error
    return settings.data, settings


def _banks(folder: RunFolder, settings: Settings | None, model: Model) -> Banks:
    """Persistent chains, which are in the checkpoint as long as that is kept."""
    if settings is None or not any(source.start.has_state for source in settings.sources):
        return {}
    found = newest(folder.checkpoints)
    if found is None:
        return {}
    for source in settings.sources:
        source.start.bind(model.energy)
    path, state = found
    try:
        banks = banks_of(settings.sources, state["sources"])
        for start, saved in banks.values():
            slots = start.slots(saved)
            if slots is not None and slots[0].shape[1:] != model.domain.shape:
                raise ValueError(f"chains of shape {tuple(slots[0].shape)}")
    except MISFITS as error:
        raise misfit(f"{path} does not fit the bank of this run", error) from error
    return banks


def _how(settings: Settings | None, given: argparse.Namespace) -> Evaluation:
    """What options ask of the evaluation."""
    how = Evaluation() if settings is None else settings.evaluation
    if given.samples is not None:
        how = replace(how, samples=given.samples)
    if given.long_steps is not None:
        how = replace(how, long_steps=given.long_steps)
    if given.ais_levels is not None or given.ais_chains is not None:
        ais = how.ais or AIS()
        levels = ais.levels if given.ais_levels is None else given.ais_levels
        chains = ais.chains if given.ais_chains is None else given.ais_chains
        how = replace(how, ais=replace(ais, levels=levels, chains=chains))
    return how
