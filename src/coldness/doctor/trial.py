"""A few iterations of a copy of the run: what they cost, and what they do to the chains.

    update    largest, over the first iterations, of  mean |L^T d(U_new - U_old)| sqrt(h / 2D)

which is the change that one update of the network makes to the drift of a step, h |L^T dU|, as a
share of the noise of that step, sqrt(2 h D): the learning rate in function space, whatever the
optimiser, the network and the coldness. It is taken at data and at starts, on U itself without
tempering, at the highest rate of the learning rate's schedule and not in its warm-up.

Above 1 an update throws chains further than their noise. Measured: packaged recipes 0.003 to 0.11;
mixture2d with beta = 0 holds at 0.3 (Adam 0.003) and 0.8 (0.01) and diverges at 3.7 (0.03; 2.6 to 5
with other seeds).

GradScale is read off the last of these iterations: where no negative is any match for the data it
is gone after five (beta paper, Appendix H); packaged recipes keep 0.9 and more.

Chains are not compiled here, since that takes longer than the measurement; the time of a run that
compiles is at most the one given.
"""

from __future__ import annotations

import math
import sys
import time
from copy import deepcopy
from dataclasses import dataclass, replace
from statistics import median
from types import ModuleType

import torch
from torch import Tensor

from coldness.doctor.curvature import gradient
from coldness.doctor.steps import langevin_steps
from coldness.schedules import value_at
from coldness.training import Training, build
from coldness.training.settings import Settings

resource: ModuleType | None
try:
    import resource
except ImportError:  # not on Windows, where memory is not measured
    resource = None

ITERATIONS = 10
PROBES = 128
"""Places at which the change of the drift is measured, of data and of each source's starts."""


@dataclass(frozen=True)
class Trial:
    """What a few iterations showed.

    Args:
        metrics: of the last of them, as in metrics.csv.
        update: largest change of the drift by an update, in noises of a step; one a source.
        seconds: of an iteration, the median without the first.
        megabytes: at most used so far by the process, or on its device; nan where not known.
        optimiser: class of the optimiser.
        not_finite: first iteration with a figure that is not finite; null for none.
    """

    metrics: dict[str, float]
    update: list[float]
    seconds: float
    megabytes: float
    optimiser: str
    not_finite: int | None

    @property
    def grad_scale(self) -> float:
        """The largest of all contrasts: one that has good negatives is enough to learn from."""
        return max(v for name, v in self.metrics.items() if name.startswith("grad_scale"))


def fresh_training(settings: Settings) -> Training:
    """A copy of the run at its beginning, at the highest learning rate of its schedule."""
    n = settings.iterations
    peak = max(value_at(settings.learning_rate, t, n) for t in range(0, n, max(1, n // 1000)))
    return build(replace(deepcopy(settings), compile="never", learning_rate=peak))


def run_trial(training: Training, probes: list[Tensor], iterations: int = ITERATIONS) -> Trial:
    """Iterates the copy, which is changed.

    Args:
        training: made by `fresh_training`.
        probes: for each source the places (B, ...) at which the drift is compared.
        iterations: how many.
    """
    settings = training.settings
    steps = [max(langevin_steps(settings, source)) for source in settings.sources]
    changes: list[list[float]] = [[] for _ in probes]
    before = [gradient(training.energy, x) for x in probes]
    seconds, not_finite = [], None
    metrics: dict[str, float] = {}
    for t in range(iterations):
        begin = time.perf_counter()
        metrics = {name: float(value) for name, value in training.iterate().items()}
        seconds.append(time.perf_counter() - begin)
        if not_finite is None and not all(math.isfinite(v) for v in metrics.values()):
            not_finite = t
        for k, x in enumerate(probes):
            now = gradient(training.energy, x)
            change = (now - before[k]).flatten(1).norm(dim=1).mean()
            changes[k].append(float(change) * (steps[k] / (2 * x[0].numel())) ** 0.5)
            before[k] = now
    return Trial(
        metrics=metrics,
        update=[float(torch.tensor(of_source).max()) for of_source in changes],  # nan stays
        seconds=median(seconds[1:] or seconds),
        megabytes=_megabytes(training.fabric.device),
        optimiser=type(training.optimiser.optimizer).__name__,
        not_finite=not_finite,
    )


def _megabytes(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    if resource is None:
        return math.nan
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6
