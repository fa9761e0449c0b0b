"""Out-of-distribution (OOD) detection by log p = -U - log Z, a ranking that needs no log Z.

Held-out or fresh data is ranked by -U together with points of another set:

    AUROC   P(score of data > score of the other), ties count half; 0.5 is chance
    AUPR    average precision, with data as the positive class; 0.5 is chance for sets of equal size
    FPR95   fraction of the other set that is accepted where 95% of the data is

Sets that are made from any data, without a file:

    uniform    on the box around the data, widened by a factor
    gaussian   N(mean, covariance of the data)
    shuffled   every coordinate permuted across examples: same marginals, no dependence
    model      weighted samples of the model itself, where the density of the data is known: the
               true density tells those from data that the model invented

Images have further sets beside the last two (image_sets.py); classifiers and images have further
scores beside log p (scores.py).

The best score is not log p but the likelihood ratio p_data / p_other; they agree for the uniform
set. The baseline of a model's metrics is the same score from the true density where that is known
("best": as a ranking by log p), and otherwise from the better of two plain models of the training
points ("plain"). A model may be above either, because neither ranking is optimal.

References:
    A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks
    (Hendrycks, Gimpel, 2017), section 2, for AUROC and AUPR.
    Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks
    (Liang, Li, Srikant, 2018), for FPR95.
    Your Classifier is Secretly an Energy Based Model (Grathwohl et al., 2020), section 5.3, for
    log p(x) as a score, known there up to a constant.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import gaussian_kde, multivariate_normal
from torch import Tensor

from coldness.data import Data
from coldness.data.point_checks import BadPoints
from coldness.data.points import read_points
from coldness.energies import NOTHING, Energy, Kept
from coldness.evaluation.image_sets import IMAGE_SETS, image_sets, read_image_set
from coldness.evaluation.scores import more_scores
from coldness.likelihood.potential import potential

ACCEPTED = 0.95
"""Fraction of the data that is accepted where the false positive rate is measured."""

LEAST_POINTS = 100
"""Fewest points of a file. With fewer, AUROC has a standard error up to 0.05: too much to grade."""

CENTRES = 4000
"""Most centres of the kernel density estimate among training points; it is only for ranking."""

ROWS_AT_ONCE = 500

OWN_SETS = ("uniform", "gaussian", "shuffled", "model")
BESIDE = ("best", "plain")

Array = NDArray[np.float64]
Score = Callable[[Tensor], Array]


def separation(inside: Array, outside: Array) -> dict[str, float]:
    """auroc, aupr and fpr95 of scores (n,) of data and (m,) of others; data should be higher.

    Infinite scores can be ranked. With a NaN among the scores there is no ranking, and all three
    are NaN.
    """
    scores = np.concatenate([inside, outside])
    if np.isnan(scores).any():
        return dict.fromkeys(("auroc", "aupr", "fpr95"), math.nan)
    levels, place = np.unique(-scores, return_inverse=True)
    n, m = len(inside), len(outside)
    hits = np.bincount(place[:n], minlength=len(levels)).cumsum()
    false = np.bincount(place[n:], minlength=len(levels)).cumsum()
    precision = hits / (hits + false)
    return {
        "auroc": float(np.trapezoid(np.append(0, hits), np.append(0, false))) / (n * m),
        "aupr": float((np.diff(hits, prepend=0) * precision).sum()) / n,
        "fpr95": float(false[np.argmax(hits >= ACCEPTED * n)]) / m,
    }


def own_sets(
    data: Data, count: int, widening: float, generator: torch.Generator
) -> Mapping[str, Tensor]:
    """Sets (count, ...) that are made from examples of the data itself.

    Args:
        data: from which `count` examples are drawn.
        count: number of points of each set.
        widening: factor on the width of the box.
        generator: on the CPU.
    """
    examples = data.sample(count, generator)
    x = examples.flatten(1).double()
    if data.domain.is_images:
        sets = image_sets(data.reference(count, generator), generator)
    else:
        low, high = x.min(0).values, x.max(0).values
        offset = torch.rand(x.shape, generator=generator, dtype=x.dtype) - 0.5
        sets = {"uniform": (low + high) / 2 + widening * (high - low) * offset}
    sets["gaussian"] = _gaussian_like(x, generator)
    if x.shape[1] > 1:
        order = torch.rand(x.shape, generator=generator).argsort(0)
        sets["shuffled"] = x.gather(0, order)
    return {name: y.to(examples).reshape(-1, *data.shape) for name, y in sets.items()}


def _gaussian_like(x: Tensor, generator: torch.Generator) -> Tensor:
    """As many points of N(mean, covariance) as there are examples x (N, D).

    Sums of the centred examples with independent weights N(0, 1/N) have exactly their covariance,
    whatever its rank.
    """
    centre, rows = x.mean(0), []
    for part in x.split(ROWS_AT_ONCE):
        weights = torch.randn(len(part), len(x), generator=generator, dtype=x.dtype)
        rows.append(centre + weights @ (x - centre) / math.sqrt(len(x)))
    return torch.cat(rows)


def read_sets(paths: Iterable[str], data: Data) -> dict[str, Tensor]:
    """Sets from files of points in the data's own units, or from images, by the files' names.

    Raises:
        BadPoints: a file is wrong; the message is one line.
        BadImages: the same for images.
    """
    sets: dict[str, Tensor] = {}
    of_images = data.domain.is_images
    for path in paths:
        name = re.sub(r"\W+", "_", Path(path).stem)
        if of_images:
            name = re.sub("_(test|train)$", "", name)
        if name in (*OWN_SETS, *IMAGE_SETS, *sets) or name.endswith(
            tuple(f"_{word}" for word in BESIDE)
        ):
            raise BadPoints(f"{path}: another set is already called {name}; rename the file")
        x = read_image_set(path, data) if of_images else torch.from_numpy(read_points(path))
        if len(x) < LEAST_POINTS:
            raise BadPoints(f"{path} holds {len(x)} points; at least {LEAST_POINTS} are needed")
        if of_images:
            sets[name] = x
            continue
        if x.shape[1] != math.prod(data.shape):
            raise BadPoints(
                f"{path} holds points of {x.shape[1]} dimensions, the data has "
                f"{math.prod(data.shape)}"
            )
        sets[name] = data.into_model(x.reshape(-1, *data.shape)).float()
    return sets


def compare_with_sets(
    energy: Energy,
    data: Data,
    x_data: Tensor,
    x_train: Tensor,
    sets: Mapping[str, Tensor],
    kept: Kept = NOTHING,
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Metrics of every set, its potentials u_ood_NAME, and other scores: maxp_data, maxp_ood_NAME.

    auroc_logp_NAME, aupr_logp_NAME, fpr95_logp_NAME; the same with _best of the true density, or
    with _plain of the better plain model by each metric; with _maxp_, _grad_ and _typical_ by other
    scores.

    Args:
        energy: the model.
        data: what it was trained on.
        x_data: examples (N, ...) that it was not trained on.
        x_train: examples (M, ...) that it was, or could have been, trained on.
        sets: out-of-distribution points (K, ...) by name.
        kept: what the model keeps beside the energy.
    """
    metrics: dict[str, float] = {}
    arrays: dict[str, Tensor] = {}
    u_data, u_train = potential(energy, x_data), potential(energy, x_train)
    beside, scores = _scores_beside(data)
    inside = [score(x_data) for score in scores]
    of_images = data.domain.is_images
    more = more_scores(energy, x_data, u_data, u_train, of_images, kept)
    arrays |= {f"{score}_data": torch.from_numpy(values) for score, values in more.items()}
    for name, x in sets.items():
        u = potential(energy, x)
        arrays[f"u_ood_{name}"] = u
        of_model = separation(-u_data.numpy(), -u.numpy())
        metrics |= {f"{figure}_logp_{name}": value for figure, value in of_model.items()}
        others = [separation(i, score(x)) for i, score in zip(inside, scores, strict=True)]
        for figure in of_model if others else ():
            best = min if figure == "fpr95" else max
            metrics[f"{figure}_logp_{name}_{beside}"] = best(other[figure] for other in others)
        for score, values in more_scores(energy, x, u, u_train, of_images, kept).items():
            arrays[f"{score}_ood_{name}"] = torch.from_numpy(values)
            found = separation(more[score], values)
            metrics |= {f"{figure}_{score}_{name}": value for figure, value in found.items()}
    return metrics, arrays


def _scores_beside(data: Data) -> tuple[str, list[Score]]:
    """Name of the baseline and its scores; no scores where there is no baseline."""
    known = data.known
    if known is not None:
        return "best", [lambda x: known.log_prob(x).numpy()]
    train = torch.empty(0) if data.finite is None else data.finite.train[:CENTRES].double()
    if train.dim() != 2 or len(train) <= train.shape[1]:
        return "", []
    points = train.T.numpy()
    gaussian, kernels = multivariate_normal(points.mean(1), np.cov(points)), gaussian_kde(points)
    return "plain", [
        lambda x: gaussian.logpdf(x.double().numpy()).reshape(-1),
        lambda x: kernels.logpdf(x.double().T.numpy()),
    ]
