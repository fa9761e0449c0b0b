"""A source: one stream of negatives.

    start + kernel + number of steps + number of chains + weight

A model trains on a list of sources. With beta = 0 and the weights 1 (noise start) and lambda (data
start), the loss is the hybrid loss. With beta != 0, the weights multiply the importance weights
over the union of all sources, whatever their kernels: one good negative among them is enough.

A source may have its own beta. Sources with the same beta share one set of importance weights, and
the losses of different betas are added, which trains several objectives at once.

Chains of images may be changed at random before their steps, by a transition such as a crop or a
change of colour (Du et al., 2021; CLEL). Transitions carry chains between modes that steps do not
connect. They do not leave exp(-U) invariant, and nothing corrects for them: the chains draw samples
of steps and transitions together, which are those of the model only as far as the steps after a
transition forget it. So there are transitions in training and in samples, which repeat what
training did, and none where chains are to show the density itself (`carry_on` with `settled`).

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Eq. 6.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 5 (proposes
    combining different samplers, several betas, and adapted samplers).
    Improved Contrastive Divergence Training of Energy-Based Models (Du, Li, Tenenbaum, Mordatch,
    2021), section 3.3 (transitions).
    Guiding Energy-based Models via Contrastive Latent Variables (Lee et al., 2023): one transition
    before the 60 steps of a visit.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from coldness.chains.adaptation import StepAdaptation
from coldness.chains.base import Adaptation, Start
from coldness.chains.join import in_sequence, side_by_side, stretch_of
from coldness.chains.noise import LikeData
from coldness.data.augmentation import Augmentation
from coldness.energies.base import Energy
from coldness.energies.coordinates import Coordinates
from coldness.kernels import Chains, ConstantSteps, Kernel, StepSchedule, run
from coldness.schedules import Schedule, value_at

LEADING = 3
"""The condition leads in one of so many parts of the steps."""


@dataclass
class Source:
    """One stream of negatives.

    Args:
        start: where chains begin.
        kernel: transition kernel of the chains.
        steps: number of steps per chain, >= 0.
        count: number of chains per iteration; None (null in YAML) for the batch size.
        weight: weight of this source in the loss, > 0; lambda in the hybrid loss.
        step_schedule: how the step changes along a chain.
        step_scale: factor that the step is multiplied by, a number or a schedule over training.
        beta: beta of this source's contrast; None (null in YAML) for the beta of the run.
        conditional: sample p(x|y) of a classifier with the classes of the data batch, or p(x|z) of
            an energy with latents with those of the data batch; a bank then provides slots of the
            same class, or continues chains with the latents that they began with.
        adaptation: changes the step during training: `StepAdaptation` (its arguments alone are
            enough) to a target acceptance rate, `InverseNormSteps` by a norm on the data; None
            (null in YAML) for a fixed step.
        transition: random change of chains before their steps, such as ResizedCrop, for images; it
            does not leave the model's density invariant; None (null in YAML) for none.
        transition_every: number of steps after which the next transition follows, >= 1; None (null
            in YAML) for `steps`: once per iteration, and in longer chains after as many steps.
        lead: factor, >= 1, that latents of a condition are multiplied by in the first third of the
            steps of samples, where chains from noise still choose between modes; 1 for none.
    """

    start: Start
    kernel: Kernel
    steps: int = 20
    count: int | None = None
    weight: float = 1.0
    step_schedule: StepSchedule = field(default_factory=ConstantSteps)
    step_scale: float | Schedule = 1.0
    beta: float | Schedule | None = None
    conditional: bool = False
    adaptation: StepAdaptation | Adaptation | None = None
    transition: Augmentation | None = None
    transition_every: int | None = None
    lead: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must be >= 0, got {self.steps}")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count must be >= 1, got {self.count}")
        if isinstance(self.step_scale, (int, float)) and not self.step_scale > 0:
            raise ValueError(f"step_scale must be > 0, got {self.step_scale}")
        if not self.weight > 0:
            raise ValueError(f"weight must be > 0, got {self.weight}")
        if self.adaptation is not None:
            self.adaptation.check(self.kernel, self.step_schedule)
        self.start.check(self.kernel, self.conditional)
        if not 1 <= self.lead < float("inf"):
            raise ValueError(f"lead must be >= 1, got {self.lead:g}")
        if self.transition_every is not None and self.transition is None:
            raise ValueError("transition_every needs a transition")
        if self.transition_every is not None and self.transition_every < 1:
            raise ValueError(f"transition_every must be >= 1, got {self.transition_every}")
        if self.transition is not None and self.start.weighted:
            raise ValueError(
                "a weighted bank cannot have a transition: it does not leave exp(-U) invariant, so "
                "the weights of chains would be wrong"
            )

    def check_examples(self, shape: tuple[int, ...]) -> None:
        """Raises ValueError if the transition cannot change examples of this shape.

        It is tried once.
        """
        if self.transition is None:
            return
        name = type(self.transition).__name__
        if len(shape) != 3:
            raise ValueError(
                f"transition {name} needs images (C, H, W), but examples have the shape {shape}"
            )
        changed = self.transition(torch.zeros(1, *shape), torch.Generator())
        if changed.shape != (1, *shape):
            raise ValueError(
                f"transition {name} changes the shape of examples from {shape} to "
                f"{tuple(changed.shape[1:])}"
            )

    def chains_for(self, batch_size: int) -> int:
        return batch_size if self.count is None else self.count

    def largest_step(self, t: int, n: int) -> float:
        """Returns the largest Langevin step h on U of a chain at iteration t of n, not adapted."""
        return self._langevin_step(t, n, float(self._factors().max()))

    def final_step(self, t: int, n: int) -> float:
        """Returns the last Langevin step h on U of a chain at iteration t of n, not adapted."""
        return self._langevin_step(t, n, float(self._factors()[-1]))

    def draw(
        self,
        energy: Energy,
        x_data: Tensor,
        generator: torch.Generator,
        *,
        tempering: float,
        step_scale: float = 1.0,
        compiled: bool = False,
        given: Tensor | None = None,
        at_once: int | None = None,
    ) -> Chains:
        """Draws negatives for this batch: starts chains, runs them on t * U, and puts them back.

        A transition changes the starts, and the states after every `transition_every` steps.
        Negatives are where chains end; if the start is weighted, where they began, with the weights
        they have there under the present U.

        Args:
            energy: the model.
            x_data: the data batch.
            generator: random number generator.
            tempering: t.
            step_scale: factor that the step is multiplied by.
            compiled: whether to compile the chain.
            given: classes or latents of the batch if the source is conditional, else None.
            at_once: number of chains to run at a time, to save memory; None for all.
        """
        at = energy.coordinates
        count = self.chains_for(len(x_data))
        if self.adaptation is not None:
            self.adaptation.before(energy, x_data)
        if given is None:
            x, slots = self.start.draw(count, x_data, at, generator)
        elif energy.latent:
            z = repeated(given, count)
            x, slots, given = self.start.draw_by_latent(z, x_data, at, generator)
        else:
            given = repeated(given, count)
            x, slots = self.start.draw_by_class(given, energy.classes, x_data, at, generator)
        h = self._step_size(tempering, step_scale)
        parts = []
        for first in range(0, count, at_once or count):
            part = slice(first, first + (at_once or count))
            u = energy if given is None else energy.given(given[part])
            parts.append(
                self._run(
                    u, x[part], self.steps, generator, tempering, h, compiled, self.step_schedule,
                    self.transition,
                )
            )  # fmt: skip
        chains = replace(parts[0] if len(parts) == 1 else side_by_side(parts), given=given)
        self.start.put(slots, chains.x, self.steps)
        if self.start.weighted:
            chains.log_weights = self._weigh(slots, chains, generator)
        if self.adaptation is not None:
            self.adaptation.after(
                energy if given is None else energy.given(given),
                self.kernel,
                chains,
                steps=self.steps,
                step_size=h,
                tempering=tempering,
                generator=generator,
            )
        # The negatives of weighted chains are where they began: `WeightedBank` says why.
        return replace(chains, x=x) if self.start.weighted else chains

    def _weigh(self, slots: Tensor | None, chains: Chains, generator: torch.Generator) -> Tensor:
        if slots is None or chains.first is None or chains.last is None:
            raise ValueError(
                f"chains with weights need slots, and a kernel whose states carry U, such as MALA; "
                f"{type(self.kernel).__name__} has no `potential_in`"
            )
        return self.start.weigh(slots, chains.first, chains.last, generator)

    def sample(
        self,
        energy: Energy,
        x_data: Tensor,
        count: int,
        generator: torch.Generator,
        *,
        steps: int | None = None,
        step_scale: float = 1.0,
        compiled: bool = False,
        given: Tensor | None = None,
    ) -> Chains:
        """Generates samples of the model with new chains from noise, without tempering.

        If the source starts at data, the noise is a Gaussian with the data's means and standard
        deviations instead, because chains that begin at data do not show what the model generates.

        Args:
            energy: the model.
            x_data: examples, for shape and scale.
            count: number of chains.
            generator: random number generator.
            steps: chain length; None for that of the source.
            step_scale: factor that the step is multiplied by.
            compiled: whether to compile the chain.
            given: conditions of the samples, such as classes (count,); None for p(x).
        """
        x = self.noise(energy, x_data, count, generator)
        steps = self.steps if steps is None else steps
        u = energy if given is None else energy.given(given)
        first = steps // LEADING if given is not None and energy.latent and self.lead > 1 else 0
        if not first:
            return self.carry_on(u, x, steps, generator, step_scale=step_scale, compiled=compiled)
        assert given is not None
        h, found = self._step_size(1.0, step_scale), []
        for of, begin, length in (
            (energy.given(self.lead * given), 0, first),
            (u, first, steps - first),
        ):
            schedule = stretch_of(self.step_schedule, begin, steps)
            found.append(
                self._run(of, x, length, generator, 1.0, h, compiled, schedule, self.transition)
            )
            x = found[-1].x
        return in_sequence(found, [first, steps - first])

    def sampler(self, x_data: Tensor, at: Coordinates, step_scale: float) -> Source:
        """Returns a source that samples the trained model without the data.

        Args:
            x_data: examples (N, ...); a start like the data keeps their means and scales.
            at: coordinates of the model.
            step_scale: value of the step scale at the end of training.
        """
        start = self.start if self.start.from_noise else LikeData()
        return Source(
            start=start.without_data(x_data, at),
            kernel=self.kernel,
            steps=self.steps,
            step_schedule=self.step_schedule,
            step_scale=step_scale,
            adaptation=deepcopy(self.adaptation),
            transition=self.transition,
            transition_every=self.transition_every,
            lead=self.lead,
        )

    def visits(self, iterations: int, batch_size: int) -> float:
        """Mean number of times a chain is continued: 1 unless chains persist in a bank."""
        return self.start.visits(iterations * self.chains_for(batch_size))

    def noise(
        self, energy: Energy, x_data: Tensor, count: int, generator: torch.Generator
    ) -> Tensor:
        """Returns the starting points of `sample`."""
        start = self.start if self.start.from_noise else LikeData()
        return start.fresh(count, x_data, energy.coordinates, generator)

    def carry_on(
        self,
        energy: Energy,
        x: Tensor,
        steps: int,
        generator: torch.Generator,
        *,
        step_scale: float = 1.0,
        settled: bool = False,
        compiled: bool = False,
    ) -> Chains:
        """Runs chains from x on U, without tempering.

        They follow the step schedule, with a transition before every `transition_every` steps. If
        `settled`, they keep the last step size and have no transitions: such chains show where the
        model's own density lies.
        """
        h, schedule, transition = (
            (self.last_step(step_scale), ConstantSteps(), None)
            if settled
            else (self._step_size(1.0, step_scale), self.step_schedule, self.transition)
        )
        return self._run(energy, x, steps, generator, 1.0, h, compiled, schedule, transition)

    def last_step(self, step_scale: float = 1.0) -> Tensor | float:
        """Returns the kernel's step size at the end of a chain on U, without tempering."""
        return self._step_size(1.0, step_scale) * float(self._factors()[-1])

    def metrics(self) -> dict[str, Tensor]:
        """Metrics of the start and of the step size, logged beside those of the chains."""
        steps = {} if self.adaptation is None else {"step_scale": self.adaptation.scale}
        return {**self.start.metrics(), **steps}

    def state_dict(self) -> dict[str, Any]:
        """Returns all mutable state."""
        return {"start": self.start.state_dict(), "step": self.step_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.start.load_state_dict(state["start"])
        self.load_step_state(state["step"])

    def step_state(self) -> dict[str, Tensor]:
        """Returns what sampling needs besides the energy: the adapted scale of the step."""
        return {} if self.adaptation is None else {"log_scale": self.adaptation.log_scale}

    def load_step_state(self, state: dict[str, Tensor]) -> None:
        if self.adaptation is not None:
            self.adaptation.log_scale = state["log_scale"]

    def _factors(self) -> Tensor:
        return self.step_schedule.factors(max(self.steps, 1))

    def _langevin_step(self, t: int, n: int, factor: float) -> float:
        scale = value_at(self.step_scale, t, n) * factor
        return replace(self.kernel, step_size=self.kernel.step_size * scale).langevin_step

    def _step_size(self, tempering: float, step_scale: float) -> Tensor | float:
        if not step_scale > 0:
            raise ValueError(f"step_scale must stay > 0, got {step_scale} from its schedule")
        h = self.kernel.step_size * step_scale
        if self.adaptation is None:
            return h
        return self.adaptation.step_size(h, self.kernel, tempering)

    def _run(
        self,
        energy: Energy,
        x: Tensor,
        steps: int,
        generator: torch.Generator,
        tempering: float,
        step_size: Tensor | float,
        compiled: bool,
        schedule: StepSchedule,
        transition: Augmentation | None,
    ) -> Chains:
        """Runs chains; with a transition, in stretches that each begin with one.

        The step schedule runs over all stretches. Without steps there are no transitions.
        """

        def stretch(x: Tensor, length: int, schedule: StepSchedule) -> Chains:
            return run(
                self.kernel, energy, x, steps=length, generator=generator, tempering=tempering,
                step_size=step_size, schedule=schedule, compiled=compiled,
            )  # fmt: skip

        if transition is None or not steps:
            return stretch(x, steps, schedule)
        every = self.transition_every or self.steps or steps
        found = []
        for first in range(0, steps, every):
            length = min(every, steps - first)
            x = transition(x, generator)
            found.append(stretch(x, length, stretch_of(schedule, first, steps)))
            x = found[-1].x
        return in_sequence(found, [min(every, steps - k) for k in range(0, steps, every)])


def repeated(given: Tensor, count: int) -> Tensor:
    """Returns the first `count` conditions of a batch, repeated if needed, as in `DataStart`."""
    return given.repeat(-(-count // len(given)), *[1] * (given.dim() - 1))[:count]
