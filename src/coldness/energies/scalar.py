"""An energy given by a network with one output.

    U(x) = c F(y) + |y|^2 / (2 s^2),     y = the coordinates of x

F is the network and c the coldness. The second term, the Gaussian reference, is optional. It makes
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


class ScalarEnergy(NetworkEnergy):
    """Energy of a network with one output per example.

    Args:
        net: network that maps (B, ...) to (B, 1) or (B,).
        coldness: c, the inverse temperature, > 0.
        reference_std: s, the standard deviation of the Gaussian reference in the model's
            coordinates, > 0; None (null in YAML) for no reference.
    """

    def __init__(
        self, net: nn.Module, coldness: float = 1.0, reference_std: float | None = None
    ) -> None:
        super().__init__(coldness)
        if reference_std is not None and not reference_std > 0:
            raise ValueError(f"reference_std must be > 0, got {reference_std}")
        self.net = net
        self.reference_std = reference_std

    def outputs_at(self, y: Tensor) -> Tensor:
        """Returns E, (B,)."""
        energy = self.net(y).reshape(len(y)).to(y.dtype)
        if self.reference_std is None:
            return energy
        reference = y.flatten(1).square().sum(1) / (2 * self.reference_std**2)
        return energy + reference / self.coldness

    @property
    def confined(self) -> bool:
        """True with a reference, for networks that grow more slowly than quadratically."""
        return self.reference_std is not None
