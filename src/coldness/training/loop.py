"""Training: one iteration, top to bottom. The loop around it is in fit.py.

The loss is divided by the coldness c, so that the size of an update depends on the network and the
learning rate and not on the temperature (Anatomy, practical appendix, Eqs. 1A to 4A).

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), Algorithm 1 and practical appendix.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, Algorithm 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from coldness.batching import checkpointed
from coldness.chains.source import repeated
from coldness.data import HeldOut, Labelled
from coldness.energies import ClassifierEnergy, Conditional, Coordinates, Energy, check_uncoupled
from coldness.guard.remedies import Relief
from coldness.kernels import worth_compiling
from coldness.kernels.run import frozen
from coldness.objectives import Batch
from coldness.precision import autocast
from coldness.runs.files import BadFile
from coldness.runs.log import ATTEMPT
from coldness.schedules import value_at
from coldness.seeds import generators
from coldness.training.ema import MovingAverage
from coldness.training.settings import Settings

EXAMPLES_FOR_COORDINATES = 20_000
VALUES_FOR_COORDINATES = 2**24
"""At most so many examples, and of large ones so many values, tell the coordinates."""

VALUES_FOR_COVARIANCE = 2**27
"""Of finite data, whose every example is taken once where coordinates are full: a covariance needs
many examples a dimension. 43,690 images of 3 x 32 x 32."""

EXAMPLES_AT_ONCE = 500
"""Of the validation part."""


class Training:
    """A run in memory: all mutable things, and the iteration that changes them.

    Args:
        settings: what the run is made of. Its energy, sources and starts are used in place.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        settings.use_threads()
        fabric = Fabric(accelerator="auto", devices=1)
        self.fabric = fabric
        self.iteration = 0
        self.attempt = 0
        self.seconds = 0.0
        self.accuracy = 0.0
        self.x_model = torch.empty(0)
        self.guard_state: dict[str, Any] | None = None
        self.relief = Relief()
        self.sources = settings.sources
        self.data_generator, self.chain_generator = generators(settings.seed, fabric.device)
        self.energy = settings.energy
        values = math.prod(settings.data.shape)
        examples = min(EXAMPLES_FOR_COORDINATES, max(1, VALUES_FOR_COORDINATES // values))
        x_data = settings.data.sample(examples, self.data_generator)
        if settings.preconditioner == "full" and isinstance(settings.data, HeldOut):
            train = settings.data.train
            order = torch.randperm(len(train), generator=self.data_generator)
            x_data = train[order[: VALUES_FOR_COVARIANCE // values]]
        if settings.preconditioner != "none" and any(
            isinstance(part, Energy) and part is not self.energy for part in self.energy.modules()
        ):
            raise ValueError("a preconditioner needs an energy that is not made of others")
        self.energy.coordinates = Coordinates.estimate(x_data, settings.preconditioner)
        check_uncoupled(self.energy, x_data)
        self.parameters = list(self.energy.parameters())
        optimiser = settings.optimiser(self.parameters)
        self.model, self.optimiser = fabric.setup(self.energy, optimiser)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.ema = None if settings.ema is None else MovingAverage(self.energy, settings.ema)
        for source in settings.sources:
            source.start.prepare(
                x_data.to(fabric.device), self.energy.coordinates, self.chain_generator
            )
        self.contrasts = settings.contrasts()
        self.compiled = [_compile(settings, source.steps) for source in settings.sources]

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Runs one iteration of a copy, so that settings that cannot run are refused beforehand."""
        trial = cls(replace(deepcopy(settings), compile="never"))
        trial.iterate()

    def iterate(self) -> dict[str, Tensor | float]:
        """One update of the network; gives the metrics of this iteration."""
        s, t, n = self.settings, self.iteration, self.settings.iterations
        metrics: dict[str, Tensor | float] = {ATTEMPT: self.attempt}

        # Data, with noise where asked (Eq. 5A), and classes where chains have them.
        y_data = None
        if s.conditional:
            x_data, y_data = self._labelled()
        else:
            x_data = self._noisy(s.data.sample(s.batch_size, self.data_generator))

        # Negatives: chains on (1 - beta) U, from every source.
        negatives = []
        for k, source in enumerate(self.sources):
            tempering = s.tempering_of(source, t, self.relief.beta_of)
            with self.autocast():
                chains = source.draw(
                    self.energy,
                    x_data,
                    self.chain_generator,
                    tempering=tempering,
                    step_scale=value_at(source.step_scale, t, n) * self.relief.step_scale(source),
                    compiled=self.compiled[k],
                    labels=y_data,
                    at_once=s.at_once,
                )
            negatives.append(chains.x)
            # |dE|, as in the Anatomy paper: without coldness and, where there is any, tempering.
            r = chains.gradient_norm / (self.energy.coldness * (tempering or 1))
            metrics.update(_of(k, {"r": r, "acceptance": chains.acceptance}))
            metrics.update(_of(k, source.metrics()))

        # Contrast and terms, from one forward pass.
        sizes = [len(x) for x in (x_data, *negatives)]
        labels = None if y_data is None else torch.cat([repeated(y_data, m) for m in sizes])
        with self.autocast():
            u_data, *u_model = self._potentials(torch.cat([x_data, *negatives]), labels).split(
                sizes
            )
        losses = []
        for members in self.contrasts:
            beta = self.relief.beta_of(value_at(s.beta_of(s.sources[members[0]]), t, n))
            weights = [s.sources[k].weight for k in members]
            loss, of_contrast = s.contrast(u_data, [u_model[k] for k in members], beta, weights)
            losses.append(loss / self.energy.coldness)
            metrics.update(_of(members[0], {**of_contrast, "beta": beta}))
            for k in members:
                shared = len(members) > 1
                metrics.update(_of(k, _of_source(u_data, u_model[k], shared, k == members[0])))
        loss = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        if s.terms:
            metrics["contrast"] = loss.detach()
            wanted = any(term.wants_labels for term in s.terms)
            labelled = self._labelled() if wanted else None
            batch = Batch(
                self.energy, x_data, torch.cat(negatives), u_data, torch.cat(u_model), labelled,
                s.at_once,
            )  # fmt: skip
            with self.autocast():
                of_terms = [term(batch) for term in s.terms]
            metrics.update(
                (_snake(type(term).__name__), value.detach())
                for term, value in zip(s.terms, of_terms, strict=True)
            )
            loss = loss + torch.stack(of_terms).sum()

        # Update.
        factor = value_at(s.learning_rate, t, n) * self.relief.rate
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        for parameter in self.parameters:
            parameter.grad = None
        self.fabric.backward(loss)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if s.clip_gradient is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, s.clip_gradient, norm)
        least = max(s.least_grad_scale, self.relief.least_grad_scale)
        starved = least > 0 and _grad_scale(metrics) < least
        if not starved:
            self.optimiser.step()
            if self.ema is not None:
                self.ema.update()
        self.iteration += 1

        self.x_model = negatives[0]
        metrics.update(loss=loss.detach(), parameter_gradient=norm)
        metrics["learning_rate"] = factor * self.rates[0]
        if s.least_grad_scale > 0:
            metrics["left_out"] = float(starved)
        if s.validate_every:
            if t % s.validate_every == 0 or t == n - 1:
                self.accuracy = self._validate()
            metrics["accuracy_validation"] = self.accuracy
        return metrics

    def _labelled(self) -> tuple[Tensor, Tensor]:
        """Examples and their classes."""
        s = self.settings
        assert isinstance(s.data, Labelled)
        x, y = s.data.sample_labelled(s.batch_size, self.data_generator)
        return self._noisy(x), y.to(self.fabric.device)

    def _noisy(self, x: Tensor) -> Tensor:
        """Examples on the device, with the noise of data in the coordinates kernels move in."""
        x = x.to(self.fabric.device)
        if self.settings.data_noise == 0 and not self.relief.data_noise:
            return x
        noise = torch.empty_like(x).normal_(generator=self.chain_generator)
        return x + self.energy.coordinates.push(self._data_noise(self.iteration) * noise)

    def _potentials(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """U of examples and chains, of their classes where there are labels; in parts if asked."""
        return checkpointed(self._potential, self.settings.at_once, x, labels)

    def _potential(self, x: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None:
            return self.model(x)
        assert isinstance(self.energy, Conditional)
        return self.energy.given(labels)(x)

    def _validate(self) -> float:
        """Accuracy on the validation part; reads it back from the device."""
        data, energy = self.settings.data, self.energy
        assert isinstance(data, Labelled)
        assert isinstance(energy, ClassifierEnergy)
        right, size = 0, min(EXAMPLES_AT_ONCE, self.settings.at_once or EXAMPLES_AT_ONCE)
        with frozen(list(energy.modules())), torch.no_grad(), self.autocast():
            for x, y in zip(
                data.validation.split(size),
                data.validation_labels.split(size),
                strict=True,
            ):
                guess = energy.logits(x.to(self.fabric.device)).argmax(1)
                right += int((guess.cpu() == y).sum())
        return right / len(data.validation_labels)

    def autocast(self) -> AbstractContextManager[object]:
        """In which networks run."""
        return autocast(self.settings.precision, self.fabric.device)

    def take(self, relief: Relief) -> None:
        """Puts relief in force, in place of what was."""
        self.relief = relief
        self.sources = [relief.source_of(source) for source in self.settings.sources]

    def reseed(self) -> None:
        """New random numbers, those of the attempt."""
        self.data_generator, self.chain_generator = generators(
            self.settings.seed, self.fabric.device, self.attempt
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything mutable."""
        return {
            "iteration": self.iteration,
            "attempt": self.attempt,
            "seconds": self.seconds,
            "accuracy": self.accuracy,
            "energy": self.energy.state_dict(),
            "optimiser": self.optimiser.optimizer.state_dict(),
            "ema": None if self.ema is None else self.ema.average,
            "sources": [source.state_dict() for source in self.settings.sources],
            "data_generator": self.data_generator.get_state(),
            "chain_generator": self.chain_generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        try:
            self.energy.load_state_dict(state["energy"])
            self.optimiser.optimizer.load_state_dict(state["optimiser"])
            if self.ema is not None:
                self.ema.load(state["ema"])
            for source, saved in zip(self.settings.sources, state["sources"], strict=True):
                source.load_state_dict(saved)
            self.data_generator.set_state(state["data_generator"])
            self.chain_generator.set_state(state["chain_generator"])
            self.iteration, self.seconds = state["iteration"], state["seconds"]
            self.attempt = state.get("attempt", 0)  # runs of 0.3 had none
            self.accuracy = state.get("accuracy", 0.0)  # runs of 0.4 had none
            self.guard_state = state.get("guard")
        except (KeyError, ValueError, RuntimeError, TypeError, AttributeError, IndexError) as error:
            line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise BadFile(f"the checkpoint does not fit this run's settings ({line})") from error

    def weights(self) -> dict[str, Tensor]:
        """Of the trained model, for `Settings.load_model_state`: the average where there is one."""
        if self.ema is None:
            return self.settings.model_state()
        with self.ema.in_place():
            return {name: value.clone() for name, value in self.settings.model_state().items()}

    def _data_noise(self, t: int) -> float:
        own = self.settings.data_noise_at(t)
        if not self.relief.data_noise:
            return own
        steps = [source.final_step(t, self.settings.iterations) for source in self.sources]
        return max(own, self.relief.data_noise * (2 * max(steps)) ** 0.5)


def _snake(name: str) -> str:
    """CrossEntropy as cross_entropy."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _of(k: int, metrics: Mapping[str, Tensor | float]) -> dict[str, Tensor | float]:
    """Metrics of source k, by names of their own from the second source on."""
    return {f"{name}_{k}" if k else name: value for name, value in metrics.items()}


def _of_source(
    u_data: Tensor, u_model: Tensor, shared: bool, first: bool
) -> dict[str, Tensor | float]:
    """Metrics of one source on U, beside those of its contrast.

    d_std is that of the computational loss over pairs (data n, chain n), where they are as many
    (Revisiting Contrastive Divergence, section 4.2.3). Where sources share a contrast, each has a
    d and a spread of its own; plain names of the first are the contrast's, so its own differ.
    """
    u_data, u_model = u_data.detach(), u_model.detach()
    metrics: dict[str, Tensor | float] = {}
    if len(u_data) == len(u_model):
        metrics["d_std"] = torch.std(u_data - u_model, correction=0)
    if shared:
        std, mean = torch.std_mean(u_model, correction=0)
        own = "_source" if first else ""
        metrics.update(
            {
                f"d{own}": u_data.mean() - mean,
                f"u_model_mean{own}": mean,
                f"u_model_std{own}": std,
            }
        )
    return metrics


def _grad_scale(metrics: Mapping[str, Tensor | float]) -> float:
    """The largest of all contrasts; reads it back from the device."""
    return max(float(v) for name, v in metrics.items() if name.startswith("grad_scale"))


def _compile(settings: Settings, steps: int) -> bool:
    if settings.compile == "auto":
        return worth_compiling(settings.iterations * steps)
    return settings.compile == "always"
