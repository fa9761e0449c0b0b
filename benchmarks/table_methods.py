"""Contenders of benchmarks/tables.py: each is fitted to rows and scores others, higher for likely.

A contender takes rows to train on (N, D), standardised, rows to test on (M, D) and a seed, and
returns scores (M,), which are log-densities for those of DENSITIES, and a note on what was chosen.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity, LocalOutlierFactor, NearestNeighbors

import coldness
from coldness.estimators import EnergyDensity, EnergyDetector
from coldness.training.table_rules import decide

Rows = NDArray[np.float64]
Scored = tuple[Rows, str]
Contender = Callable[[Rows, Rows, int], Scored]

COMPONENTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30)
BANDWIDTHS = np.geomspace(0.05, 2, 20)
FLOW_VALIDATION, FLOW_BATCH, FLOW_EPOCHS, FLOW_PATIENCE = 0.15, 128, 400, 25


def ours(estimator: type[EnergyDensity | EnergyDetector]) -> Contender:
    """An estimator with its default settings."""

    def scored(train: Rows, test: Rows, seed: int) -> Scored:
        fitted = estimator(random_state=seed).fit(train)
        notes = []
        for model in fitted.models_:
            assert model.log_z is not None
            loose = "" if model.log_z.tight else ", loose"
            kept = model.training.get("kept_iteration", model.training["iterations"])
            notes.append(
                f"iteration {kept:.0f} of {model.training['iterations']:.0f}, log Z within "
                f"{model.log_z.width:.2f}{loose}, rollbacks {model.training['guard_rollbacks']:.0f}"
            )
        return fitted.score_samples(test), "; ".join(notes)

    return scored


def reference(purpose: Literal["density", "detection"]) -> Contender:
    """The fitted reference of the recipe `table` alone, on all rows: what the network adds to."""

    def scored(train: Rows, test: Rows, seed: int) -> Scored:
        given = decide(len(train), train.shape[1], purpose=purpose).changes["energy.reference"][
            "init_args"
        ]
        q = coldness.energies.FittedMixture(**given)
        q.fit(torch.from_numpy(train), seed)
        note = f"{len(q.means)} groups, bandwidth {float(q.bandwidth):g}"
        return -q(torch.from_numpy(test)).numpy(), note

    return scored


def neighbours(k: int) -> Contender:
    """Minus the distance to the k-th nearest neighbour."""

    def scored(train: Rows, test: Rows, seed: int) -> Scored:
        found = NearestNeighbors(n_neighbors=k).fit(train).kneighbors(test)[0]
        return -found[:, -1], ""

    return scored


def lof(train: Rows, test: Rows, seed: int) -> Scored:
    return LocalOutlierFactor(novelty=True).fit(train).score_samples(test), ""


def forest(train: Rows, test: Rows, seed: int) -> Scored:
    return IsolationForest(random_state=seed).fit(train).score_samples(test), ""


def pyod_detector(name: str) -> Contender:
    """ECOD or COPOD."""

    def scored(train: Rows, test: Rows, seed: int) -> Scored:
        from importlib import import_module

        module: Any = import_module(f"pyod.models.{name.lower()}")
        return -getattr(module, name)().fit(train).decision_function(test), ""

    return scored


def mixture(train: Rows, test: Rows, seed: int) -> Scored:
    """scikit-learn's mixture of full covariances, whose number of components is chosen by BIC.

    With diagonal ones among the choices, BIC takes them on small tables, and AUROC falls.
    """
    found = [
        GaussianMixture(k, random_state=seed).fit(train) for k in COMPONENTS if k <= len(train) // 2
    ]
    best = min(found, key=lambda m: m.bic(train))
    return best.score_samples(test), f"{best.n_components} components"


def mixture_held_out(train: Rows, test: Rows, seed: int) -> Scored:
    """scikit-learn's mixture, with components and ridge chosen on a fifth of the rows."""
    order = np.random.default_rng(seed).permutation(len(train))
    held, rest = np.split(train[order], [len(train) // 5])
    choices = [(k, r) for k in COMPONENTS if k <= len(rest) // 2 for r in (1e-6, 1e-4, 1e-3, 1e-2)]
    components, ridge = max(choices, key=lambda c: _mixture(c, seed).fit(rest).score(held))
    found = _mixture((components, ridge), seed).fit(train)
    return found.score_samples(test), f"{components} components, ridge {ridge:g}"


def _mixture(choice: tuple[int, float], seed: int) -> GaussianMixture:
    components, ridge = choice
    return GaussianMixture(components, reg_covar=ridge, random_state=seed)


def kernels(train: Rows, test: Rows, seed: int) -> Scored:
    """A Gaussian kernel estimate, its bandwidth by five-fold cross-validation."""
    few = train[np.random.default_rng(seed).permutation(len(train))[:2000]]
    search = GridSearchCV(KernelDensity(), {"bandwidth": BANDWIDTHS}, cv=5).fit(few)
    chosen = search.best_params_["bandwidth"]
    squares = (test**2).sum(1)[:, None] + (train**2).sum(1) - 2 * test @ train.T
    constant = train.shape[1] * math.log(chosen * math.sqrt(2 * math.pi)) + math.log(len(train))
    return logsumexp(-squares / (2 * chosen**2), axis=1) - constant, f"bandwidth {chosen:.2g}"


def spline_flow(train: Rows, test: Rows, seed: int) -> Scored:
    """zuko's neural spline flow, stopped on a validation part."""
    import zuko

    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(train), generator=generator)
    rows = torch.from_numpy(train).float()[order]
    held = round(FLOW_VALIDATION * len(rows))
    validation, rows = rows[:held], rows[held:]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        flow = zuko.flows.NSF(train.shape[1], transforms=3, hidden_features=(64, 64))
    optimiser = torch.optim.AdamW(flow.parameters(), lr=1e-3, weight_decay=1e-3)
    best, since, kept, epoch = -math.inf, 0, copy.deepcopy(flow.state_dict()), 0
    for epoch in range(FLOW_EPOCHS):  # noqa: B007 - the last one is noted
        for batch in torch.randperm(len(rows), generator=generator).split(FLOW_BATCH):
            optimiser.zero_grad()
            (-flow().log_prob(rows[batch]).mean()).backward()
            torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
            optimiser.step()
        with torch.no_grad():
            value = float(flow().log_prob(validation).mean())
        since += 1
        if value > best:
            best, since, kept = value, 0, copy.deepcopy(flow.state_dict())
        if since >= FLOW_PATIENCE:
            break
    flow.load_state_dict(kept)
    with torch.no_grad():
        return flow().log_prob(torch.from_numpy(test).float()).double().numpy(), f"{epoch} epochs"


def single_gaussian(train: Rows, test: Rows, seed: int) -> Scored:
    return GaussianMixture(1, random_state=seed).fit(train).score_samples(test), ""


DETECTORS: dict[str, Contender] = {
    "coldness": ours(EnergyDetector),
    "reference": reference("detection"),
    "kNN": neighbours(5),
    "1-NN": neighbours(1),
    "LOF": lof,
    "IsolationForest": forest,
    "GaussianMixture": mixture,
    "KDE": kernels,
    "ECOD": pyod_detector("ECOD"),
    "COPOD": pyod_detector("COPOD"),
}

DENSITIES: dict[str, Contender] = {
    "coldness": ours(EnergyDensity),
    "reference": reference("density"),
    "Gaussian": single_gaussian,
    "GaussianMixture": mixture,
    "GaussianMixture, held-out": mixture_held_out,
    "KDE": kernels,
    "spline flow": spline_flow,
}
