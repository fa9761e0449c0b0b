"""What a term is: a loss added to the contrast, which may learn on its own.

A term gives its loss and its metrics. It may own networks with an optimiser, a schedule and an
average of their own, and a state that the checkpoint holds; and it names what the trained model
keeps of it. Around an iteration it is called in this order:

    prepare(...)        once, before training: make networks and optimiser
    loss = term(batch)  the loss, a number; its gradient also reaches the term's own parameters
    metrics()           numbers to log, by names of its own
    update(...)         after backward: step its own optimiser
    validate(...)       now and then: metrics on examples that are never trained on
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
    """What an iteration has computed when terms are asked: with gradients where there are any.

    x_data (N, ...), x_model (M, ...) all sources together, their potentials u_data, u_model, and
    the energy's outputs of the same forward pass. chains: negatives of each source. weights: of
    each contrast. labelled: examples (N, ...) drawn apart from x_data and their classes (N,),
    where a term wants them. generator: of the chains. at_once: examples that may be in memory at
    a time; None for all.
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
    chains: Sequence[Tensor] = ()
    weights: Sequence[Weights] = ()
    generator: torch.Generator = field(default_factory=torch.Generator)
    iteration: int = 0
    iterations: int = 1


class Term(ABC):
    """Base class of terms; on the scale of the energy E, as the contrast is in the loop."""

    wants_labels: ClassVar[bool] = False
    """Whether it needs labelled examples."""

    validates: ClassVar[bool] = False
    """Whether it has metrics of a validation part."""

    @property
    def name(self) -> str:
        """What its loss is called in metrics.csv: CrossEntropy is cross_entropy."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()

    def check(self, energy: Energy, data: Data) -> None:  # noqa: B027 - most fit all
        """Raises ValueError where the term cannot be used with this energy or data."""

    def prepare(  # noqa: B027 - most own nothing
        self, energy: Energy, data: Data, generator: torch.Generator
    ) -> None:
        """Called once before training; a term with networks makes them here, on the generator."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Tensor:
        """The loss, a number."""

    def metrics(self) -> dict[str, Tensor | float]:
        """What is worth logging of the last call, beside the loss."""
        return {}

    def update(self, t: int, n: int) -> None:  # noqa: B027
        """Called after backward at iteration t of n: steps optimisers of its own."""

    def validate(self, energy: Energy, data: Data, at_once: int | None) -> dict[str, float]:
        """Metrics of the validation part of the data; the energy is in evaluation mode."""
        return {}

    def kept(self) -> dict[str, nn.Module | Tensor]:
        """What the trained model keeps of the term, by name: encoders, latents of classes."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything mutable that a checkpoint must hold."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Puts back what `state_dict` gave."""


def names_of(terms: Sequence[Term]) -> list[str]:
    """A name for each term; a second one of the same class gets a number."""
    names: list[str] = []
    for term in terms:
        before = sum(earlier.name == term.name for earlier in terms[: len(names)])
        names.append(f"{term.name}_{before}" if before else term.name)
    return names
