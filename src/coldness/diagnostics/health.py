"""What came of a training: one of five states, from its metrics, with what to do about it.

    diverging        a figure of the window is not finite; or |d| grew a hundredfold within it; or
                     nine of ten updates are expansions and |d| is above 100 nats: data and
                     negatives are driven apart, and no contraction answers
    starved          GradScale is below 0.05 in half of the updates: no negative is competitive
    oversaturated    long chains end at potentials far below the data's; or nine of ten updates are
                     contractions: the training's own chains do
    non-convergent   long chains do not settle where data is, or expansions still go on
    convergent       steady, and long chains look to the model as data does and no longer move

in this order: the first that holds. Where long chains are (`converged`, `oversaturated`,
`drifting`) is judged as in convergence.py, on the model itself, whatever beta was. d alone cannot
tell the last three apart: it is around 0 in all of them (practical appendix D). So without metrics
of long chains only strong oscillation or lasting expansion make a run non-convergent, and a steady
one has no state.

Nine of ten: in steady runs expansions were between 0.41 and 0.73 of all updates, whatever beta, up
to 0.85 where a good part of them was starved, and in those that ran away from 0.93 on; chance alone
moves the share of 2,000 by 0.01. But pairs of data and chains that start at it show the sign of the
smallest d, so that |d| is asked too: at 100 nats data is e^100 times as likely as negatives; steady
runs of the recipes stayed below 25. A hundredfold: a run that learns takes |d| to its level within
some hundred iterations, and up to sevenfold within 2,000 afterwards; one that explodes passes
orders of magnitude.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), sections 3.1 to 3.3 and practical appendix.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Appendix H.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from coldness.diagnostics.convergence import state as long_run_state
from coldness.diagnostics.mixing import SEPARATE
from coldness.diagnostics.oscillation import Oscillation
from coldness.diagnostics.series import health_metrics

__all__ = ["TrainingState", "health_metrics", "training_state"]

State = Literal["convergent", "non-convergent", "oversaturated", "diverging", "starved"]
Metrics = Mapping[str, float]

ONE_SIDED = 0.9
GROWTH = 100.0
SIZE = 100.0
STARVED = 0.5

SENTENCES: dict[State, str] = {
    "diverging": "Updates drive the potentials of data and negatives apart, and nothing answers.",
    "starved": "No negative is nearly as likely as data, so that there is nothing to learn from.",
    "oversaturated": "Chains find states that the model likes far better than data.",
    "non-convergent": "Training and its chains have not settled together.",
    "convergent": "Training is steady, and long chains stay where data is.",
}

ADVICE: dict[State, str] = {
    "diverging": "Lower the learning rate or the kernel's step, give chains more steps, or let a "
    "positive beta make bad negatives count less.",
    "starved": "Start chains nearer to the data or give them more steps, and set least_grad_scale "
    "so that such updates are left out.",
    "oversaturated": "Lower the learning rate towards the end, or use longer or persistent chains, "
    "or a positive beta; until then, draw samples with chains as long as in training.",
    "non-convergent": "Draw samples with chains as long as in training; if long ones are needed, "
    "use persistent chains with a falling learning rate.",
    "convergent": "Nothing needs to be done.",
}


@dataclass(frozen=True)
class TrainingState:
    """The state, the numbers behind it, what it means, and what to do."""

    state: State
    figure: str
    sentence: str
    advice: str


def training_state(metrics: Metrics) -> TrainingState | None:
    """Of the metrics of metrics.json, any of which may be missing; None where they say nothing."""
    state = _state(metrics)
    if state is None:
        return None
    notes = [SENTENCES[state], *_notes(metrics, state)]
    return TrainingState(state, "; ".join(_metrics(metrics)), " ".join(notes), ADVICE[state])


def _state(metrics: Metrics) -> State | None:
    expanding = not metrics.get("expansion_share", 0.0) < ONE_SIDED  # so is NaN
    starved = metrics.get("starved_share", 0.0) > STARVED
    large = not metrics.get("d_size", 0.0) < SIZE
    if not metrics.get("d_growth", 1.0) < GROWTH or (expanding and large and not starved):
        return "diverging"
    if starved:
        return "starved"
    found = _long_run(metrics)
    if found == "oversaturated" or metrics.get("contraction_share", 0.0) >= ONE_SIDED:
        return "oversaturated"
    if expanding or found == "drifting" or (found is None and _strong(metrics)):
        return "non-convergent"
    return "convergent" if found == "converged" else None


def _long_run(metrics: Metrics) -> str | None:
    """Where long chains are; None where there were none, or none long enough to see."""
    if metrics.get("lost_chains_short") or metrics.get("lost_chains_long"):
        return "drifting"
    if "u_shift" not in metrics or "u_drift" not in metrics:
        return None
    return long_run_state(metrics["u_shift"], metrics["u_drift"])


def _strong(metrics: Metrics) -> bool:
    return "variance_ratio" in metrics and _oscillation(metrics).kind == "strong"


def _oscillation(metrics: Metrics) -> Oscillation:
    return Oscillation(metrics["variance_ratio"], metrics["variance_ratio_limit"])


def _notes(metrics: Metrics, state: State) -> list[str]:
    """What qualifies the sentence."""
    notes = []
    expanding = not metrics.get("expansion_share", 0.0) < ONE_SIDED
    if state == "non-convergent" and _long_run(metrics) == "drifting":
        notes.append("Long chains are not where data is, or still on their way.")
    if state in ("oversaturated", "non-convergent") and expanding:
        notes.append("Nearly all updates still expand the energy: it has not come to rest.")
    if state in ("convergent", "non-convergent", "oversaturated") and _strong(metrics):
        notes.append("Updates take back most of those before them: the learning rate is high.")
    if state == "convergent" and not metrics.get("rhat", 1.0) < SEPARATE:
        notes.append("But chains keep to places of their own: the shares of modes are unchecked.")
    if state in ("convergent", "non-convergent") and metrics.get("beta", 0.0) > 0:
        notes.append("In training chains were hotter than the model, and weights made up for it.")
    return notes


def _metrics(metrics: Metrics) -> list[str]:
    """The numbers that there are, as text."""
    texts = []
    if "expansion_share" in metrics:
        window = f"{metrics['health_window']:,.0f} " if "health_window" in metrics else ""
        texts.append(f"{_percent(metrics['expansion_share'])} of the last {window}updates expand")
    if not metrics.get("d_size", 0.0) < SIZE:
        texts.append(f"|d| is {metrics['d_size']:.2g} nats")
    if not metrics.get("d_growth", 1.0) < GROWTH:
        texts.append(f"|d| grew {metrics['d_growth']:.2g} times")
    if metrics.get("starved_share", 0.0) > 0:
        texts.append(f"{_percent(metrics['starved_share'])} are starved")
    if "variance_ratio" in metrics:
        found = _oscillation(metrics)
        texts.append(f"{found.kind} oscillation (variance ratio {found.ratio:.2f})")
    for kind in ("short", "long"):
        if lost := metrics.get(f"lost_chains_{kind}"):
            texts.append(f"{lost:.0f} {kind}-run chains became NaN or infinite")
    if "u_shift" in metrics:
        texts.append(f"U of long chains {metrics['u_shift']:+.2g} standard deviations from data's")
    if "u_drift" in metrics:
        texts.append(f"moved by {metrics['u_drift']:+.2g} in the second half")
    if "rhat" in metrics:
        texts.append(f"R-hat {metrics['rhat']:.3g}")
    return texts


def _percent(share: float) -> str:
    return f"{share:.0%}" if math.isfinite(share) else "not a number"
