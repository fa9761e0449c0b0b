"""Energies with a latent variable z on the unit sphere, as in CLEL.

    E(x)    = |f(x)|^2 / 2                                                             (Eq. 11)
    E(x, z) = |f(x)|^2 / 2 - b v(x) . z,     v(x) = g(f / |f|) / |g(f / |f|)|          (Eq. 10)

f is a network with d outputs and g, the directional projector, a small one between directions. b is
the guidance, called beta in the paper; here beta is that of the contrast. E(x) is the marginal of
E(x, z) up to a constant: the integral of exp(b v . z) over the sphere is the same for every unit
vector v. So the norm of f carries p(x), and its direction p(z|x), whose mode is v(x).

The paper's pair of drift 100 and noise 0.001, for pixels in [0, 1], is drift 400 and noise 0.002 in
[-1, 1], and coldness 2e8 in both. As in JEM, the coldness applies to chains and densities of x;
the loss of p(z|x) has coldness 1.

Conditions. z need not be a unit vector: the sum over attributes in Eq. 15 is one condition,

    E(x | A) = |f|^2 / 2 - b sum_a w_a v . z_a = E(x, sum_a w_a z_a),

with weights w_a = 1 in the paper, and negative ones for "not". (Eq. 15 misses the square.)

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Eqs. 10, 11, 14
    and 15; appendix D for the multi-head design.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from coldness.domain import Domain
from coldness.energies.base import NOTHING, Kept, NetworkEnergy

Kind = Literal["mlp", "linear", "identity"]

ORDINARY_ENERGY = 1.0
"""Energies of data and negatives that differ by less are normal in training: with the paper's
regularisation of 1, E rarely exceeds 1."""

SLOPE = 0.2
"""Of the leaky ReLU of projectors and heads."""


class LatentEnergy(NetworkEnergy):
    """Base class: a subclass defines `marginal` and `direction` of the network's outputs.

    Args:
        net: network that maps (B, ...) to (B, d); networks with `build` take d from here.
        coldness: c, the coldness of the density, > 0.
        latent: d, the dimension of z.
        guidance: b, the weight of the latent in E(x, z), >= 0.
        test_guidance: b of the out-of-distribution score of Eq. 14, >= 0.
    """

    def __init__(
        self, net: nn.Module, coldness: float, latent: int, guidance: float, test_guidance: float
    ) -> None:
        super().__init__(coldness)
        if latent < 2:
            raise ValueError(f"latent must be >= 2, got {latent}")
        if not (guidance >= 0 and test_guidance >= 0):
            raise ValueError(
                f"guidance and test_guidance must be >= 0, got {guidance} and {test_guidance}"
            )
        self.net = net
        self.latent, self.guidance = latent, float(guidance)
        self.test_guidance = float(test_guidance)

    @abstractmethod
    def marginal(self, outputs: Tensor) -> Tensor:
        """Returns E(x), (B,), from the outputs f (B, d)."""

    @abstractmethod
    def direction(self, outputs: Tensor) -> Tensor:
        """Returns v(x), the mode of p(z|x), unit vectors (B, d), from the outputs f (B, d)."""

    def build_own(self, domain: Domain) -> None:
        if callable(make := getattr(self.net, "build", None)):
            make(domain.shape, self.latent)

    def outputs_at(self, y: Tensor) -> Tensor:
        """Returns f, (B, d)."""
        return self.net(y).to(y.dtype)

    def read(self, outputs: Tensor, condition: Tensor | None = None) -> Tensor:
        """Returns E(x), or E(x, z) for latents z (B, d) or for one latent (d,) for all."""
        if condition is None:
            return self.marginal(outputs)
        along = (self.direction(outputs) * condition.to(outputs)).sum(1)
        return self.marginal(outputs) - self.guidance * along

    @property
    def ordinary_gap(self) -> float:
        return ORDINARY_ENERGY * self.coldness

    def class_condition(self, labels: Tensor, kept: Kept) -> Tensor:
        latents = kept.get("class_latents")
        if not isinstance(latents, Tensor):
            raise ValueError("this model has no latents of classes: its data had no labels")
        return latents[labels.to(latents.device)]

    def scores(self, x: Tensor, kept: Kept = NOTHING) -> dict[str, Tensor]:
        """Returns joint, -(E(x) - b cos(v(x), h(x))) of Eq. 14, where the encoder h is kept."""
        encoder = kept.get("encoder")
        if not isinstance(encoder, nn.Module):
            return {}
        outputs = self.outputs(x)
        along = (self.direction(outputs) * normalize(encoder(x).to(outputs), dim=1)).sum(1)
        return {"joint": (self.test_guidance * along - self.marginal(outputs)).cpu().double()}


class SphericalEnergy(LatentEnergy):
    """Norm and direction of one vector: E(x) = |f|^2 / 2, and f / |f| for the latent (Eqs. 10, 11).

    Args:
        net: network that maps (B, ...) to (B, d); networks with `build` take d from here.
        coldness: c, the coldness of the density, > 0.
        latent: d, the dimension of z.
        guidance: b, the weight of the latent in E(x, z), called beta in the paper, >= 0.
        test_guidance: b of the out-of-distribution score of Eq. 14, >= 0; 0.1 in the reference
            code.
        projector: g: `mlp` (two layers without bias), `linear`, or `identity`.
        hidden: width of the mlp.
    """

    def __init__(
        self,
        net: nn.Module,
        coldness: float = 1.0,
        latent: int = 128,
        guidance: float = 0.01,
        test_guidance: float = 0.1,
        projector: Kind = "mlp",
        hidden: int = 2048,
    ) -> None:
        super().__init__(net, coldness, latent, guidance, test_guidance)
        self.projector, self.hidden = projector, hidden
        self.project = _projector(projector, latent, hidden)

    def marginal(self, outputs: Tensor) -> Tensor:
        return outputs.square().sum(1) / 2

    def direction(self, outputs: Tensor) -> Tensor:
        return _directed(self.project, normalize(outputs, dim=1))


class MultiHeadEnergy(LatentEnergy):
    """Two heads on shared features f: E(x) = g'(f), and v(x) = g(f) / |g(f)| (appendix D).

    The design that the paper found unstable, for comparison.

    Args:
        net: network that maps (B, ...) to (B, d); networks with `build` take d from here.
        coldness: c, the coldness of the density, > 0.
        latent: d, the dimension of z and of the features.
        guidance: b, the weight of the latent in E(x, z), >= 0.
        test_guidance: b of the out-of-distribution score of Eq. 14, >= 0.
        hidden: width of both heads.
    """

    def __init__(
        self,
        net: nn.Module,
        coldness: float = 1.0,
        latent: int = 128,
        guidance: float = 0.01,
        test_guidance: float = 0.1,
        hidden: int = 2048,
    ) -> None:
        super().__init__(net, coldness, latent, guidance, test_guidance)
        self.hidden = hidden
        self.project = _projector("mlp", latent, hidden)
        self.head = nn.Sequential(
            nn.Linear(latent, hidden), nn.LeakyReLU(SLOPE), nn.Linear(hidden, 1)
        )

    def marginal(self, outputs: Tensor) -> Tensor:
        with torch.autocast(outputs.device.type, enabled=False):
            return self.head(outputs).squeeze(1)

    def direction(self, outputs: Tensor) -> Tensor:
        return _directed(self.project, outputs)


def _projector(kind: Kind, latent: int, hidden: int) -> nn.Module:
    if kind == "identity":
        return nn.Identity()
    if kind == "linear":
        return nn.Linear(latent, latent, bias=False)
    return nn.Sequential(
        nn.Linear(latent, hidden, bias=False),
        nn.LeakyReLU(SLOPE),
        nn.Linear(hidden, latent, bias=False),
    )


def _directed(projector: nn.Module, direction: Tensor) -> Tensor:
    """g, normalised; in float32 also under autocast, as the heads of networks are."""
    with torch.autocast(direction.device.type, enabled=False):
        return normalize(projector(direction), dim=1)
