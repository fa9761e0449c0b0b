"""The state of a training run: one of five, from its metrics, with advice.

    diverging        a metric of the window is NaN or infinite; or |d| grew a hundredfold within it;
                     or nine of ten updates are expansions and |d| is above 100 nats: data and
                     negatives are driven apart, and no contraction follows
    starved          GradScale is below 0.05 in half of the updates: no negative is competitive
    oversaturated    long chains end at potentials far below the data's; or nine of ten updates are
                     contractions: the chains of training do
    non-convergent   long chains do not settle at the data, or expansions continue
    convergent       training is steady, and long chains have the potentials of data and no longer
                     move

The first state that holds, in this order, is reported. The state of long chains (`converged`,
`oversaturated`, `drifting`) is that of convergence.py, of the model itself, for any beta. d alone
cannot distinguish the last three states: it is around 0 in all of them (practical appendix D). So
without metrics of long chains only strong oscillation or lasting expansion makes a run
non-convergent, and a steady run has no state.

Nine of ten: in steady runs expansions were between 0.41 and 0.73 of all updates for any beta, up to
0.85 if many updates were starved, and 0.93 or more in diverging runs; the standard error of a
fraction of 2,000 updates is 0.01. For pairs of data and chains that start at data, even a tiny d
has a consistent sign, so |d| is also checked: at 100 nats data is e^100 times as likely as
negatives; steady runs of the recipes stayed below 25. A hundredfold: in a run that learns, |d|
reaches its level within some hundred iterations and grows up to sevenfold within 2,000 afterwards;
in a run that diverges it grows by orders of magnitude.

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

from coldness.diagnostics.convergence import state_of
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
    "diverging": "Updates drive the potentials of data and negatives apart without limit.",
    "starved": "No negative is nearly as likely as data, so there is nothing to learn from.",
    "oversaturated": "Chains find states that are far more likely under the model than data.",
    "non-convergent": "Training and its chains have not reached a common steady state.",
    "convergent": "Training is steady, and long chains stay at the data.",
}

ADVICE: dict[State, str] = {
    "diverging": "Lower the learning rate or the step size of the kernel, use more steps per "
    "chain, or use a positive beta, which gives bad negatives less weight.",
    "starved": "Start chains nearer to the data or use more steps per chain, and set "
    "least_grad_scale, which skips such updates.",
    "oversaturated": "Lower the learning rate towards the end, or use longer or persistent chains, "
    "or a positive beta; until then, draw samples with chains as long as in training.",
    "non-convergent": "Draw samples with chains as long as in training; if long chains are needed, "
    "use persistent chains with a decaying learning rate.",
    "convergent": "No action is needed.",
}


@dataclass(frozen=True)
class TrainingState:
    """The state, its metrics as text, what it means, and what to do."""

    state: State
    figure: str
    sentence: str
    advice: str


def training_state(metrics: Metrics) -> TrainingState | None:
    """The state according to metrics.json, of which any metric may be missing; None if unknown."""
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
    """The state of long chains; None if there were none, or none long enough."""
    if metrics.get("lost_chains_short") or metrics.get("lost_chains_long"):
        return "drifting"
    return state_of(metrics)


def _strong(metrics: Metrics) -> bool:
    return "variance_ratio" in metrics and _oscillation(metrics).kind == "strong"


def _oscillation(metrics: Metrics) -> Oscillation:
    return Oscillation(metrics["variance_ratio"], metrics["variance_ratio_limit"])


def _notes(metrics: Metrics, state: State) -> list[str]:
    """Sentences that qualify the first one."""
    notes = []
    expanding = not metrics.get("expansion_share", 0.0) < ONE_SIDED
    if state == "non-convergent" and _long_run(metrics) == "drifting":
        notes.append("Long chains are not at the data, or still move.")
    if state in ("oversaturated", "non-convergent") and expanding:
        notes.append("Nearly all updates still expand the energy: it is not stationary.")
    if state in ("convergent", "non-convergent", "oversaturated") and _strong(metrics):
        notes.append("Updates mostly undo the updates before them: the learning rate is high.")
    if state == "convergent" and not metrics.get("rhat", 1.0) < SEPARATE:
        notes.append("But chains do not mix between modes: the weights of modes are not checked.")
    if state in ("convergent", "non-convergent") and metrics.get("beta", 0.0) > 0:
        notes.append("In training, chains were hotter than the model; weights corrected for it.")
    return notes


def _metrics(metrics: Metrics) -> list[str]:
    """The available metrics as text."""
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
        texts.append(
            f"mean U of long chains {metrics['u_shift']:+.2g} standard deviations from data"
        )
    if "u_drift" in metrics:
        texts.append(f"changed by {metrics['u_drift']:+.2g} in the second half")
    if "rhat" in metrics:
        texts.append(f"R-hat {metrics['rhat']:.3g}")
    return texts


def _percent(share: float) -> str:
    return f"{share:.0%}" if math.isfinite(share) else "not a number"
