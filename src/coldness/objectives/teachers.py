"""Teachers: encoders h of images, and how they learn, for latent guidance.

    z = h(T x) / |h(T x)|,     T a random augmentation                                  (Eq. 9)

A teacher owns its encoder, optimiser, schedule, moving average and random numbers; all of them are
in the checkpoint. The encoder is in train mode while it learns, also for the latents that guide, so
that its batch norm uses the batch, as in the reference code. The trained model keeps the average of
the encoder with its batch-norm statistics, and the latents of classes and attributes:

    z_k = sum_i z_i / |sum_i z_i|     over training examples of class or attribute k  (section 4.3)

Subclasses differ in `loss`: simclr.py, byol.py, mae.py, and masked.py, which only pretrains.
Teachers of frozen.py do not learn.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), sections 3.1,
    4.3 and appendix B.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from coldness.data.augmentation import Augmentation
from coldness.data.base import Data
from coldness.nets import Encoder
from coldness.objectives.base import Batch
from coldness.schedules import Cosine, Schedule, value_at

Optimiser = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]

EXAMPLES_AT_ONCE = 500
EXAMPLES_FOR_LATENTS = 20_000
"""Examples that latents of classes and attributes are computed from, at most."""


class Teacher(ABC):
    """Base class of teachers: where latents come from."""

    learns: bool = True
    """Whether it has a loss and is updated."""

    wants_labels: bool = False
    """Whether it needs labelled examples."""

    has_latents: bool = True
    """Whether latents follow from an example alone."""

    @abstractmethod
    def check(self, latent: int, data: Data) -> None:
        """Raises ValueError if it cannot give latents of this dimension for this data."""

    @abstractmethod
    def prepare(self, data: Data, device: torch.device | str, generator: torch.Generator) -> None:
        """Called once before training; all initial weights come from the generator."""

    def loss(self, x: Tensor, v_model: Tensor) -> Tensor:
        """Returns the loss of the encoder, a scalar.

        Args:
            x: data of this iteration (N, C, H, W).
            v_model: latents of the model's samples, unit vectors (M, d) without gradient.
        """
        raise ValueError(f"{type(self).__name__} does not learn")

    @abstractmethod
    def lesson(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns outputs f (N, d) of the energy and the latents (N, d) that they should follow."""

    def latents(self, x: Tensor) -> Tensor:
        """Returns the latents (N, d) that examples (N, ...) have in training."""
        raise ValueError(f"{type(self).__name__} has no latents of examples")

    def of_batch(self, batch: Batch) -> Tensor:
        """Latents (N, d) of the data batch: those that its chains are given, if they are."""
        return self.latents(batch.x_data) if batch.given is None else batch.given

    def update(self, t: int, n: int) -> None:  # noqa: B027 - some do not learn
        """Called after backward at iteration t of n."""

    @abstractmethod
    def kept(self) -> dict[str, nn.Module | Tensor]:
        """Returns what the trained model keeps: the encoder, and latents by name."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restores a state that `state_dict` returned."""


class LearningTeacher(Teacher):
    """Base class of teachers that learn: a subclass defines `loss`.

    Args:
        encoder: h, a network that maps images to latents.
        augmentation: T, for the views of an image; None for none.
        optimiser: of the encoder, by class name with its arguments; None for SGD with rate 0.03,
            momentum 0.9 and weight decay 5e-4, as in the paper.
        learning_rate: factor on the optimiser's own rate, a number or a schedule over training.
        ema: decay of the moving average of the encoder, which the model keeps, in [0, 1).
        batch_size: examples per iteration that it learns from; None for those of the contrast.
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentation: Augmentation | None = None,
        optimiser: Optimiser | None = None,
        learning_rate: float | Schedule = Cosine(),  # noqa: B008 - frozen
        ema: float = 0.998,
        batch_size: int | None = None,
    ) -> None:
        if not 0 <= ema < 1:
            raise ValueError(f"ema must be in [0, 1), got {ema}")
        if batch_size is not None and batch_size < 2:
            raise ValueError(f"batch_size must be >= 2, got {batch_size}")
        self.encoder, self.augmentation = encoder, augmentation
        self.optimiser, self.learning_rate = optimiser, learning_rate
        self.ema, self.batch_size = ema, batch_size
        self.average: Encoder = encoder

    def check(self, latent: int, data: Data) -> None:
        if not data.domain.is_images:
            raise ValueError(f"{type(self).__name__} needs images")
        if self.encoder.latent != latent:
            raise ValueError(
                f"the encoder has latents of dimension {self.encoder.latent}, the energy of "
                f"{latent}: they must be equal"
            )

    def prepare(self, data: Data, device: torch.device | str, generator: torch.Generator) -> None:
        self.data = data
        seeds = torch.randint(2**62, (3,), generator=generator, device=generator.device).tolist()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds[0])
            self.build(data.domain.shape)
        self.network().to(device).train()
        self.average = deepcopy(self.encoder).requires_grad_(False)
        self.generator = torch.Generator(device).manual_seed(seeds[1])
        self.data_generator = torch.Generator().manual_seed(seeds[2])
        parameters = [p for p in self.network().parameters() if p.requires_grad]
        make = self.optimiser or _as_in_the_paper
        self._optimiser = make(parameters)
        self._rates = [group["lr"] for group in self._optimiser.param_groups]

    def build(self, shape: tuple[int, ...]) -> None:
        """Builds the networks for images of this shape, with random weights."""
        self.encoder.build(shape)

    def network(self) -> nn.Module:
        """Everything that learns."""
        return self.encoder

    def examples(self, x: Tensor) -> Tensor:
        """The images to learn from: x, or a batch of its own size."""
        if self.batch_size is None:
            return x
        return self.data.sample(self.batch_size, self.data_generator).to(x)

    @abstractmethod
    def loss(self, x: Tensor, v_model: Tensor) -> Tensor: ...

    def view(self, x: Tensor) -> Tensor:
        """A random view of every image."""
        return x if self.augmentation is None else self.augmentation(x, self.generator)

    def target(self, x: Tensor) -> Tensor:
        """Unit vectors that guide, of images as they are."""
        return normalize(self.encoder(x), dim=1)

    @torch.no_grad()
    def latents(self, x: Tensor) -> Tensor:
        return self.target(self.view(x))

    def lesson(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.outputs_data is not None
        return batch.outputs_data, self.of_batch(batch)

    def update(self, t: int, n: int) -> None:
        rate = value_at(self.learning_rate, t, n)
        for group, own in zip(self._optimiser.param_groups, self._rates, strict=True):
            group["lr"] = own * rate
        self._optimiser.step()
        self._optimiser.zero_grad()
        self.follow(t, n)

    @torch.no_grad()
    def follow(self, t: int, n: int) -> None:
        """Updates the average; statistics of batch norm are copied."""
        averages, own = list(self.average.parameters()), list(self.encoder.parameters())
        torch._foreach_lerp_(averages, own, 1 - self.ema)  # type: ignore[arg-type]
        for mine, value in zip(self.average.buffers(), self.encoder.buffers(), strict=True):
            mine.copy_(value)

    def kept(self) -> dict[str, nn.Module | Tensor]:
        encoder = self.trained()
        return {"encoder": encoder, **latents_of(encoder, self.data)}

    def trained(self) -> Encoder:
        """A copy of the averaged encoder, in eval mode."""
        return deepcopy(self.average).eval()

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": self.network().state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "data_generator": self.data_generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.network().load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.data_generator.set_state(state["data_generator"])


def _as_in_the_paper(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.03, momentum=0.9, weight_decay=5e-4)


@torch.no_grad()
def encoded(encoder: nn.Module, x: Tensor) -> Tensor:
    """Unit latents (N, d) of images (N, C, H, W), on the CPU."""
    device = next(encoder.parameters()).device
    parts = [encoder(part.to(device)).float().cpu() for part in x.split(EXAMPLES_AT_ONCE)]
    return normalize(torch.cat(parts), dim=1)


def latents_of(encoder: nn.Module, data: Data) -> dict[str, nn.Module | Tensor]:
    """Latents of classes (K, d) and attributes (A, d), where the data has them.

    Args:
        encoder: h in eval mode; images are not augmented.
        data: its training part is encoded.
    """
    finite, found = data.finite, dict[str, nn.Module | Tensor]()
    if finite is None:
        return found
    some = torch.arange(min(len(finite.train), EXAMPLES_FOR_LATENTS))
    z = encoded(encoder, finite.train[some])
    if data.labelled is not None:
        members = nn.functional.one_hot(data.labelled.train_labels[some], len(data.domain.classes))
        found["class_latents"] = normalize(members.T.to(z) @ z, dim=1)
    if data.attributed is not None:
        members = data.attributed.train_attributes[some]
        found["attribute_latents"] = normalize(members.T.to(z) @ z, dim=1)
    return found
