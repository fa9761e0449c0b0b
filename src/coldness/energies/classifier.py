"""A classifier as an energy (JEM): one network, K logits f_y(x).

    E(x)   = -log sum_y exp f_y(x)          p(x)   = exp(-c E(x)) / Z
    E(x|y) = -f_y(x)                        p(x|y) = exp(-c E(x|y)) / Z_y
    p(y|x) = exp f_y(x) / sum_k exp f_k(x)

c is the coldness, called output scale o in the paper on beta: 20,000 for drift 1 and noise 0.01 of
the reference code. It applies to the densities only. The class probabilities use coldness 1, as in
the reference code, where c is implicit in the chain and does not occur in the loss. The joint and
the conditional density agree only if c = 1.

References:
    Your Classifier is Secretly an Energy Based Model and You Should Treat It Like One
    (Grathwohl et al., 2020), Eqs. 5 to 8.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 4.3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coldness.domain import Domain
from coldness.energies.base import NOTHING, Kept, NetworkEnergy
from coldness.energies.reference import FittedMixture
from coldness.energies.scalar import check_reference, reference_at

ORDINARY_LOGITS = 30.0
"""Logits of a good classifier differ by tens, and so do its energies. Successful runs with beta* of
2 and 10 had gaps of up to 6."""


class ClassifierEnergy(NetworkEnergy):
    """Energy of a classifier: a network with one output per class.

    Args:
        net: network that maps (B, ...) to (B, K); networks with `build` take K from the data.
        coldness: c, the coldness of the density, > 0.
        classes: K, the number of classes; None for that of the data.
        reference_std: s, the standard deviation of a Gaussian reference in the model's coordinates,
            > 0; None for none.
        reference: q, a density fitted to the data, instead of the Gaussian; None for none.
    """

    classifies = True

    def __init__(
        self,
        net: nn.Module,
        coldness: float = 1.0,
        classes: int | None = None,
        reference_std: float | None = None,
        reference: FittedMixture | None = None,
    ) -> None:
        super().__init__(coldness)
        check_reference(reference_std, reference)
        self.net = net
        self.classes = classes or 0
        self.reference_std = reference_std
        self.reference = reference

    def build_own(self, domain: Domain) -> None:
        found = len(domain.classes)
        if found < 2:
            raise ValueError(
                f"ClassifierEnergy needs data with labels of two classes or more, got {found}"
            )
        if self.classes not in (0, found):
            raise ValueError(
                f"the energy has {self.classes} classes, but the data has {found}: "
                "leave out classes, or set it to the number of the data"
            )
        self.classes = found
        super().build_own(domain)

    def outputs_at(self, y: Tensor) -> Tensor:
        """Returns logits f_y(x), (B, K), from the whitened coordinates.

        A reference lowers all of them alike, which changes p(x) and leaves p(y|x) as it is.
        """
        logits = self.net(y).to(y.dtype)
        reference = reference_at(y, self.reference_std, self.reference)
        return logits if reference is None else logits - reference[:, None] / self.coldness

    def tilt_at(self, y: Tensor) -> Tensor:
        if self.reference is None:
            return super().tilt_at(y)
        return self.coldness * self.read(self.net(y).to(y.dtype))

    @property
    def confined(self) -> bool:
        """True with a reference, for networks that grow more slowly than quadratically."""
        return self.reference_std is not None or self.reference is not None

    def logits(self, x: Tensor) -> Tensor:
        """Returns logits f_y(x), (B, K)."""
        return self.outputs(x)

    def read(self, outputs: Tensor, condition: Tensor | None = None) -> Tensor:
        """Returns E(x), or E(x|y) for labels y (B,) or for one label for all examples."""
        if condition is None:
            return -torch.logsumexp(outputs, 1)
        labels = condition.to(outputs.device).expand(len(outputs))
        return -outputs.gather(1, labels[:, None]).squeeze(1)

    def scores(self, x: Tensor, kept: Kept = NOTHING) -> dict[str, Tensor]:
        """Returns maxp, the largest class probability max_y p(y|x)."""
        return {"maxp": self.outputs(x).cpu().double().softmax(1).max(1).values}

    @property
    def ordinary_gap(self) -> float:
        return ORDINARY_LOGITS * self.coldness
