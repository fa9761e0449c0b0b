"""Base classes of energies: E(x), its coldness c, and the potential U(x) = c E(x).

    p(x) = exp(-U(x)) / Z,     U = c E

Calling the module returns the potential U, because samplers and importance weights work on U.
`energy(x)` returns E, the output of the network. One forward pass gives all `outputs` of a network,
and `read` computes E from them: with a condition, such as a class, it computes the energy of x
given that condition. A code base that writes its chain as x - a dE(x) + s xi samples with step
h = s^2 / 2 at coldness c = 2 a / s^2.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix, Eqs. 1A and 2A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor, nn

from coldness.domain import Domain
from coldness.energies.coordinates import Coordinates
from coldness.energies.reference import FittedMixture

Kept = Mapping[str, nn.Module | Tensor]
"""What the terms of a training keep for the model, by name: encoders, latents of classes."""

NOTHING: Kept = MappingProxyType({})


class Energy(nn.Module, ABC):
    """Base class of energies: a subclass defines `energy(x)`, of shape (B,).

    Args:
        coldness: c, the inverse temperature of the model, > 0.
    """

    coordinates: Coordinates

    classes: int = 0
    """Number of classes; 0 for none."""

    classifies: bool = False
    """Whether `outputs` are class logits."""

    latent: int = 0
    """Dimension of the latents that it can be conditioned on; 0 for none."""

    guidance: float = 0.0
    """Weight of latents in E(x | latent)."""

    reference: FittedMixture | None
    """A density fitted to the data, which the network corrects; None for none."""

    def __init__(self, coldness: float = 1.0) -> None:
        super().__init__()
        if not coldness > 0:
            raise ValueError(f"coldness must be > 0, got {coldness}")
        self.coldness = float(coldness)
        self.coordinates = Coordinates()
        self.reference = None

    @abstractmethod
    def energy(self, x: Tensor) -> Tensor:
        """Returns E(x), shape (B,)."""

    def energy_at(self, y: Tensor) -> Tensor:
        """Returns E as a function of the whitened coordinates y; override with `energy`."""
        return self.energy(self.coordinates.unwhiten(y))

    def build(self, domain: Domain) -> None:
        """Builds the networks of this energy and of its parts for examples of this domain."""
        for part in self.modules():
            if isinstance(part, Energy):
                part.build_own(domain)

    def build_own(self, domain: Domain) -> None:
        """Builds the networks of this energy, but not those of its parts."""
        for net in self.children():
            if not isinstance(net, Energy) and callable(make := getattr(net, "build", None)):
                make(domain.shape, max(1, self.classes))

    def tilt_at(self, y: Tensor) -> Tensor:
        """Returns c F(y) = U(y) + log q(y), (B,), of an energy with a reference q.

        Raises:
            ValueError: there is no reference.
        """
        raise ValueError(f"{type(self).__name__} has no reference")

    def updated(self) -> None:
        """Calls `updated()` of every layer that has it, such as one with spectral norm.

        Training calls it after each step of the optimiser. Layers may keep buffers that follow the
        weights, but change them here only, so that chains run on one energy.
        """
        for part in self.modules():
            follow = getattr(type(part), "updated", None)
            if follow is not None and not isinstance(part, Energy):
                follow(part)

    @property
    def is_composite(self) -> bool:
        """Whether this energy is composed of other energies."""
        return any(isinstance(part, Energy) and part is not self for part in self.modules())

    def outputs(self, x: Tensor) -> Tensor:
        """Returns all outputs (B, ...) of one forward pass; `read` computes E from them."""
        return self.energy(x)

    def read(self, outputs: Tensor, condition: Tensor | None = None) -> Tensor:
        """Returns E(x) or, with one condition per example, E(x | condition); shape (B,)."""
        if condition is not None:
            raise ValueError(f"{type(self).__name__} has nothing to condition on")
        return outputs

    def outputs_at(self, y: Tensor) -> Tensor:
        """Returns the outputs as a function of the whitened coordinates y."""
        return self.outputs(self.coordinates.unwhiten(y))

    def given(self, condition: Tensor) -> Energy:
        """Returns a new energy: that of x given conditions (B,) or (B, d): classes or latents."""
        if not (self.classes or self.classifies or self.latent):
            raise ValueError(f"{type(self).__name__} has no classes or latents to condition on")
        return Given(self, condition)

    def direction(self, outputs: Tensor) -> Tensor:
        """Returns the most likely latents given x, unit vectors (B, d), from the outputs.

        Raises:
            ValueError: the energy has no latents.
        """
        raise ValueError(f"{type(self).__name__} has no latents")

    def class_condition(self, labels: Tensor, kept: Kept) -> Tensor:
        """Returns the conditions that stand for these classes (B,): here the classes themselves."""
        return labels

    def bound(self) -> tuple[Energy, tuple[Tensor, ...]]:
        """Returns the unconditional energy and the conditions that it is called with.

        Chains are compiled once per energy, whatever the conditions are.
        """
        return self, ()

    def scores(self, x: Tensor, kept: Kept = NOTHING) -> dict[str, Tensor]:
        """Returns scores (B,) for out-of-distribution detection beside log p; higher for data.

        Args:
            x: points (B, ...).
            kept: what the model keeps beside the energy.
        """
        return {}

    @property
    def white(self) -> White:
        """U as a function of the whitened coordinates. It is always the same object, so that code
        compiled for it can be reused."""
        known: White | None = self.__dict__.get("_white")
        if known is None:
            known = White(self)
            # Not registered as a submodule: it contains this energy, which would be a cycle.
            self.__dict__["_white"] = known
        return known

    def forward(self, x: Tensor, *condition: Tensor) -> Tensor:
        """Returns U(x) = c E(x), or c E(x | condition); shape (B,)."""
        if condition:
            return self.coldness * self.read(self.outputs(x), *condition)
        return self.coldness * self.energy(x)

    @property
    def log_z(self) -> float | None:
        """log of the integral of exp(-U) if it is known in closed form, else None."""
        return None

    @property
    def confined(self) -> bool:
        """Whether Z is known to be finite: log Z is known, or U has a term that confines it.

        Without such a term, exp(-U) of a network need not be integrable.
        """
        return self.log_z is not None

    @property
    def ordinary_gap(self) -> float:
        """Difference of U between data and negatives that is normal in training, in nats.

        0 if nothing but the dimension of the data is known about it.
        """
        return 0.0


class White(nn.Module):
    """The potential of an energy as a function of whitened coordinates: y -> U(m + L y).

    Args:
        energy: the energy, which also holds the coordinates m and L.
    """

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.energy = energy

    def forward(self, y: Tensor, *condition: Tensor) -> Tensor:
        energy = self.energy
        if condition:
            return energy.coldness * energy.read(energy.outputs_at(y), *condition)
        return energy.coldness * energy.energy_at(y)


class Given(Energy):
    """The energy of x given a condition, E(x | z), with the coldness and coordinates of E.

    Args:
        of: the energy E.
        condition: one per example of the batch: classes (B,) or latents (B, d).
    """

    def __init__(self, of: Energy, condition: Tensor) -> None:
        super().__init__(of.coldness)
        self.of = of
        self.coordinates = of.coordinates
        self.condition = condition

    def energy(self, x: Tensor) -> Tensor:
        return self.of.read(self.of.outputs(x), self.condition)

    def energy_at(self, y: Tensor) -> Tensor:
        return self.of.read(self.of.outputs_at(y), self.condition)

    @property
    def confined(self) -> bool:
        return self.of.confined

    def bound(self) -> tuple[Energy, tuple[Tensor, ...]]:
        energy, conditions = self.of.bound()
        return energy, (*conditions, self.condition)


class NetworkEnergy(Energy):
    """Base class of energies given by a network on the whitened coordinates.

    A subclass defines `outputs_at(y)` and, if the outputs are not energies, `read`.
    """

    @abstractmethod
    def outputs_at(self, y: Tensor) -> Tensor:
        """Returns the outputs (B, ...) of the network at the whitened coordinates y."""

    def outputs(self, x: Tensor) -> Tensor:
        return self.outputs_at(self.coordinates.whiten(x))

    def energy(self, x: Tensor) -> Tensor:
        return self.read(self.outputs(x))

    def energy_at(self, y: Tensor) -> Tensor:
        return self.read(self.outputs_at(y))


@dataclass(frozen=True)
class DriftNoise:
    """Converts x <- x - drift * dE(x) + noise * N(0, I), as in papers, to step and coldness.

    Args:
        drift: a, the coefficient of the gradient of E, > 0.
        noise: s, the standard deviation of the noise, > 0.
    """

    drift: float
    noise: float

    def __post_init__(self) -> None:
        if not (self.drift > 0 and self.noise > 0):
            raise ValueError(f"drift and noise must be > 0, got {self.drift} and {self.noise}")

    @property
    def step_size(self) -> float:
        """h = s^2 / 2."""
        return self.noise**2 / 2

    @property
    def coldness(self) -> float:
        """c = a / h = 2 a / s^2."""
        return self.drift / self.step_size

    @classmethod
    def of(cls, step_size: float, coldness: float) -> DriftNoise:
        """Returns drift a = c h and noise s = sqrt(2 h) of a step h on U at coldness c."""
        return cls(coldness * step_size, (2 * step_size) ** 0.5)
