"""What every energy has: E(x), its coldness c, and the potential U(x) = c E(x).

    p(x) = exp(-U(x)) / Z,     U = c E

Calling the module gives the potential U, because everything that samples or weighs works on U.
`energy(x)` gives E, what the network says. A code base that writes its chain as
x - a dE(x) + s xi samples with step h = s^2 / 2 from coldness c = 2 a / s^2.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix, Eqs. 1A and 2A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn

from coldness.energies.coordinates import Coordinates


class Energy(nn.Module, ABC):
    """Base class: a subclass says what `energy(x)` is, of shape (B,).

    Args:
        coldness: c > 0, the inverse temperature of the model.
    """

    coordinates: Coordinates

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
        """E as a function of the coordinates y; what looks at y anyway need not go through x."""
        return self.energy(self.coordinates.unwhiten(y))

    def __init_subclass__(cls) -> None:
        """A class with an energy of its own does not inherit what another's is in y."""
        super().__init_subclass__()
        if "energy" in vars(cls) and "energy_at" not in vars(cls):
            cls.energy_at = Energy.energy_at  # type: ignore[method-assign]

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

    def forward(self, x: Tensor) -> Tensor:
        """U(x) = c E(x), shape (B,)."""
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

    def forward(self, y: Tensor) -> Tensor:
        return self.energy.coldness * self.energy.energy_at(y)


class Conditional(Energy):
    """An energy of examples that have one of K classes: also that of x given its class."""

    classes: int
    """K; 0 until it is known."""

    @abstractmethod
    def given(self, labels: Tensor) -> Energy:
        """The energy of x given its class: labels (B,), one for each example it is called with."""


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
