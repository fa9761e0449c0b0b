"""Cross-entropy of a classifier that is an energy too: log p(y|x), the other half of JEM's loss.

    log p(x, y) = log p(x) + log p(y|x)          the contrast, and this term
                = log p(x|y) + log p(y)          conditional sources, and no term

    weight * mean_i -log softmax(f(x_i))_{y_i}

on labelled examples drawn apart from those of the contrast. Beside it the contrast has weight 1, as
in the reference code.

References:
    Your Classifier is Secretly an Energy Based Model and You Should Treat It Like One
    (Grathwohl et al., 2020), Eq. 8 and Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import cross_entropy

from coldness.batching import checkpointed
from coldness.energies.classifier import ClassifierEnergy
from coldness.objectives.base import Batch, Term


@dataclass(frozen=True)
class CrossEntropy(Term):
    """Cross-entropy of labelled examples.

    Args:
        weight: > 0.
    """

    weight: float = 1.0
    wants_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"weight must be > 0, got {self.weight}")

    def __call__(self, batch: Batch) -> Tensor:
        if not isinstance(batch.energy, ClassifierEnergy) or batch.labelled is None:
            raise ValueError("CrossEntropy needs a ClassifierEnergy and data with labels")
        x, labels = batch.labelled
        logits = checkpointed(batch.energy.logits, batch.at_once, x)
        return self.weight * cross_entropy(logits, labels)
