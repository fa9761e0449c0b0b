"""Is the density right? And what is the log-likelihood of test points?

On a grid, on the line or in the plane, log Z is exact and so are KL and log-likelihood. In more
dimensions they come with the bracket of log Z (evaluation/ais.py), and what is graded is its end
that is the worse for the model. A bracket too wide to say anything says nothing, but a density can
be known to be wrong: the lower end of KL is below the truth however wide the bracket is, and total
variation on a slice needs no log Z.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from coldness.diagnostics.convergence import state
from coldness.likelihood.ais import LEAST_ESS, LOOSE
from coldness.trust.answers import Answer, Grade, grade, number, worst

KL_YES = 0.1
"""Nats. The mean log-likelihood of data is then within 0.1 of the best possible."""

KL_PARTLY = 1.0
"""Nats. Beyond it, a point of the data is on average more than e times too unlikely."""

TV_YES = math.sqrt(KL_YES / 2)
"""What Pinsker's inequality, tv <= sqrt(kl / 2), allows at KL_YES."""

TV_PARTLY = 0.5
"""Half of the model's mass would have to be moved."""

LIKELIHOOD_TOLERANCE = 0.05
"""Nats that a model may stay behind the better of two plain models: a Gaussian cannot be beaten on
Gaussian data, and a network fitted by sampling stays a few hundredths behind it."""

LOG_Z_ERROR = 0.02
"""Nats. A log-likelihood from a grid that changes log Z by more when it is thinned says nothing."""

MASS_OUTSIDE = 0.01
"""Share of the model's mass outside the data's box that is worth a sentence."""

FAILED = "AIS met numbers that are not finite"

ELSEWHERE = (
    "long chains do not stay where data is: it may have mass elsewhere that neither data nor noise "
    "reaches, which no bracket sees."
)

Bracket = Literal["tight", "loose", "failed", "none"]
Metrics = Mapping[str, float]


def bracket(metrics: Metrics) -> Bracket:
    """What annealed importance sampling says of log Z; NaN is loose."""
    if metrics.get("log_z_failed"):
        return "failed"
    if "log_z_low" not in metrics or "log_z_high" not in metrics:
        return "none"
    shares = [metrics.get(f"log_z_ess_{way}", math.nan) for way in ("forward", "reverse")]
    narrow = metrics["log_z_high"] - metrics["log_z_low"] <= LOOSE
    return "tight" if narrow and all(share >= LEAST_ESS for share in shares) else "loose"


def density(metrics: Metrics) -> Answer:
    """The answer, from whatever was measured."""
    exact = "tv" in metrics or ("kl" in metrics and "kl_low" not in metrics)
    if exact:
        return _on_grid(metrics)
    if "kl" in metrics:
        return _estimated(metrics)
    if "log_likelihood_test" in metrics:
        return _likelihood(metrics)
    judged: Grade = "not measured"
    sentence = "Neither KL nor total variation was measured."
    if bracket(metrics) == "failed":
        sentence = f"It could not be normalised: {FAILED}."
    if metrics.get("slice_tv", 0.0) >= TV_PARTLY:
        judged, sentence = "no", f"It is wrong on the slice. {sentence}"
    if any(math.isnan(v) for k, v in metrics.items() if k.startswith(("slice_", "auroc_"))):
        judged, sentence = "no", f"Its energies are not all numbers. {sentence}"
    return Answer("density", judged, ", ".join(_slice(metrics)), sentence)


def _on_grid(metrics: Metrics) -> Answer:
    """In the plane, where KL and total variation are integrals."""
    grades: list[Grade] = []
    figures: list[str] = []
    if "kl" in metrics:
        grades.append(grade(metrics["kl"], KL_YES, KL_PARTLY))
        figures.append(f"KL {number(metrics['kl'])} nats")
    if "tv" in metrics:
        grades.append(grade(metrics["tv"], TV_YES, TV_PARTLY))
        figures.append(f"total variation {number(metrics['tv'])}")
    return _answer(metrics, worst(*grades), figures)


def _estimated(metrics: Metrics) -> Answer:
    """In more dimensions, with a bracket."""
    kl, low, high = (metrics.get(key, math.nan) for key in ("kl", "kl_low", "kl_high"))
    between = f"between {number(low)} and {number(high)}"
    if bracket(metrics) != "tight":
        figures = [f"KL {between} nats", *_slice(metrics)]
        if low > KL_PARTLY or metrics.get("slice_tv", 0.0) >= TV_PARTLY:
            return _answer(metrics, "no", figures)
        sentence = (
            "The bracket of its KL is too loose to say: more evaluation.ais.levels would tighten "
            "it, unless the model has mass where there is no data."
        )
        return Answer("density", "not measured", ", ".join(figures), sentence)
    judged: Grade = "yes" if high < KL_YES else "partly" if kl < KL_PARTLY else "no"
    if judged == "yes" and not _stays(metrics):
        sentence = f"What was measured of it is right, but {ELSEWHERE}"
        figures = [f"KL {number(kl)} nats ({between})", *_slice(metrics)]
        return Answer("density", "partly", ", ".join(figures), sentence)
    if "slice_tv" in metrics:
        judged = worst(judged, grade(metrics["slice_tv"], TV_YES, TV_PARTLY))
    return _answer(metrics, judged, [f"KL {number(kl)} nats ({between})", *_slice(metrics)])


def _stays(metrics: Metrics) -> bool:
    """Whether long chains have converged to where data is, as far as it was measured."""
    if metrics.get("lost_chains_long"):
        return False
    return state(metrics.get("u_shift", 0.0), metrics.get("u_drift", 0.0)) == "converged"


def _answer(metrics: Metrics, judged: Grade, figures: list[str]) -> Answer:
    sentence = {
        "yes": "Its energies can be read as log-densities, up to one constant.",
        "partly": "It has the shape of the density, but its values are off: rank with it only.",
        "no": "Its energies are not log-densities; do not compare likelihoods with them.",
    }[judged]
    if not math.isfinite(metrics.get("kl", 0.0)):
        sentence = "Its density could not be normalised, so its energies are not log-densities."
    return Answer("density", judged, ", ".join(figures), sentence + _outside(metrics))


def _slice(metrics: Metrics) -> list[str]:
    if "slice_tv" not in metrics:
        return []
    return [f"total variation on the slice {number(metrics['slice_tv'])}"]


def _outside(metrics: Metrics) -> str:
    outside = metrics.get("mass_outside", 0.0)
    return f" {outside:.0%} of its mass lies where there is no data." * (outside > MASS_OUTSIDE)


# Data whose density is not known.


def _likelihood(metrics: Metrics) -> Answer:
    """Held-out points under the model and two plain models."""
    test = worst_case = metrics["log_likelihood_test"]
    plain = {
        name: metrics[f"log_likelihood_{key}"]
        for key, name in (("gaussian", "Gaussian"), ("kde", "kernel estimate"))
        if f"log_likelihood_{key}" in metrics
    }
    figure = f"log-likelihood of held-out points {number(test, 4)} nats"
    on_grid = "log_z_error" in metrics
    if not on_grid and "log_likelihood_low" in metrics:
        worst_case, high = metrics["log_likelihood_low"], metrics["log_likelihood_high"]
        figure += f" (between {number(worst_case, 4)} and {number(high, 4)})"
    figure = ", ".join([figure, *(f"{name} {number(value, 4)}" for name, value in plain.items())])
    if math.isnan(test):
        sentence = "Its density could not be normalised, so its energies are not log-densities."
        return Answer("density", "no", figure, sentence)
    sentence = ""
    if not metrics.get("log_z_error", 0.0) <= LOG_Z_ERROR:
        sentence = "The grid is too coarse to normalise it on: raise evaluation.grid."
    elif not on_grid and bracket(metrics) == "loose":
        sentence = (
            "The bracket of its log-likelihood is too loose to say: more evaluation.ais.levels "
            "would tighten it, unless the model has mass where there is no data."
        )
    elif len(plain) < 2:
        sentence = "There is no plain model of this data to compare it with."
    if sentence:
        return Answer("density", "not measured", figure, sentence)
    gaussian, best = plain["Gaussian"], max(plain.values())
    if worst_case >= best - LIKELIHOOD_TOLERANCE and not on_grid and not _stays(metrics):
        judged: Grade = "partly"
        sentence = (
            "New points seem as likely under it as under a kernel estimate and a Gaussian, but "
            f"{ELSEWHERE}"
        )
    elif worst_case >= best - LIKELIHOOD_TOLERANCE:
        judged = "yes"
        sentence = (
            "New points are as likely under it as under a kernel estimate and a Gaussian, or more; "
            "how near it is to the truth cannot be known."
        )
    elif test >= best - LIKELIHOOD_TOLERANCE:
        judged = "partly"
        sentence = (
            "New points seem as likely under it as under a kernel estimate and a Gaussian, but the "
            "lower end of its bracket is below them."
        )
    elif test > gaussian:
        judged, sentence = "partly", "It is better than a Gaussian, but a kernel estimate beats it."
    else:
        judged, sentence = "no", "A Gaussian with the data's moments is the better density."
    return Answer("density", judged, figure, sentence + _outside(metrics))


def likelihood_line(metrics: Metrics) -> str:
    """Log-likelihood of test points and how far to rely on it, for the terminal."""
    of, test = bracket(metrics), metrics.get("log_likelihood_test")
    if "log_z_error" in metrics and test is not None:
        coarse = not metrics["log_z_error"] <= LOG_Z_ERROR
        return f"{number(test, 4)} nats (on a grid{', too coarse to rely on' if coarse else ''})"
    if of == "failed":
        return f"not measured: {FAILED}"
    if of == "none":
        return "not measured: evaluation.ais is null"
    if test is None or "log_likelihood_low" not in metrics:
        return "not measured: there are no test points"
    low, high = number(metrics["log_likelihood_low"], 4), number(metrics["log_likelihood_high"], 4)
    if of == "loose":
        return f"loose: between {low} and {high}, do not rely on it"
    forward, reverse = (number(metrics[f"log_z_ess_{way}"], 2) for way in ("forward", "reverse"))
    return (
        f"{number(test, 4)} nats (between {low} and {high}; ESS {forward} forward, "
        f"{reverse} reverse)"
    )
