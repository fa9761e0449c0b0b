"""All settings of a pretraining, and the recipes that hold them.

The method is a teacher (coldness/objectives/teachers.py): it owns the encoder, its augmentation,
optimiser, schedule and average, here as in the latent guidance of an energy.

    Masked    a masked autoencoder; MAE trains a head on it later
    SimCLR    a contrastive encoder with its head, for Frozen; there are no negatives of a model
    BYOL      an encoder that predicts its own average, with its head, for Frozen
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coldness.data import Data
from coldness.machine import check_threads
from coldness.objectives.teachers import LearningTeacher
from coldness.precision import Precision
from coldness.training.recipe import Recipe


@dataclass(frozen=True)
class Pretraining:
    """All settings of a pretraining.

    Args:
        data: where images come from.
        method: the encoder, and how it learns: `Masked`, `SimCLR` or `BYOL`, with the optimiser and
            its schedule.
        iterations: number of updates of the encoder.
        batch_size: images per iteration.
        seed: of everything random.
        threads: number of CPU threads; None for all.
        precision: of networks: `float32`, `bf16`, or `auto` for bf16 where it is fast. Weights and
            losses stay in float32.
        checkpoint_every: iterations between checkpoints.
        keep: number of checkpoints that are kept, the newest ones.
    """

    data: Data
    method: LearningTeacher
    iterations: int = 10_000
    batch_size: int = 256
    seed: int = 0
    threads: int | None = 1
    precision: Precision = "float32"
    checkpoint_every: int = 1000
    keep: int = 3

    def __post_init__(self) -> None:
        bounds = {"iterations": 1, "batch_size": 2, "checkpoint_every": 1, "keep": 1}
        for name, least in bounds.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be >= {least}, got {getattr(self, name)}")
        check_threads(self.threads)
        if self.method.batch_size is not None:
            raise ValueError(
                "method.batch_size is for guidance, where the energy has another one: set "
                "batch_size instead"
            )


class PretrainingRecipe(Recipe):
    """A frozen configuration of a pretraining; its packaged recipes are in recipes/pretrain."""

    signature = Pretraining
    command = "pretrain"

    def parts(self, **live: Any) -> Any:
        """The live parts, a Pretraining; networks draw their weights from the recipe's seed."""
        return super().parts(**live)
