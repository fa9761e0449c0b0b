"""Whether chains that start from noise can reach the data.

    cover    distance from a data point to the nearest start, over the path length of chains
    arrive   distance from a start to the nearest data point, over the path length of chains

Distances are 0.9 quantiles over the points, in the coordinates of the kernels; the path length is
`path_length`. The distance between neighbouring starts is subtracted from the first distance,
because a finite number of starts does not resolve smaller distances.

Data that no chain comes near has no negatives: with beta = 0 its potential falls without limit;
with weights, GradScale goes to 0 or that data is effectively ignored. So a large cover is a
problem, with beta = 0 for any source, otherwise if all sources of a contrast have it. With beta = 0
each negative has full weight: the potential of chains that cannot arrive is raised without limit.

Measured on mixture2d and rings2d with beta = 0: runs with a cover of 1.0, 1.7 and 3.4 diverge;
packaged recipes have 0 to 0.001. Runs with an arrive of 4.2 and 13 diverge, those with 1.3 and 2.6
are stable, with a drift of twice the noise; packaged recipes with beta = 0 have up to 0.6.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coldness.doctor.finding import BETA, Check, Finding
from coldness.doctor.steps import path_length
from coldness.energies import Coordinates
from coldness.schedules import value_at
from coldness.training.settings import Settings

LARGEST_COVER = 0.5
LARGEST_ARRIVE = 3.0
QUANTILE = 0.9
EXAMPLES = 1000


def reach(
    settings: Settings, x_data: Tensor, at: Coordinates, generator: torch.Generator
) -> list[Check]:
    """A check for every source whose chains start from noise."""
    ratios = {
        k: _ratios(settings, k, x_data, at, generator)
        for k, source in enumerate(settings.sources)
        if source.start.from_noise
    }
    starved = {k for k, metrics in ratios.items() if not metrics["cover"] <= LARGEST_COVER}
    checks = []
    for k, metrics in ratios.items():
        together = next(group for group in settings.contrasts() if k in group)
        plain = _plain(settings, k)
        findings = []
        if k in starved and (plain or starved.issuperset(together)):
            findings.append(_far(k, metrics, plain))
        elif plain and settings.sources[k].steps and not metrics["arrive"] <= LARGEST_ARRIVE:
            findings.append(_late(k, metrics))
        text = (
            f"source {k}: distance from data to the nearest start {metrics['distance']:.3g}, "
            f"path length of chains {metrics['path']:.3g}"
        )
        named = {f"{name}_{k}": value for name, value in metrics.items()}
        checks.append(Check("reach", text, named, tuple(findings)))
    return checks


def _ratios(
    settings: Settings, k: int, x_data: Tensor, at: Coordinates, generator: torch.Generator
) -> dict[str, float]:
    source = settings.sources[k]
    x_start = source.start.fresh(len(x_data), x_data, at, generator)
    data, start = at.whiten(x_data).flatten(1), at.whiten(x_start).flatten(1)
    path = path_length(settings, source, data.shape[1])
    apart = torch.cdist(data, start)
    between = torch.cdist(start, start).fill_diagonal_(math.inf)
    distance, to_data = _most(apart.amin(1)), _most(apart.amin(0))
    spacing = _most(between.amin(1))
    return {
        "distance": distance,
        "path": path,
        "cover": _ratio(max(0.0, distance - spacing), path),
        "arrive": _ratio(to_data, path),
    }


def _ratio(distance: float, path: float) -> float:
    if path > 0:
        return distance / path
    return math.inf if distance > 0 else 0.0


def _most(distances: Tensor) -> float:
    return float(distances.quantile(QUANTILE))


def _plain(settings: Settings, k: int) -> bool:
    """Whether negatives are unweighted, at the first and at the last iteration."""
    beta = settings.beta_of(settings.sources[k])
    return all(value_at(beta, t, settings.iterations) == 0 for t in (0, settings.iterations - 1))


def _far(k: int, metrics: dict[str, float], plain: bool) -> Finding:
    why = "its potential falls without limit"
    if not plain:
        why = "GradScale falls to 0 and nothing is learned"
    return Finding(
        "reach",
        f"source {k}",
        f"a tenth of the data is {metrics['distance']:.3g} or more away from the nearest start, "
        f"but the path length of chains is {metrics['path']:.3g}",
        f"that data has no negatives: {why}",
        f"{BETA}, Appendix K" if plain else f"{BETA}, Appendix H",
        "start chains at the data (GaussianNoise with its mean and standard deviation, DataStart "
        "or a Bank), or use more or larger steps",
    )


def _late(k: int, metrics: dict[str, float]) -> Finding:
    return Finding(
        "reach",
        f"source {k}",
        f"a tenth of the chains start at {metrics['arrive']:.2g} times their path length "
        f"({metrics['path']:.3g}) from the data",
        "with beta = 0 they have full weight, and their potential is raised without limit",
        f"{BETA}, Appendix K",
        "use more or larger steps, a narrower start, or a beta between 0 and 1",
    )
