"""Checks of a few iterations of a copy: learning rate, GradScale, NaN, time and memory.

trial.py explains the thresholds.
"""

from __future__ import annotations

import math

from coldness.doctor.finding import BETA, Check, Finding
from coldness.doctor.trial import ITERATIONS, Trial
from coldness.kernels import worth_compiling
from coldness.limits import LEAST_GRAD_SCALE, MOST_STEPS
from coldness.schedules import value_at
from coldness.training.settings import Settings

LARGEST_UPDATE = 1.0

NORMALISING = {
    *("Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax"),
    *("NAdam", "RAdam", "RMSprop", "Rprop"),
}
"""Optimisers that normalise gradients by their own size."""


def update_size(trial: Trial) -> Check:
    """The learning rate, by the effect of one update on chains."""
    k = max(range(len(trial.update)), key=lambda k: _nan_first(trial.update[k]))
    size = trial.update[k]
    findings = []
    if not size <= LARGEST_UPDATE:
        findings.append(
            Finding(
                "learning_rate",
                "optimiser",
                f"one update changes the drift of source {k} by {size:.2g} times the noise per "
                "step",
                "updates move chains further than later updates can correct, and the gap diverges",
                "measured: mixture2d is stable at 0.8 and diverges at 3.7",
                f"use a learning rate {max(2.0, 5 * size):.0f} times lower",
            )
        )
    text = f"an update changes the drift by at most {size:.2g} times the noise per step"
    metrics = {f"update_{j}": value for j, value in enumerate(trial.update)}
    return Check("update", text, metrics, tuple(findings))


def starvation(settings: Settings, trial: Trial, out_of_reach: bool) -> Check:
    """GradScale after the trial, and optimisers that cancel its effect."""
    scale = trial.grad_scale
    findings = []
    gone = not scale >= LEAST_GRAD_SCALE
    if gone:
        findings.append(
            Finding(
                "starved",
                "contrast",
                f"GradScale is {scale:.2g} after {ITERATIONS} iterations",
                "no negative is competitive with the data, and nothing is learned",
                f"{BETA}, Eq. 30 and Appendix H",
                "start chains at the data, use more or larger steps, or a lower beta",
            )
        )
    weighed = any(
        value_at(settings.beta_of(source), 0, settings.iterations) > 0
        for source in settings.sources
    )
    if (
        weighed
        and (gone or out_of_reach)
        and settings.contrast.variant != "no_positive"
        and trial.optimiser in NORMALISING
        and settings.least_grad_scale == 0
    ):
        findings.append(
            Finding(
                "amplified",
                "optimiser",
                f"{trial.optimiser} with beta > 0 and negatives that do not reach the data",
                "it turns vanishing gradients into full-size steps of noise",
                f"{BETA}, Appendix H",
                f"set least_grad_scale to {LEAST_GRAD_SCALE:g}, or use SGD",
            )
        )
    gap = f"gap d = {trial.metrics['d']:+.3g} nats, GradScale {scale:.2g}"
    text = f"after {ITERATIONS} iterations: {gap}"
    metrics = {"d": trial.metrics["d"], "grad_scale": scale}
    return Check("negatives", text, metrics, tuple(findings))


def numbers(trial: Trial) -> Check:
    """Whether all metrics stayed finite."""
    if trial.not_finite is None:
        return Check("numbers", f"all metrics are finite in {ITERATIONS} iterations")
    bad = [name for name, value in trial.metrics.items() if not math.isfinite(value)]
    finding = Finding(
        "not_finite",
        "training",
        f"metrics became NaN or infinite at iteration {trial.not_finite} ({', '.join(bad)})",
        "the run would stop there",
        "measured",
        "use a lower learning rate or smaller step sizes",
    )
    return Check("numbers", f"NaN or infinite from iteration {trial.not_finite} on", {}, (finding,))


def cost(settings: Settings, trial: Trial) -> Check:
    """Expected training time, and peak memory so far."""
    seconds = settings.iterations * trial.seconds
    text = (
        f"{duration(seconds)}: {settings.iterations} iterations, {1e3 * trial.seconds:.3g} ms each"
    )
    if _compiles(settings):
        text += ", uncompiled; chains will be compiled, which reduced the time of packaged recipes "
        text += "to a third to a sixth"
    if settings.guard.policy == "rollback":
        text += f"; the guard may make chains up to {MOST_STEPS} times longer to rescue a run"
    memory = trial.megabytes
    text += "; without evaluation"
    if math.isfinite(memory):
        text += f"; peak memory {memory:.0f} MB so far"
    metrics = {
        "seconds_per_iteration": trial.seconds,
        "seconds": seconds,
        "megabytes": memory,
    }
    return Check("cost", text, metrics)


def duration(seconds: float) -> str:
    """A duration as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _compiles(settings: Settings) -> bool:
    if settings.compile == "auto":
        return any(worth_compiling(settings.iterations * s.steps) for s in settings.sources)
    return settings.compile == "always"


def _nan_first(value: float) -> float:
    return math.inf if math.isnan(value) else value
