"""What every energy has: E(x), its coldness c, and the potential U(x) = c E(x).

    p(x) = exp(-U(x)) / Z,     U = c E

Calling the module gives the potential U, because everything that samples or weighs works on U.
`energy(x)` gives E, what the network says. One forward pass gives all `outputs` of a network, and
E is `read` from them: with a condition, such as a class, that is the energy of x given it. A code
base that writes its chain as x - a dE(x) + s xi samples with step h = s^2 / 2 from coldness
c = 2 a / s^2.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix, Eqs. 1A and 2A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from coldness.domain import Domain
from coldness.energies.coordinates import Coordinates


class Energy(nn.Module, ABC):
    """Base class: a subclass says what `energy(x)` is, of shape (B,).

    Args:
        coldness: c > 0, the inverse temperature of the model.
    """

    coordinates: Coordinates

    classes: int = 0
    """Number of classes that examples may be given; 0 for none."""

    classifies: bool = False
    """Whether `outputs` are the logits of these classes."""

    def __init__(self, coldness: float = 1.0) -> None:
        super().__init__()
        if not coldness > 0:
            raise ValueError(f"coldness must be > 0, got {coldness}")
        self.coldness = float(coldness)
        self.coordinates = Coordinates()

    @abstractmethod
    def energy(self, x: Tensor) -> Tensor:
        """E(x), shape (B,)."""

    def energy_at(self, y: Tensor) -> Tensor:
        """E as a function of the whitened coordinates y; override it together with `energy`."""
        return self.energy(self.coordinates.unwhiten(y))

    def build(self, domain: Domain) -> None:
        """Makes the networks of this energy, and of those it is made of, for such examples."""
        for part in self.modules():
            if isinstance(part, Energy):
                part.build_own(domain)

    def build_own(self, domain: Domain) -> None:
        """Makes the networks that this energy holds itself."""
        for net in self.children():
            if not isinstance(net, Energy) and callable(make := getattr(net, "build", None)):
                make(domain.shape, max(1, self.classes))

    @property
    def is_composite(self) -> bool:
        """Whether it is made of other energies."""
        return any(isinstance(part, Energy) and part is not self for part in self.modules())

    def outputs(self, x: Tensor) -> Tensor:
        """All that one forward pass gives, (B, ...); E is read from it."""
        return self.energy(x)

    def read(self, outputs: Tensor, condition: Tensor | None = None) -> Tensor:
        """E(x), or E(x | condition) with one condition per example, from the outputs; (B,)."""
        if condition is not None:
            raise ValueError(f"{type(self).__name__} has no classes to draw samples of")
        return outputs

    def outputs_at(self, y: Tensor) -> Tensor:
        """The outputs as a function of the whitened coordinates y."""
        return self.outputs(self.coordinates.unwhiten(y))

    def given(self, condition: Tensor) -> Energy:
        """The energy of x given a condition (B,), such as its class: an object of its own."""
        if not (self.classes or self.classifies):
            raise ValueError(f"{type(self).__name__} has no classes to draw samples of")
        return Given(self, condition)

    def bound(self) -> tuple[Energy, tuple[Tensor, ...]]:
        """The energy that lasts, and the conditions that it is called with.

        Chains are compiled once for the first, whatever the second are.
        """
        return self, ()

    def scores(self, x: Tensor) -> dict[str, Tensor]:
        """Scores of this energy that are higher for data than elsewhere, beside log p; (B,)."""
        return {}

    @property
    def white(self) -> White:
        """U as a function of the coordinates: the same object every time, so that what is compiled
        for it lasts."""
        known: White | None = self.__dict__.get("_white")
        if known is None:
            known = White(self)
            # Not as a submodule: it holds this energy, and modules must not hold each other.
            self.__dict__["_white"] = known
        return known

    def forward(self, x: Tensor, *condition: Tensor) -> Tensor:
        """U(x) = c E(x), or c E(x | condition); shape (B,)."""
        if condition:
            return self.coldness * self.read(self.outputs(x), *condition)
        return self.coldness * self.energy(x)

    @property
    def log_z(self) -> float | None:
        """log of the integral of exp(-U), where it is known in closed form."""
        return None

    @property
    def ordinary_gap(self) -> float:
        """Difference of U between data and negatives that training may well meet, in nats.

        0 where nothing but the data's dimension says so.
        """
        return 0.0


class White(nn.Module):
    """y -> U(m + L y) of an energy.

    Args:
        energy: whose potential it is, in whose coordinates.
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
    """The energy of x given a condition: E(x | z), at the coldness and in the coordinates of E.

    Args:
        of: the energy.
        condition: z (B,), one for each example it is called with.
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

    def bound(self) -> tuple[Energy, tuple[Tensor, ...]]:
        energy, conditions = self.of.bound()
        return energy, (*conditions, self.condition)


class NetworkEnergy(Energy):
    """Base class of energies that are read from a network on the whitened coordinates.

    A subclass says what `outputs_at(y)` are and, where these are not energies, how E is read.
    """

    @abstractmethod
    def outputs_at(self, y: Tensor) -> Tensor:
        """What the network says of the coordinates y, (B, ...)."""

    def outputs(self, x: Tensor) -> Tensor:
        return self.outputs_at(self.coordinates.whiten(x))

    def energy(self, x: Tensor) -> Tensor:
        return self.read(self.outputs(x))

    def energy_at(self, y: Tensor) -> Tensor:
        return self.read(self.outputs_at(y))


@dataclass(frozen=True)
class DriftNoise:
    """A paper's pair: x <- x - drift * dE(x) + noise * N(0, I), written as step and coldness.

    Args:
        drift: a > 0, the coefficient of the gradient of E.
        noise: s > 0, the standard deviation of the noise.
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
        """The pair that a step h on U of coldness c amounts to: a = c h, s = sqrt(2 h)."""
        return cls(coldness * step_size, (2 * step_size) ** 0.5)
