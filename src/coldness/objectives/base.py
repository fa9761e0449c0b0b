"""Base class of terms: losses that are added to the contrast and may have their own networks.

A term returns its loss and its metrics. It may own networks with their own optimiser, schedule and
moving average, and a state that checkpoints contain. It also names the parts of it that the trained
model keeps. Its methods are called in this order:

    prepare(...)        once, before training: create networks and optimiser
    loss = term(batch)  the loss, a scalar; its gradient also reaches the term's own parameters
    metrics()           metrics to log, by the term's own names
    update(...)         after backward: step the term's own optimiser
    validate(...)       at some iterations: metrics on examples that are never trained on
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from coldness.data.base import Data
from coldness.energies.base import Energy
from coldness.objectives.contrast import Weights


@dataclass
class Batch:
    """Results of an iteration that terms can use, with gradients if they have any.

    x_data (N, ...) is the data, x_model (M, ...) the negatives of all sources. u_data and u_model
    are their potentials, and outputs_data and outputs_model the outputs of the energy in the same
    forward pass. given: classes or latents of x_data, if chains are conditional. chains: negatives
    per source. weights: weights per contrast. labelled: examples (N, ...) drawn independently of
    x_data, and their classes (N,), if a term needs them. generator: random number generator of the
    chains. at_once: number of examples that fit in memory at a time; None for all.
    """

    energy: Energy
    x_data: Tensor
    x_model: Tensor
    u_data: Tensor
    u_model: Tensor
    labelled: tuple[Tensor, Tensor] | None = None
    at_once: int | None = None
    outputs_data: Tensor | None = None
    outputs_model: Tensor | None = None
    given: Tensor | None = None
    chains: Sequence[Tensor] = ()
    weights: Sequence[Weights] = ()
    generator: torch.Generator = field(default_factory=torch.Generator)
    iteration: int = 0
    iterations: int = 1


class Term(ABC):
    """Base class of terms. Losses are on the scale of E, like the contrast in the training loop."""

    wants_labels: ClassVar[bool] = False
    """Whether the term needs labelled examples."""

    validates: ClassVar[bool] = False
    """Whether the term has metrics on the validation part."""

    @property
    def name(self) -> str:
        """Name of the loss in metrics.csv: CrossEntropy becomes cross_entropy."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    @property
    def teaches(self) -> bool:
        """Whether the energy learns from it what negatives do not teach: labels or an encoder."""
        return self.wants_labels or bool(self.kept())

    def check(self, energy: Energy, data: Data) -> None:  # noqa: B027 - most fit all
        """Raises ValueError if the term cannot be used with this energy or data."""

    def prepare(  # noqa: B027 - most own nothing
        self, energy: Energy, data: Data, generator: torch.Generator
    ) -> None:
        """Called once before training; a term with networks creates them here.

        Their random initial weights come from the generator.
        """

    @property
    def has_latents(self) -> bool:
        """Whether chains can be conditional on latents of examples, from `latents`."""
        return False

    def latents(self, x: Tensor) -> Tensor:
        """Returns latents (N, d) of examples."""
        raise ValueError(f"{type(self).__name__} has no latents of examples")

    @abstractmethod
    def __call__(self, batch: Batch) -> Tensor:
        """Returns the loss, a scalar."""

    def metrics(self) -> dict[str, Tensor | float]:
        """Returns metrics of the last call to log beside the loss."""
        return {}

    def update(self, t: int, n: int) -> None:  # noqa: B027
        """Called after backward at iteration t of n; steps the term's own optimisers."""

    def validate(self, energy: Energy, data: Data, at_once: int | None) -> dict[str, float]:
        """Returns metrics on the validation part of the data; the energy is in eval mode."""
        return {}

    def kept(self) -> dict[str, nn.Module | Tensor]:
        """Returns what the trained model keeps, by name, such as encoders or class latents."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Returns all mutable state, for checkpoints."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restores a state that `state_dict` returned."""


def names_of(terms: Sequence[Term]) -> list[str]:
    """Returns one name per term; further terms of the same name get a number."""
    names: list[str] = []
    for term in terms:
        before = sum(earlier.name == term.name for earlier in terms[: len(names)])
        names.append(f"{term.name}_{before}" if before else term.name)
    return names
