"""Walkers in a run: log Z and the held-out log-likelihood, in nats, while it trains.

    log-likelihood = -mean U over validation points - log Z - log_scale      in the data's own units

U is c E without tempering, the marginal one for classifiers, of the weights that `train` returns:
the average where there is one. Validation points are never trained on and never test points: the
validation part of finite data, or a fixed fresh sample where data can be drawn without end.

Walkers have a generator of their own and change nothing in the run, so training is the same to the
bit without them. Only early stopping (stopping.py) lets them decide something: when a run ends, and
which weights are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from coldness.energies import Energy
from coldness.likelihood.ais import NotFinite
from coldness.likelihood.potential import potential
from coldness.likelihood.walkers import REST, Estimate, Population
from coldness.objectives import Term
from coldness.seeds import own_generator
from coldness.tensor_files import EVERY, Maybe
from coldness.training.settings import Settings
from coldness.training.stopping import Stopping

OF_Z = ("live_log_z", "live_log_z_error", "live_ess")
OF_POINTS = ("live_log_likelihood", "live_log_likelihood_error")
"""Columns of metrics.csv; the last two where there are validation points."""

FALL, ERRORS = 1.0, 5.0
"""A log-likelihood this many nats, and this many of its errors, below the best is a warning."""

NO_CONFINEMENT = (
    "the energy has no term that confines it, so Z may be infinite (energy.reference_std adds one)"
)
CLAMPED = "chains are clamped to a box, but Z is that of the whole space"
COLLAPSED = "few walkers carry all the weight (collapsed effective sample size)"

NOT_COMPARED = (
    "early stopping could not compare the last {} checks: log Z is not known to within live.renew "
    "(more live.chains or live.levels make it more accurate)"
)

News = tuple[Literal["warning", "note"], str]


class Measured(Protocol):
    """The interface of a run that walkers measure."""

    iteration: int
    energy: Energy

    def averaged(self) -> AbstractContextManager[None]:
        """The energy has the weights that `train` returns inside this context."""


def why_not(s: Settings) -> str:
    """Why log Z cannot be measured with these settings; empty if it can."""
    if not s.energy.confined:
        return NO_CONFINEMENT
    if any(source.kernel.box is not None for source in (*s.sources, s.sampling)):
        return CLAMPED
    return ""


class Live:
    """The walkers of one run, and what came of their measurements.

    Args:
        s: settings of the run, with an energy that is built; `live` None for no walkers.
        device: of the walkers.
    Raises:
        ValueError: the run is to be stopped by what cannot be measured.
    """

    def __init__(self, s: Settings, device: torch.device | str = "cpu") -> None:
        self.domain, self.terms = s.data.domain, s.terms
        self.stopping = Stopping(s.stop)
        self.population: Population | None = None
        self.points = torch.empty(0)
        self.reason, self.noted, self.collapsed = "", "", 0
        self.news: list[News] = []
        self.best = -math.inf
        self.last: dict[str, float] = {}
        if s.live is None:
            return
        self.reason = why_not(s)
        self.population = Population(s.live, own_generator(s.seed, "walkers", device))
        self.points = s.data.held_out_points(s.live.points, own_generator(s.seed, "validation"))
        self.log_scale = self.domain.log_scale_of(self.points) if len(self.points) else 0.0
        if s.stop is not None and self.reason:
            raise ValueError(f"stop needs log Z, which cannot be measured: {self.reason}")
        if s.stop is not None and not len(self.points):
            raise ValueError(
                "stop needs data with a validation part (data.validation, such as 0.1)"
            )

    @property
    def done(self) -> bool:
        """Whether training ends here."""
        return self.stopping.done

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of metrics.csv; none if nothing is ever measured."""
        if self.population is None or not (self.population.begun or not self.reason):
            return ()
        return OF_Z + (OF_POINTS if len(self.points) else ())

    def begin(self, run: Measured) -> None:
        """Brings the walkers to the first weights, unless they were restored with the run."""
        if self.population is None or self.population.begun:
            return
        if not self.reason:
            try:
                with run.averaged():
                    self.population.begin(run.energy, self.domain.shape)
            except NotFinite as error:
                self.reason = str(error)
        self._note(self.reason)

    def look(self, run: Measured) -> dict[str, float | None]:
        """Measures after an iteration if it is due; None for columns that are not measured."""
        row: dict[str, float | None] = dict.fromkeys(self.columns)
        if self.population is None or not row or self.reason:
            return row
        if run.iteration % self.population.how.every:
            return row
        with run.averaged():
            try:
                found = self.population.advance(run.energy)
            except NotFinite as error:
                self.reason = str(error)
                self._note(self.reason)
                return row
            measured = self._metrics(found, run.energy)
            if "live_log_likelihood" in measured and found.error <= self.population.how.renew:
                self._judge(measured, run)
            elif self.stopping.skip():
                self.news.append(("note", NOT_COMPARED.format(self.stopping.skipped)))
        self.collapsed = self.collapsed + 1 if found.collapsed else 0
        if self.collapsed > REST:
            self._note(COLLAPSED)
        self.last = measured
        return {**row, **measured}

    def told(self) -> list[News]:
        """What is to be written down since the last call."""
        news, self.news = self.news, []
        return news

    def _metrics(self, found: Estimate, energy: Energy) -> dict[str, float]:
        """Of the walkers and of validation points; a collapsed log Z is left out."""
        if found.collapsed:
            return {"live_ess": found.ess}
        measured = {
            "live_log_z": found.log_z, "live_log_z_error": found.error, "live_ess": found.ess
        }  # fmt: skip
        if len(self.points):
            u = potential(energy, self.points)
            mean, error = float(u.mean()), float(u.std()) / math.sqrt(len(u))
            value = -mean - found.log_z - self.log_scale
            measured["live_log_likelihood"] = value
            measured["live_log_likelihood_error"] = math.hypot(error, found.error)
        return measured

    def _judge(self, measured: Mapping[str, float], run: Measured) -> None:
        """Selection, and a warning where the log-likelihood fell."""
        value, error = (measured[name] for name in OF_POINTS)
        self.stopping.check(value, run.iteration, lambda: self._weights(run))
        if self.done:
            kept = self.stopping
            self.news.append(
                (
                    "note",
                    f"ended early: no better held-out log-likelihood for {kept.since} checks; the "
                    f"weights of iteration {kept.iteration} are kept ({kept.best:.4g} nats)",
                )
            )
        if value < self.best - max(FALL, ERRORS * error):
            text = f"held-out log-likelihood of {value:.4g} nats, {self.best:.4g} at best"
            self.news.append(("warning", text))
        self.best = max(self.best, value)

    def _weights(self, run: Measured) -> dict[str, Any]:
        return {"energy": run.energy.state_dict(), "kept": _states(self.terms)}

    def _note(self, reason: str) -> None:
        """Says once why log Z is not measured.

        Walkers that collapse while the first weights change fast are no news: they start anew after
        REST moves. It is news if that did not help.
        """
        if reason and reason != self.noted:
            self.news.append(("note", f"log Z is not measured while training: {reason}"))
        self.noted = reason

    def restore(self, energy: Energy, kept: dict[str, nn.Module | Tensor]) -> None:
        """Gives a copy of the model the weights that were selected, if any were.

        Args:
            energy: of the copy.
            kept: what its terms keep; modules and tensors in it are replaced.
        """
        best = self.stopping.weights
        if best is None:
            return
        energy.load_state_dict(best["energy"])
        for name, value in kept.items():
            if isinstance(value, nn.Module):
                value.load_state_dict(best["kept"][name])
            else:
                kept[name] = best["kept"][name]

    def state_dict(self) -> dict[str, Any] | None:
        if self.population is None:
            return None
        return {
            "population": self.population.state_dict(),
            "stopping": self.stopping.state_dict(),
            "reason": self.reason,
            "noted": self.noted,
            "collapsed": self.collapsed,
            "best": self.best,
            "last": dict(self.last),
        }

    def form(self, run: Measured) -> dict[str, Any] | None:
        """What stands for a state, in tensor_files.check_form."""
        state = self.state_dict()
        if state is None:
            return None
        stopping = {**state["stopping"], "weights": Maybe(self._weights(run))}
        return {**state, "stopping": stopping, "last": {EVERY: 0.0}}

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        """Restores a state; walkers start anew where their number has changed."""
        if self.population is None or state is None:
            return
        self.stopping.load_state_dict(state["stopping"])
        self.best, self.last = state["best"], dict(state["last"])
        self.reason, self.noted = state["reason"], state["noted"]
        self.collapsed = state["collapsed"]
        self.news = []
        saved = state["population"]
        if len(saved["y"]) in (0, self.population.how.chains):
            self.population.load_state_dict(saved)


def _states(terms: list[Term]) -> dict[str, Any]:
    """What the terms keep, as tensors."""
    return {
        name: value.state_dict() if isinstance(value, nn.Module) else value
        for term in terms
        for name, value in term.kept().items()
    }
