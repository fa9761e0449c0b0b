"""An energy given by a network with one output.

    U(x) = c F(y) + |y|^2 / (2 s^2),     y = the coordinates of x
    U(x) = c F(y) - log q(y)

F is the network and c the coldness. The second term, the reference, is optional: a Gaussian, or a
density q that is fitted to the data before training (reference.py) and which F corrects. It makes
exp(-U) integrable for any F that grows more slowly than quadratically, which includes every network
of piecewise linear layers, and it determines the density far from the data.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix, Eq. 1A: U = F / (eps^2 / 2), so c = 2 / eps^2.
    A Theory of Generative ConvNet (Xie et al., 2016), Eq. 1, for the reference term.
"""

from __future__ import annotations

from torch import Tensor, nn

from coldness.energies.base import NetworkEnergy
from coldness.energies.reference import FittedMixture


class ScalarEnergy(NetworkEnergy):
    """Energy of a network with one output per example.

    Args:
        net: network that maps (B, ...) to (B, 1) or (B,).
        coldness: c, the inverse temperature, > 0.
        reference_std: s, the standard deviation of the Gaussian reference in the model's
            coordinates, > 0; None (null in YAML) for no Gaussian reference.
        reference: q, a density fitted to the data, instead of the Gaussian; None (null in YAML) for
            none.
    """

    def __init__(
        self,
        net: nn.Module,
        coldness: float = 1.0,
        reference_std: float | None = None,
        reference: FittedMixture | None = None,
    ) -> None:
        super().__init__(coldness)
        check_reference(reference_std, reference)
        self.net = net
        self.reference_std = reference_std
        self.reference = reference

    def outputs_at(self, y: Tensor) -> Tensor:
        """Returns E, (B,)."""
        energy = self.net(y).reshape(len(y)).to(y.dtype)
        reference = reference_at(y, self.reference_std, self.reference)
        return energy if reference is None else energy + reference / self.coldness

    def tilt_at(self, y: Tensor) -> Tensor:
        if self.reference is None:
            return super().tilt_at(y)
        return self.coldness * self.net(y).reshape(len(y)).to(y.dtype)

    @property
    def confined(self) -> bool:
        """True with a reference, for networks that grow more slowly than quadratically."""
        return self.reference_std is not None or self.reference is not None


def check_reference(std: float | None, fitted: FittedMixture | None) -> None:
    """Raises ValueError for references that cannot be."""
    if std is not None and fitted is not None:
        raise ValueError("give either reference_std or reference, not both")
    if std is not None and not std > 0:
        raise ValueError(f"reference_std must be > 0, got {std}")


def reference_at(y: Tensor, std: float | None, fitted: FittedMixture | None) -> Tensor | None:
    """The reference's term of U at y, (B,): |y|^2 / (2 s^2) or -log q(y); None without one."""
    if fitted is not None:
        found: Tensor = fitted(y)
        return found
    return None if std is None else y.flatten(1).square().sum(1) / (2 * std**2)
