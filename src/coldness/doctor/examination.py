"""All checks of the doctor, in the order in which they are shown.

First the settings, then the data, then the untrained energy, then a few iterations of a copy. The
settings themselves are not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from coldness.data import Data
from coldness.doctor.clamp import outside
from coldness.doctor.combinations import combinations
from coldness.doctor.finding import Check, Finding
from coldness.doctor.narrowest import LocalScale, narrowest_scale, share_of_copies
from coldness.doctor.noise import copied, too_noisy
from coldness.doctor.reach import EXAMPLES, reach
from coldness.doctor.start import curvature, drift
from coldness.doctor.steps import all_sources, known
from coldness.doctor.temperature import known_scale
from coldness.doctor.trial import PROBES, fresh_training, run_trial
from coldness.doctor.updates import cost, numbers, starvation, update_size
from coldness.energies import Coordinates
from coldness.training import Training
from coldness.training.settings import Settings

POINTS_OF_DATA = 2**14
"""Examples for the narrowest scale; with fewer, the estimate for rings2d is too wide."""


@dataclass(frozen=True)
class Examination:
    """The result of an examination.

    Args:
        checks: all checks, with and without findings.
    """

    checks: list[Check]

    @property
    def findings(self) -> list[Finding]:
        """All problems found."""
        return [finding for check in self.checks for finding in check.findings]

    @property
    def metrics(self) -> dict[str, float]:
        return {name: value for check in self.checks for name, value in check.metrics.items()}


def examine(
    settings: Settings, on_stage: Callable[[str], None] = lambda stage: None
) -> Examination:
    """Examine a recipe before training.

    Args:
        settings: of the run; the doctor works on a copy.
        on_stage: called with the name of each stage, for a progress display.
    """
    on_stage("data")
    training = fresh_training(settings)
    own, energy, device = training.settings, training.energy, training.fabric.device
    at = energy.coordinates
    generator = torch.Generator(device).manual_seed(settings.seed)
    x_data = own.data.sample(EXAMPLES, torch.Generator().manual_seed(settings.seed)).to(device)
    reached = reach(own, x_data, at, generator)
    checks = [known_to_go_wrong(own), narrowness(own, at), *outside(own, x_data), *reached]

    on_stage("untrained energy")
    probes = []
    for k, source in enumerate(own.sources):
        if not known(source) and source.adaptation is not None:
            source.adaptation.before(energy, x_data[: settings.batch_size])
        x = _met_by_chains(training, k, x_data, generator)
        probes.append(torch.cat([x_data[:PROBES], x[:PROBES]]))
        if source.steps:
            checks += [drift(own, k, energy, x), curvature(own, k, energy, x, generator)]

    on_stage("a few iterations of a copy")
    trial = run_trial(training, probes)
    far = any(check.findings for check in reached)
    checks += [
        update_size(trial),
        starvation(own, trial, far),
        numbers(trial),
        cost(settings, trial),
    ]
    return Examination(checks)


def known_to_go_wrong(settings: Settings) -> Check:
    """Combinations of settings that are known to fail."""
    findings = tuple(combinations(settings))
    text = "no combination of settings that is known to fail"
    if findings:
        text = f"known to fail: {', '.join(finding.what for finding in findings)}"
    return Check("settings", text, {}, findings)


def narrowness(settings: Settings, at: Coordinates) -> Check:
    """The narrowest scale of the data: known, or estimated from nearest neighbours."""
    x = _points(settings.data, settings.seed)
    copies = share_of_copies(x) if settings.data.finite else 0.0
    estimate = narrowest_scale(at.whiten(_once(x).to(at.location.device)))
    scale = known_scale(settings)
    findings = [
        *too_noisy(settings, estimate.scale if scale is None else scale),
        *copied(settings, copies),
    ]
    metrics = {"narrowest_scale": estimate.scale, "share_of_copies": copies}
    return Check("data", _text(settings, estimate, scale), metrics, tuple(findings))


def _text(settings: Settings, estimate: LocalScale, scale: float | None) -> str:
    text = f"narrowest local scale {estimate.scale:.3g}, from nearest neighbours"
    if not estimate.local:
        text = f"narrowest coordinate scale {estimate.scale:.3g} (too few neighbours)"
    if scale is not None:
        text += f", {scale:.3g} from its known density"
    n = settings.iterations
    noises = [(2 * s.final_step(0, n)) ** 0.5 for _, s in all_sources(settings) if known(s)]
    return f"{text}; noise per step up to {max(noises):.3g}" if noises else text


def _points(data: Data, seed: int) -> Tensor:
    """Examples of the data: all that it trains on, where they are few."""
    if data.finite is not None:
        train = data.finite.train
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        return train[order[:POINTS_OF_DATA]]
    return data.sample(POINTS_OF_DATA, torch.Generator().manual_seed(seed))


def _once(x: Tensor) -> Tensor:
    """Each distinct point once, in the original order."""
    _, inverse = torch.unique(x, dim=0, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1,), len(x)).scatter_reduce(
        0, inverse, torch.arange(len(x)), "amin"
    )
    return x[first.sort().values]


def _met_by_chains(
    training: Training, k: int, x_data: Tensor, generator: torch.Generator
) -> Tensor:
    """Starts and ends of chains of source k on the untrained energy."""
    settings, energy = training.settings, training.energy
    source = settings.sources[k]
    start = source.start.fresh(PROBES, x_data, energy.coordinates, generator)
    ends = source.carry_on(energy, start, source.steps, generator)
    return torch.cat([start, ends.x])
