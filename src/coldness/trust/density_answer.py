"""Is the density right? And what is the log-likelihood of test points?

On a grid, in one or two dimensions, log Z is exact and so are KL and log-likelihood. In more
dimensions they come with the bracket of log Z (likelihood/bracket.py), and the grade is that of the
end that is worse for the model. A bracket that is too loose gives no answer, but a density can be
known to be wrong: the lower end of KL is below the truth however loose the bracket is, and total
variation on a slice needs no log Z.

A yes needs more than a small KL(data || model), which is blind to mass where there is no data: a
small KL(model || data) where the data's density is known, mode weights that agree, tails that can
be normalised, and a search for mass elsewhere that found none (hidden.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from coldness.diagnostics.convergence import state_of
from coldness.likelihood.bracket import LEAST_ESS, LOOSE
from coldness.trust.answers import (
    KL_PARTLY,
    KL_YES,
    TV_PARTLY,
    TV_YES,
    Answer,
    Grade,
    grade,
    number,
    worst,
)
from coldness.trust.hidden import doubts

LIKELIHOOD_TOLERANCE = 0.05
"""Nats by which a model may be below the better of two plain models: a Gaussian cannot be beaten on
Gaussian data, and a network trained by sampling stays a few hundredths below it."""

LOG_Z_ERROR = 0.02
"""Nats. If thinning the grid changes log Z by more, its log-likelihood is not reliable."""

MASS_OUTSIDE = 0.01
"""Fraction of the model's mass outside the data's box that is worth a sentence."""

FAILED = "potentials became NaN or infinite during annealed importance sampling (AIS)"

ELSEWHERE = (
    "long chains do not stay where the data is. The model may have mass elsewhere that chains from "
    "neither data nor noise reach, and no bracket accounts for that."
)
NOT_NORMALISED = "Its density could not be normalised, so its energies are not log-densities."
LOOSE_BRACKET = (
    "is too loose for an answer. A larger evaluation.ais.levels tightens it, unless the model has "
    "mass where there is no data."
)

Bracket = Literal["tight", "loose", "failed", "none"]
Metrics = Mapping[str, float]


def bracket(metrics: Metrics) -> Bracket:
    """Quality of the bracket of log Z from annealed importance sampling; NaN is loose."""
    if metrics.get("log_z_failed"):
        return "failed"
    if "log_z_low" not in metrics or "log_z_high" not in metrics:
        return "none"
    ways = ["forward"] if metrics.get("log_z_crossed") else ["forward", "reverse"]
    fractions = [metrics.get(f"log_z_ess_{way}", math.nan) for way in ways]
    fractions[0] = max(fractions[0], metrics.get("log_z_ess_wide", 0.0))
    narrow = metrics["log_z_high"] - metrics["log_z_low"] <= LOOSE
    return "tight" if narrow and all(f >= LEAST_ESS for f in fractions) else "loose"


def density(metrics: Metrics) -> Answer:
    """The answer, from whatever was measured."""
    exact = "tv" in metrics or ("kl" in metrics and "kl_low" not in metrics)
    if exact:
        return _on_grid(metrics)
    if "kl" in metrics:
        return _estimated(metrics)
    if "log_likelihood_test" in metrics:
        return _likelihood(metrics)
    graded: Grade = "not measured"
    text = "Neither KL nor total variation was measured."
    if bracket(metrics) == "failed":
        text = f"It could not be normalised: {FAILED}."
    if metrics.get("slice_tv", 0.0) >= TV_PARTLY:
        graded, text = "no", f"It is wrong on the slice. {text}"
    of_energies = [key for key in metrics if key.startswith(("slice_", "auroc_"))]
    if any(math.isnan(metrics[key]) for key in of_energies):
        graded, text = "no", f"Some of its energies are NaN. {text}"
    return Answer("density", graded, ", ".join(_slice(metrics)), text)


def _on_grid(metrics: Metrics) -> Answer:
    """The answer in one or two dimensions, where KL and total variation are integrals."""
    grades: list[Grade] = []
    measured: list[str] = []
    if "kl" in metrics:
        grades.append(grade(metrics["kl"], KL_YES, KL_PARTLY))
        measured.append(f"KL {number(metrics['kl'])} nats")
    if "tv" in metrics:
        grades.append(grade(metrics["tv"], TV_YES, TV_PARTLY))
        measured.append(f"total variation {number(metrics['tv'])}")
    grades.append(_reverse(metrics, measured))
    return _answer(metrics, worst(*grades), measured)


def _reverse(metrics: Metrics, measured: list[str]) -> Grade:
    """The best grade that KL(model || data) allows, where it is known; adds it to the numbers."""
    if "reverse_kl" not in metrics:
        return "yes"
    value = metrics["reverse_kl"]
    measured.append(f"KL(model || data) {number(value)} nats")
    # The lower end: sampling noise of a right model is no reason for a doubt.
    low = metrics.get("reverse_kl_low", value) if "tv" not in metrics else value
    uncertain = metrics.get("reverse_kl_high", value) - low > LOOSE and "tv" not in metrics
    return "yes" if min(value, max(low, 0.0)) < KL_YES and not uncertain else "partly"


def _estimated(metrics: Metrics) -> Answer:
    """The answer in more dimensions, with a bracket."""
    kl, low, high = (metrics.get(key, math.nan) for key in ("kl", "kl_low", "kl_high"))
    between = f"between {number(low)} and {number(high)}"
    if bracket(metrics) != "tight":
        measured = [f"KL {between} nats", *_slice(metrics)]
        if low > KL_PARTLY or metrics.get("slice_tv", 0.0) >= TV_PARTLY:
            return _answer(metrics, "no", measured)
        text = f"The bracket of its KL {LOOSE_BRACKET}"
        return Answer("density", "not measured", ", ".join(measured), text)
    measured = [f"KL {number(kl)} nats ({between})", *_slice(metrics)]
    graded: Grade = "yes" if high < KL_YES else "partly" if kl < KL_PARTLY else "no"
    if graded == "yes" and not _stays(metrics):
        text = f"No problems found in what was measured, but {ELSEWHERE}"
        return Answer("density", "partly", ", ".join(measured), text)
    if "slice_tv" in metrics:
        graded = worst(graded, grade(metrics["slice_tv"], TV_YES, TV_PARTLY))
    if "tv_estimate" in metrics:
        measured.append(f"total variation about {number(metrics['tv_estimate'], 2)}")
        graded = worst(graded, grade(metrics["tv_estimate"], TV_YES, TV_PARTLY))
    return _answer(metrics, worst(graded, _reverse(metrics, measured)), measured)


def _stays(metrics: Metrics) -> bool:
    """Whether long chains have converged to where data is; where there were none, whether a search
    for mass elsewhere takes their place."""
    if metrics.get("lost_chains_long"):
        return False
    found = state_of(metrics)
    return found == "converged" or (found is None and bool(metrics.get("searched")))


def _answer(metrics: Metrics, graded: Grade, measured: list[str]) -> Answer:
    against, limit = doubts(metrics)
    graded = worst(graded, limit)
    text = {
        "yes": "Its energies can be read as log-densities, up to one constant.",
        "partly": "It has the shape of the density, but its values are off: only rank with it.",
        "no": "Its energies are not log-densities; do not compare likelihoods with them.",
    }[graded]
    if not math.isfinite(metrics.get("kl", 0.0)):
        text = NOT_NORMALISED
    whole = " ".join([text + _outside(metrics), *against])
    return Answer("density", graded, ", ".join(measured), whole)


def _slice(metrics: Metrics) -> list[str]:
    if "slice_tv" not in metrics:
        return []
    return [f"total variation on the slice {number(metrics['slice_tv'])}"]


def _outside(metrics: Metrics) -> str:
    outside = metrics.get("mass_outside", 0.0)
    said = metrics.get("mass_elsewhere", 0.0) > MASS_OUTSIDE
    return f" {outside:.0%} of its mass lies where there is no data." * (
        outside > MASS_OUTSIDE and not said
    )


# Data whose density is unknown.


def _likelihood(metrics: Metrics) -> Answer:
    """The answer from held-out points, under the model and two plain models."""
    test = worst_case = metrics["log_likelihood_test"]
    plain = {
        name: metrics[f"log_likelihood_{key}"]
        for key, name in (("gaussian", "Gaussian"), ("kde", "kernel density estimate"))
        if f"log_likelihood_{key}" in metrics
    }
    measured = f"log-likelihood of held-out points {number(test, 4)} nats"
    on_grid = "log_z_error" in metrics
    if not on_grid and "log_likelihood_low" in metrics:
        worst_case, high = metrics["log_likelihood_low"], metrics["log_likelihood_high"]
        measured += f" (between {number(worst_case, 4)} and {number(high, 4)})"
    measured = ", ".join([measured, *(f"{name} {number(v, 4)}" for name, v in plain.items())])
    if math.isnan(test):
        return Answer("density", "no", measured, NOT_NORMALISED)
    text = ""
    if not metrics.get("log_z_error", 0.0) <= LOG_Z_ERROR:
        text = "The grid is too coarse to normalise the density: raise evaluation.grid."
    elif not on_grid and bracket(metrics) == "loose":
        text = f"The bracket of its log-likelihood {LOOSE_BRACKET}"
    elif len(plain) < 2:
        text = "There is no plain model of this data to compare it with."
    if text:
        return Answer("density", "not measured", measured, text)
    gaussian, best = plain["Gaussian"], max(plain.values())
    both = "as under a kernel density estimate and a Gaussian"
    if worst_case >= best - LIKELIHOOD_TOLERANCE and not on_grid and not _stays(metrics):
        graded: Grade = "partly"
        text = f"Held-out points seem as likely under it {both}, but {ELSEWHERE}"
    elif worst_case >= best - LIKELIHOOD_TOLERANCE:
        graded = "yes"
        text = (
            f"Held-out points are as likely under it {both}, or more so (within "
            f"{LIKELIHOOD_TOLERANCE:g} nats). How close it is to the true density cannot be known."
        )
    elif test >= best - LIKELIHOOD_TOLERANCE:
        graded = "partly"
        text = (
            f"Held-out points seem as likely under it {both}, but the lower end of its bracket is "
            "below them."
        )
    elif test > gaussian:
        graded = "partly"
        text = "It is better than a Gaussian, but a kernel density estimate is better than it."
    else:
        graded, text = "no", "A Gaussian with the data's moments is the better density."
    against, limit = doubts(metrics)
    whole = " ".join([text + _outside(metrics), *against])
    return Answer("density", worst(graded, limit), measured, whole)


def likelihood_line(metrics: Metrics) -> str:
    """Log-likelihood of test points and how far to rely on it, for the terminal."""
    of, test = bracket(metrics), metrics.get("log_likelihood_test")
    if "log_z_error" in metrics and test is not None:
        coarse = not metrics["log_z_error"] <= LOG_Z_ERROR
        return f"{number(test, 4)} nats (on a grid{', too coarse to rely on' if coarse else ''})"
    if of == "failed":
        return f"not measured: {FAILED}"
    if of == "none":
        return "not measured: evaluation.ais is not set"
    if test is None or "log_likelihood_low" not in metrics:
        return "not measured: there are no test points"
    low, high = number(metrics["log_likelihood_low"], 4), number(metrics["log_likelihood_high"], 4)
    if of == "loose":
        return f"loose bracket: between {low} and {high}, do not rely on it"
    forward, reverse = (number(metrics[f"log_z_ess_{way}"], 2) for way in ("forward", "reverse"))
    return (
        f"{number(test, 4)} nats (between {low} and {high}; ESS {forward} forward, "
        f"{reverse} reverse)"
    )
