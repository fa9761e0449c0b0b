"""A classifier as an energy (JEM): one network, K logits f_y(x).

    E(x)   = -log sum_y exp f_y(x)          p(x)   = exp(-c E(x)) / Z
    E(x|y) = -f_y(x)                        p(x|y) = exp(-c E(x|y)) / Z_y
    p(y|x) = exp f_y(x) / sum_k exp f_k(x)

c is the coldness, the output scale o of the beta paper: 20,000 for the reference's drift 1 and
noise 0.01. It belongs to the densities; the classifier itself is read at coldness 1, as in the
reference code, which leaves c implicit in its chain and has no such factor in its loss. Joint and
conditional agree only where c = 1.

References:
    Your Classifier is Secretly an Energy Based Model and You Should Treat It Like One
    (Grathwohl et al., 2020), Eqs. 5 to 8.
    Energy-Based Model Training Objective Robust to Inaccurate SGLD Samples, section 4.3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coldness.energies.base import Conditional, Energy

ORDINARY_LOGITS = 30.0
"""Logits of a good classifier differ by tens, and so do its energies; runs with beta* of 2 and 10
that went on well had gaps of up to 6."""


class ClassifierEnergy(Conditional):
    """Network with one output per class.

    Args:
        net: maps (B, ...) to (B, K); networks with `build` take K from the data.
        coldness: c > 0, of the density.
        classes: K; null for those of the data.
    """

    def __init__(self, net: nn.Module, coldness: float = 1.0, classes: int | None = None) -> None:
        super().__init__(coldness)
        self.net = net
        self.classes = classes or 0

    def logits(self, x: Tensor) -> Tensor:
        """f_y(x), (B, K)."""
        return self.net(self.coordinates.whiten(x)).to(x.dtype)

    def energy(self, x: Tensor) -> Tensor:
        return -torch.logsumexp(self.logits(x), 1)

    @property
    def ordinary_gap(self) -> float:
        return ORDINARY_LOGITS * self.coldness

    def given(self, labels: Tensor) -> ClassEnergy:
        """The energy of x given its class.

        The same object at every call, with other labels, so that what is compiled for it lasts.
        """
        known: ClassEnergy | None = self.__dict__.get("_given")
        if known is None:
            known = ClassEnergy(self)
            # Not as a submodule: it holds this energy, and modules must not hold each other.
            self.__dict__["_given"] = known
        known.labels, known.coordinates = labels, self.coordinates
        return known


class ClassEnergy(Energy):
    """E(x|y) = -f_y(x) of a classifier, at its coldness and in its coordinates.

    Args:
        classifier: whose logits they are.
    """

    def __init__(self, classifier: ClassifierEnergy) -> None:
        super().__init__(classifier.coldness)
        self.classifier = classifier
        self.labels = torch.empty(0, dtype=torch.int64)

    def energy(self, x: Tensor) -> Tensor:
        logits = self.classifier.logits(x)
        return -logits.gather(1, self.labels[:, None].to(logits.device)).squeeze(1)
