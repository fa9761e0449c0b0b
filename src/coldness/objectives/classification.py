"""Cross-entropy of a classifier that is also an energy: log p(y|x), the other half of JEM's loss.

    log p(x, y) = log p(x) + log p(y|x)          the contrast and this term
                = log p(x|y) + log p(y)          conditional sources without this term

    weight * mean_i -log softmax(f(x_i))_{y_i}

The labelled examples are drawn independently of those of the contrast. The contrast has weight 1,
as in the reference code.

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
from coldness.data.base import Data
from coldness.energies.base import Energy
from coldness.objectives.base import Batch, Term

EXAMPLES_AT_ONCE = 500
"""Number of examples of the validation part in memory at a time."""


@dataclass(frozen=True)
class CrossEntropy(Term):
    """Cross-entropy on labelled examples.

    Args:
        weight: weight of the cross-entropy in the loss, > 0.
    """

    weight: float = 1.0
    wants_labels: ClassVar[bool] = True
    validates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(f"weight must be > 0, got {self.weight}")

    def check(self, energy: Energy, data: Data) -> None:
        if not energy.classifies:
            raise ValueError(
                "CrossEntropy needs an energy with class logits, such as ClassifierEnergy"
            )
        if data.labelled is None:
            raise ValueError("CrossEntropy needs data with labels")

    def __call__(self, batch: Batch) -> Tensor:
        if batch.labelled is None:
            raise ValueError("CrossEntropy needs labelled examples, but batch.labelled is None")
        x, labels = batch.labelled
        logits = checkpointed(batch.energy.outputs, batch.at_once, x)
        return self.weight * cross_entropy(logits, labels)

    def validate(self, energy: Energy, data: Data, at_once: int | None) -> dict[str, float]:
        """Returns the accuracy on the validation part; waits for the device."""
        labelled = data.labelled
        if labelled is None or not len(labelled.validation_labels):
            return {}
        device = next(energy.parameters()).device
        right, size = 0, min(EXAMPLES_AT_ONCE, at_once or EXAMPLES_AT_ONCE)
        parts = labelled.validation.split(size), labelled.validation_labels.split(size)
        for x, y in zip(*parts, strict=True):
            right += int((energy.outputs(x.to(device)).argmax(1).cpu() == y).sum())
        return {"accuracy_validation": right / len(labelled.validation_labels)}
