"""Teachers that do not learn: an encoder saved earlier, and class labels.

    Frozen    z = h(x) / |h(x)|, with h of a trained model or of `coldness pretrain`
    Labels    z = e_y, the unit vector of the class of x: the supervised limit of latent guidance

With labels, v(x) learns p(y|x), so that the energy is a classifier beside its density, as in JEM,
but with the direction of f instead of its logits.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, one_hot

from coldness.batching import checkpointed
from coldness.cards import CARD, read_card, read_weights
from coldness.configuration import ConfigurationError, construct
from coldness.data.base import Data
from coldness.files import BadFile
from coldness.nets import Encoder
from coldness.objectives.base import Batch
from coldness.objectives.teachers import Teacher, latents_of

PREFIX = "kept.encoder."


class Frozen(Teacher):
    """An encoder that was saved with a model, or by `coldness pretrain`.

    Args:
        path: folder of the run or model.
    """

    learns = False

    def __init__(self, path: str) -> None:
        self.path = path
        self.encoder = load_encoder(path)

    def check(self, latent: int, data: Data) -> None:
        if self.encoder.latent != latent:
            raise ValueError(
                f"the encoder of {self.path} has latents of dimension {self.encoder.latent}, the "
                f"energy of {latent}: they must be equal"
            )
        self.encoder.build(data.domain.shape)  # raises ValueError for images of another shape

    def prepare(self, data: Data, device: torch.device | str, generator: torch.Generator) -> None:
        self.data = data
        self.encoder.to(device)

    @torch.no_grad()
    def latents(self, x: Tensor) -> Tensor:
        return normalize(self.encoder(x), dim=1)

    def lesson(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.outputs_data is not None
        return batch.outputs_data, self.of_batch(batch)

    def kept(self) -> dict[str, nn.Module | Tensor]:
        return {"encoder": self.encoder, **latents_of(self.encoder, self.data)}


class Labels(Teacher):
    """Classes as directions: the latent of class k is the k-th unit vector."""

    learns = False
    wants_labels = True
    has_latents = False

    def check(self, latent: int, data: Data) -> None:
        if data.labelled is None:
            raise ValueError("Labels needs data with labels")
        classes = len(data.domain.classes)
        if classes > latent:
            raise ValueError(f"{classes} classes need latents of as many dimensions, got {latent}")
        self.latent, self.classes = latent, classes

    def prepare(self, data: Data, device: torch.device | str, generator: torch.Generator) -> None:
        pass

    def lesson(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.labelled is not None
        x, labels = batch.labelled
        outputs = checkpointed(batch.energy.outputs, batch.at_once, x)
        return outputs, one_hot(labels, self.latent)

    def kept(self) -> dict[str, nn.Module | Tensor]:
        return {"class_latents": torch.eye(self.latent)[: self.classes]}


def load_encoder(path: str | Path) -> Encoder:
    """The encoder that a model keeps, frozen.

    Args:
        path: folder of a run, a model, or of `coldness pretrain`.
    Raises:
        BadFile: there is none; the message is one line.
    """
    folder = Path(path)
    folder = folder / "model" if (folder / "model").is_dir() else folder
    if not (folder / CARD).is_file():
        raise BadFile(f"{path} holds no model with an encoder")
    try:
        card = read_card(folder / CARD)
        node, shape = card["kept"]["encoder"], tuple(card["shape"])
        encoder = construct(Encoder, node)  # type: ignore[type-abstract]
        encoder.build(shape)
        tensors = read_weights(folder, card)
        own = {k.removeprefix(PREFIX): v for k, v in tensors.items() if k.startswith(PREFIX)}
        encoder.load_state_dict(own)
    except (KeyError, TypeError) as error:
        raise BadFile(f"{path} holds no model with an encoder") from error
    except (ConfigurationError, RuntimeError, ValueError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadFile(f"the encoder of {path} cannot be read: {line}") from error
    return encoder.eval().requires_grad_(False)
