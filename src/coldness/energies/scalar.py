"""An energy given by a network with one output.

    U(x) = c F(y) + |y|^2 / (2 s^2),     y = the coordinates of x

F is the network, c the coldness. The second term, the Gaussian reference, is optional: it makes
exp(-U) integrable for any F that grows more slowly than a square, so for every network of
piecewise linear layers, and it says what the model believes far from the data.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix, Eq. 1A: U = F / (eps^2 / 2), so c = 2 / eps^2.
    A Theory of Generative ConvNet (Xie et al., 2016), Eq. 1, for the reference term.
"""

from __future__ import annotations

from torch import Tensor, nn

from coldness.energies.base import NetworkEnergy


class ScalarEnergy(NetworkEnergy):
    """Network with one output per example.

    Args:
        net: maps (B, ...) to (B, 1) or (B,).
        coldness: c > 0.
        reference_std: s > 0 of the Gaussian reference, in the model's coordinates; null for none.
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
        """E itself, (B,)."""
        energy = self.net(y).reshape(len(y)).to(y.dtype)
        if self.reference_std is None:
            return energy
        reference = y.flatten(1).square().sum(1) / (2 * self.reference_std**2)
        return energy + reference / self.coldness
