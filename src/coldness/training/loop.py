"""Training: one iteration, from top to bottom. build.py constructs it, fit.py runs the loop.

    data -> negatives of every source -> contrast -> terms -> update

The loss is divided by the coldness c, so that the size of an update depends on the network and the
learning rate and not on the temperature (Anatomy, practical appendix, Eqs. 1A to 4A).

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), Algorithm 1 and practical appendix.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coldness.batching import checkpointed
from coldness.diagnostics.weights import largest_beta_of
from coldness.guard.remedies import Cause, Relief
from coldness.guard.rescue import copied
from coldness.kernels.run import Chains, frozen
from coldness.limits import least_fraction
from coldness.metrics import source_key
from coldness.objectives import Batch, Weights, names_of
from coldness.objectives.contrast import moments, normalised
from coldness.precision import autocast
from coldness.runs.log import ATTEMPT
from coldness.seeds import generators
from coldness.tensor_files import EVERY, MISFITS, Maybe, check_form, form_of, misfit
from coldness.training.advice import advice, first_change
from coldness.training.effective import Effective, effective
from coldness.training.ema import MovingAverage
from coldness.training.live import Live
from coldness.training.settings import Settings

Metrics = dict[str, Tensor | float]


class Training:
    """A run in memory: all mutable state, and the iteration that changes it.

    Constructed by `build`.

    Args:
        settings: the parts of the run. The energy, sources and terms are used in place.
        fabric: of the device.
        optimiser: of the energy's parameters.
        ema: average of these parameters; None for none.
        data_generator: random numbers of the data, on the CPU.
        chain_generator: random numbers of the chains, on the device.
        compiled: for each source, whether its chains are compiled.
        live: walkers that measure the log-likelihood between iterations.
    """

    def __init__(
        self,
        settings: Settings,
        fabric: Fabric,
        optimiser: Any,
        ema: MovingAverage | None,
        data_generator: torch.Generator,
        chain_generator: torch.Generator,
        compiled: list[bool],
        live: Live,
    ) -> None:
        self.settings = settings
        self.fabric = fabric
        self.energy = settings.energy
        self.parameters = list(self.energy.parameters())
        self.optimiser = optimiser
        self.rates = [group["lr"] for group in optimiser.param_groups]
        self.ema = ema
        self.data_generator, self.chain_generator = data_generator, chain_generator
        self.compiled = compiled
        self.live = live
        self.contrasts = settings.contrasts()
        self.term_names = names_of(settings.terms)
        self.iteration = 0
        self.attempt = 0
        self.seconds = 0.0
        self.validated: dict[str, float] = {}
        self.x_model = torch.empty(0)
        self.weighed: list[tuple[Tensor, Tensor, float]] = []
        self.guard_state: dict[str, Any] | None = None
        self.held_out: dict[str, float] = {}
        self.relief = Relief()
        self.form: dict[str, Any] = {}  # of all mutable state, once `check` has seen it

    def iterate(self) -> Metrics:
        """Updates the network once; returns the metrics of this iteration."""
        s = self.settings
        now = effective(s, self.relief, self.iteration)
        metrics: Metrics = {ATTEMPT: self.attempt}

        # Data, with noise if configured (Eq. 5A), and their conditions if chains are conditional.
        given: Tensor | None = None
        if s.conditional and self.energy.classes:
            x_data, given = self._labelled(now)
        else:
            x_data = self._noisy(s.data.sample(s.batch_size, self.data_generator), now)
            given = self._latents(x_data) if s.conditional else None

        # Negatives: chains on (1 - beta) U, from every source.
        chains = [self._chains(k, now, x_data, given, metrics) for k in range(len(now.sources))]
        negatives = [c.x for c in chains]

        # One forward pass; potentials are read from its outputs.
        sizes = [len(x) for x in (x_data, *negatives)]
        own = [c.given for c in chains if c.given is not None]
        conditions = None if given is None else torch.cat([given, *own])
        with self.autocast():
            outputs = checkpointed(self.energy.outputs, s.at_once, torch.cat([x_data, *negatives]))
            u = self.energy.coldness * self.energy.read(outputs, conditions)
        u_data, *u_model = u.split(sizes)

        # Contrast and terms.
        carried = [c.log_weights for c in chains]
        loss, weights = self._contrast(now, u_data, u_model, carried, metrics)
        if s.terms:
            batch = Batch(
                self.energy, x_data, torch.cat(negatives), u_data, torch.cat(u_model),
                labelled=self._labelled(now) if s.wants_labels else None,
                at_once=s.at_once,
                outputs_data=outputs[: sizes[0]],
                outputs_model=outputs[sizes[0] :],
                given=given,
                chains=negatives,
                weights=weights,
                generator=self.chain_generator,
                iteration=self.iteration,
                iterations=s.iterations,
            )  # fmt: skip
            loss = loss + self._terms(batch, loss, metrics)

        self._update(now, loss, metrics)
        self.x_model = negatives[0]
        return metrics

    def _chains(
        self, k: int, now: Effective, x_data: Tensor, given: Tensor | None, metrics: Metrics
    ) -> Chains:
        """Chains of source k, and their statistics."""
        source, tempering = now.sources[k], now.temperings[k]
        with self.autocast():
            chains = source.draw(
                self.energy,
                x_data,
                self.chain_generator,
                tempering=tempering,
                step_scale=now.step_scales[k],
                compiled=self.compiled[k],
                given=given,
                at_once=self.settings.at_once,
            )
        # |dE|, as in the Anatomy paper: without coldness and without tempering.
        r = chains.gradient_norm / (self.energy.coldness * (tempering or 1))
        found = {"r": r, "acceptance": chains.acceptance, **source.metrics()}
        metrics.update({source_key(name, k): value for name, value in found.items()})
        return chains

    def _contrast(
        self,
        now: Effective,
        u_data: Tensor,
        u_model: Sequence[Tensor],
        carried: Sequence[Tensor | None],
        metrics: Metrics,
    ) -> tuple[Tensor, list[Weights]]:
        """The loss of all contrasts, on the scale of E, and their weights."""
        s, losses, weights = self.settings, [], []
        self.weighed = []
        for members in self.contrasts:
            first = members[0]
            beta = now.betas[first]
            found = s.contrast(
                u_data,
                [u_model[k] for k in members],
                beta,
                [s.sources[k].weight for k in members],
                [carried[k] for k in members],
            )
            losses.append(found.loss / self.energy.coldness)
            weights.append(found.weights)
            together = torch.cat([u_model[k].detach() for k in members])
            self.weighed.append((together, found.weights.w, beta))
            metrics.update({source_key(name, first): v for name, v in found.metrics.items()})
            metrics[source_key("beta", first)] = beta
            for k in members:
                metrics.update(_of_source(k, members, u_data, u_model[k], carried[k]))
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum(), weights

    def _terms(self, batch: Batch, contrast: Tensor, metrics: Metrics) -> Tensor:
        """The sum of the terms' losses."""
        metrics["contrast"] = contrast.detach()
        with self.autocast():
            losses = [term(batch) for term in self.settings.terms]
        for name, term, loss in zip(self.term_names, self.settings.terms, losses, strict=True):
            metrics[name] = loss.detach()
            metrics.update({f"{name}_{key}": value for key, value in term.metrics().items()})
        return torch.stack(losses).sum()

    def _update(self, now: Effective, loss: Tensor, metrics: Metrics) -> None:
        """One step of the optimiser, skipped if starved, and then the terms' own updates."""
        s, t, n = self.settings, self.iteration, self.settings.iterations
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * now.rate
        for parameter in self.parameters:
            parameter.grad = None
        self.fabric.backward(loss)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if s.clip_gradient is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, s.clip_gradient, norm)
        starved = now.least_grad_scale > 0 and _grad_scale(metrics) < now.least_grad_scale
        if not starved:
            if self.ema is not None and self.ema.how.first:
                self.ema.update(t)
            self.optimiser.step()
            self.energy.updated()
            if self.ema is not None and not self.ema.how.first:
                self.ema.update(t)
        for term in s.terms:
            term.update(t, n)
        self.iteration += 1

        metrics.update(loss=loss.detach(), parameter_gradient=norm)
        metrics["learning_rate"] = now.rate * self.rates[0]
        if s.least_grad_scale > 0:
            metrics["left_out"] = float(starved)
        if s.validate_every:
            if t % s.validate_every == 0 or t == n - 1:
                self._validate()
            metrics.update(self.validated)

    def _validate(self) -> None:
        """Metrics of the terms on examples that are never trained on."""
        s = self.settings
        with frozen(list(self.energy.modules())), torch.no_grad(), self.autocast():
            for term in s.terms:
                self.validated.update(term.validate(self.energy, s.data, s.at_once))

    def _labelled(self, now: Effective) -> tuple[Tensor, Tensor]:
        """Examples and their classes."""
        s = self.settings
        assert s.data.labelled is not None
        x, y = s.data.labelled.sample_labelled(s.batch_size, self.data_generator)
        return self._noisy(x, now), y.to(self.fabric.device)

    def _latents(self, x: Tensor) -> Tensor:
        """Latents (N, d) of examples, by the term that has them."""
        with torch.no_grad(), self.autocast():
            return next(t for t in self.settings.terms if t.has_latents).latents(x).to(x)

    def _noisy(self, x: Tensor, now: Effective) -> Tensor:
        """Examples on the device, with the noise of data in the coordinates kernels move in."""
        x = x.to(self.fabric.device)
        if now.data_noise is None:
            return x
        noise = torch.empty_like(x).normal_(generator=self.chain_generator)
        return x + self.energy.coordinates.push(now.data_noise * noise)

    def averaged(self) -> AbstractContextManager[None]:
        """The energy has the weights that `train` returns inside this context."""
        return nullcontext() if self.ema is None else self.ema.in_place()

    def autocast(self) -> AbstractContextManager[object]:
        """The precision context in which networks run."""
        return autocast(self.settings.precision, self.fabric.device)

    def check(self) -> None:
        """Runs one iteration and undoes it, so that settings that cannot run raise an error.

        Chains are not compiled. State that is in no checkpoint, such as counters of faults.py, is
        restored too.
        """
        s, state, compiled = self.settings, copied(self.state_dict()), self.compiled
        parts = [*(source.start for source in s.sources), *s.terms]
        before = [dict(vars(part)) for part in parts]
        self.compiled = [False] * len(compiled)
        self.iterate()
        self.form = {
            **form_of(self.state_dict()),
            "validated": {EVERY: 0.0},
            "live": Maybe(form_of(self.live.form(self))),
            "guard": Maybe({}),
            "held_out": {EVERY: 0.0},
        }
        self.compiled, self.x_model = compiled, torch.empty(0)
        for part, values in zip(parts, before, strict=True):
            vars(part).update(values)
        self.load_state_dict(state)

    def relieve(self, relief: Relief) -> None:
        """Applies this relief in place of the previous one."""
        self.relief = relief

    def betas(self, relief: Relief) -> list[float]:
        """Beta of every source under this relief, at the present iteration."""
        return effective(self.settings, relief, self.iteration).betas

    def largest_beta(self) -> float:
        """The largest beta at which the present negatives of every contrast keep least_fraction.

        They are those of one iteration, which is then undone.
        """
        self.check()
        return min(
            largest_beta_of(u.cpu(), w.cpu(), beta, least_fraction(len(u)))
            for u, w, beta in self.weighed
        )

    def advice(self, relief: Relief) -> str:
        """Which settings to change instead of this relief, in one sentence."""
        return advice(self.settings, relief, self.rates[0], self.iteration)

    def first_change(self, cause: Cause) -> str:
        """Which setting to change first where the guard gave up, in one sentence."""
        return first_change(self.settings, cause, self.rates[0])

    def reseed(self) -> None:
        """Seeds the random numbers anew, by the number of the attempt."""
        self.data_generator, self.chain_generator = generators(
            self.settings.seed, self.fabric.device, self.attempt
        )

    def state_dict(self) -> dict[str, Any]:
        """All mutable state."""
        s = self.settings
        return {
            "iteration": self.iteration,
            "attempt": self.attempt,
            "seconds": self.seconds,
            "validated": dict(self.validated),
            "energy": self.energy.state_dict(),
            "optimiser": self.optimiser.optimizer.state_dict(),
            "ema": None if self.ema is None else self.ema.average,
            "sources": [source.state_dict() for source in s.sources],
            "terms": [term.state_dict() for term in s.terms],
            "live": self.live.state_dict(),
            "data_generator": self.data_generator.get_state(),
            "chain_generator": self.chain_generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        s = self.settings
        try:
            self.energy.load_state_dict(state["energy"])
            self.optimiser.optimizer.load_state_dict(state["optimiser"])
            if self.ema is not None:
                self.ema.load(state["ema"])
            for source, saved in zip(s.sources, state["sources"], strict=True):
                source.load_state_dict(saved)
            for term, saved in zip(s.terms, state.get("terms", [{}] * len(s.terms)), strict=True):
                term.load_state_dict(saved)  # runs of 0.6 had none
            self.live.load_state_dict(state.get("live"))  # runs of 0.7 had none
            self.data_generator.set_state(state["data_generator"])
            self.chain_generator.set_state(state["chain_generator"])
            self.iteration, self.seconds = state["iteration"], state["seconds"]
            self.attempt = state.get("attempt", 0)  # runs of 0.3 had none
            self.validated = dict(state.get("validated", {}))  # nor of 0.6
            self.guard_state = state.get("guard")
            self.held_out = dict(state.get("held_out", {}))
        except MISFITS as error:
            raise misfit("the checkpoint does not fit this run's settings", error) from error

    def resume(self, state: dict[str, Any]) -> None:
        """Loads what a file holds; one iteration is tried and undone, for it may fail only there.

        Raises:
            BadFile: the state is not one of this run.
        """
        self.check_form(state, "the checkpoint")
        self.load_state_dict(state)
        guard_state, held_out = self.guard_state, self.held_out
        try:
            self.check()
        except MISFITS as error:
            raise misfit("the checkpoint does not run", error) from error
        self.guard_state, self.held_out = guard_state, held_out

    def check_form(self, state: dict[str, Any], at: str) -> None:
        """Raises BadFile for a state that is not of the form of this run's after an iteration."""
        known = {name: value for name, value in state.items() if name in self.form}
        check_form(known, self.form, at)


def _of_source(
    k: int, members: Sequence[int], u_data: Tensor, u_model: Tensor, carried: Tensor | None
) -> Metrics:
    """Metrics of source k on U, in addition to those of its contrast, which `members` share.

    d_std is the standard deviation of the computational loss over pairs (data n, chain n), if their
    numbers are equal (Revisiting Contrastive Divergence, section 4.2.3). It is left out if chains
    carry weights, because pairs then do not count equally. Where sources share a contrast, each has
    a d and a spread of its own. The plain names are those of the contrast, so the metrics of the
    first source have other names.
    """
    u_data, u_model = u_data.detach(), u_model.detach()
    metrics: Metrics = {}
    if len(u_data) == len(u_model) and carried is None:
        metrics["d_std"] = torch.std(u_data - u_model, correction=0)
    if len(members) > 1:
        std, mean = moments(u_model, None if carried is None else normalised(carried).to(u_model))
        own = "_source" if k == members[0] else ""
        metrics.update(
            {
                f"d{own}": u_data.mean() - mean,
                f"u_model_mean{own}": mean,
                f"u_model_std{own}": std,
            }
        )
    return {source_key(name, k): value for name, value in metrics.items()}


def _grad_scale(metrics: Mapping[str, Tensor | float]) -> float:
    """The largest GradScale of all contrasts, read back from the device."""
    return max(float(v) for name, v in metrics.items() if name.startswith("grad_scale"))
