"""A few iterations of a copy of the run: their cost, and their effect on chains.

    update    largest, over the first iterations, of  mean |L^T d(U_new - U_old)| sqrt(h / 2D)

which is the change of the drift per step, h |L^T dU|, by one update of the network, relative to the
noise per step, sqrt(2 h D): the learning rate in function space, independent of the optimiser, the
network and the coldness. It is measured at data and at starts, on U itself without tempering, at
the highest learning rate of the schedule and not in its warm-up.

Above 1 an update moves chains further than their noise. Measured: packaged recipes 0.003 to 0.11;
mixture2d with beta = 0 is stable at 0.3 (Adam 0.003) and 0.8 (0.01) and diverges at 3.7 (0.03; 2.6
to 5 with other seeds).

GradScale is that of the last of these iterations: if no negative is competitive with the data it
vanishes within five iterations (beta paper, Appendix H); packaged recipes keep 0.9 or more.

Chains are not compiled here, because compilation takes longer than the measurement; a run that
compiles takes at most the time stated.
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
"""Points at which the change of the drift is measured, of data and of each source's starts."""


@dataclass(frozen=True)
class Trial:
    """Results of a few iterations.

    Args:
        metrics: of the last of them, as in metrics.csv.
        update: largest change of the drift by an update, relative to the noise per step; one per
            source.
        seconds: per iteration, the median without the first.
        megabytes: peak memory of the process, or of its device; NaN if not known.
        optimiser: class name of the optimiser.
        not_finite: first iteration with a metric that is NaN or infinite; None if there is none.
    """

    metrics: dict[str, float]
    update: list[float]
    seconds: float
    megabytes: float
    optimiser: str
    not_finite: int | None

    @property
    def grad_scale(self) -> float:
        """The largest over all contrasts: one contrast with good negatives is enough to learn."""
        return max(v for name, v in self.metrics.items() if name.startswith("grad_scale"))


def fresh_training(settings: Settings) -> Training:
    """A copy of the run at its beginning, at the highest learning rate of its schedule."""
    n = settings.iterations
    peak = max(value_at(settings.learning_rate, t, n) for t in range(0, n, max(1, n // 1000)))
    return build(replace(deepcopy(settings), compile="never", learning_rate=peak))


def run_trial(training: Training, probes: list[Tensor], iterations: int = ITERATIONS) -> Trial:
    """Run some iterations of the copy, which is changed.

    Args:
        training: from `fresh_training`.
        probes: for each source, the points (B, ...) at which the drift is compared.
        iterations: number of iterations.
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
