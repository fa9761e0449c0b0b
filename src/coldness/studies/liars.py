"""A library of liars: models of known truth and known fault, and right ones, for `trust`.

Each is an analytic energy with a sampler and data of known density. It carries, written beforehand,
the highest grade that each question deserves:

    density        yes: KL(data || model) and KL(model || data) below 0.05 nats;
                   partly: KL(data || model) below 1; no: otherwise, or not normalisable
    long_chains    by what infinitely long chains would give: yes if at most a twentieth of the
                   model's mass is misplaced (total variation), partly below a half, no above
    generation     by what short chains of the sampler give
    ood            yes if the ranking by U is that of the true density but for a few percent

A grade above the deserved one is false trust. Right models deserve four times yes, and a lower
grade is a false alarm. No finite search finds every mode: a verdict that passes here is known to
see through these liars and no others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from coldness.chains import GaussianNoise, LikeData, Source, Start
from coldness.data import KnownDensity
from coldness.energies import Energy
from coldness.kernels import Langevin
from coldness.trust import Grade

POINTS_FOR_TRUTH = 100_000

Matrix = Sequence[Sequence[float]]


class Normals(Energy):
    """A mixture of Gaussians with any covariances, normalised.

    Args:
        means: (K, D).
        covariances: (K, D, D).
        weights: (K,), with sum 1.
    """

    means: Tensor
    factors: Tensor
    inverses: Tensor
    constants: Tensor
    weights: Tensor

    def __init__(self, means: Tensor, covariances: Tensor, weights: Tensor) -> None:
        super().__init__()
        factors = torch.linalg.cholesky(covariances)
        log_det = factors.diagonal(dim1=1, dim2=2).log().sum(1)
        self.register_buffer("means", means)
        self.register_buffer("factors", factors)
        self.register_buffer("inverses", torch.linalg.inv(factors))
        self.register_buffer("weights", weights)
        constants = weights.log() - log_det - means.shape[1] / 2 * math.log(2 * math.pi)
        self.register_buffer("constants", constants)

    def energy(self, x: Tensor) -> Tensor:
        white = torch.einsum("kij,bkj->bki", self.inverses, x[:, None] - self.means)
        return -torch.logsumexp(self.constants - white.square().sum(2) / 2, 1)

    @property
    def log_z(self) -> float:
        return 0.0

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Independent samples (count, D) in float64."""
        which = torch.multinomial(self.weights, count, replacement=True, generator=generator)
        noise = torch.randn(count, self.means.shape[1], generator=generator, dtype=torch.float64)
        return self.means[which] + torch.einsum("bij,bj->bi", self.factors[which], noise)


def normals(*parts: tuple[float, Sequence[float], float | Sequence[float] | Matrix]) -> Normals:
    """A mixture of (weight, mean, covariance): a variance, variances, or a matrix."""
    means = torch.tensor([list(mean) for _, mean, _ in parts], dtype=torch.float64)
    covariances = []
    for _, _, given in parts:
        c = torch.as_tensor(given, dtype=torch.float64)
        ones = torch.ones(means.shape[1], dtype=torch.float64)
        covariances.append(c if c.dim() == 2 else (c * ones).diag())
    weights = torch.tensor([weight for weight, _, _ in parts], dtype=torch.float64)
    return Normals(means, torch.stack(covariances), weights)


class Falling(Energy):
    """A right density with a wrong far field: exp(-U) = p(x) + exp(slope |x| - depth).

    Args:
        part: the density p.
        depth: how far below p the far field is at the centre, in nats.
        slope: of the far field; 0 for a flat one. It cannot be normalised for slope >= 0.
    """

    def __init__(self, part: Energy, depth: float, slope: float) -> None:
        super().__init__()
        self.part, self.depth, self.slope = part, depth, slope

    def energy(self, x: Tensor) -> Tensor:
        # The square root is smooth at the centre.
        far = self.slope * (1 + x.square().sum(1)).sqrt() - self.depth
        return -torch.logaddexp(-self.part(x), far)


class NormalData(KnownDensity):
    """Data from a mixture of Gaussians."""

    energy: Normals

    def __init__(self, energy: Normals) -> None:
        self.energy = energy
        std = energy.factors.square().sum(2).sqrt()
        self.box = float((energy.means.abs() + 5 * std).max())
        self.local_scales = std.min(0).values.float()

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.energy.means.shape[1],)

    @cached_property
    def entropy(self) -> float:
        return -float(self.log_prob(truth_points(self.energy)).mean())

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self.energy.sample(count, generator).float()


def truth_points(energy: Normals) -> Tensor:
    return energy.sample(POINTS_FOR_TRUTH, torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Liar:
    """A model whose truth is known.

    Args:
        name: the fault in a few words, with the dimension.
        data: what it is judged on.
        model: its energy.
        deserves: highest grades, of questions that do not deserve a yes.
        step: of its sampler's Langevin kernel, as a fraction of the smallest variance of the data.
        start: of the sampler.
        steps: of short chains.
    """

    name: str
    data: NormalData
    model: Energy
    deserves: dict[str, Grade] = field(default_factory=dict)
    step: float = 0.1
    start: Start = field(default_factory=LikeData)
    steps: int = 100

    @property
    def right(self) -> bool:
        return not self.deserves

    @property
    def sampler(self) -> Source:
        variance = float(self.data.local_scales.square().min())
        return Source(self.start, Langevin(self.step * variance), self.steps)

    def kl(self) -> float:
        """KL(data || model), exact but for sampling; infinite where there is no density."""
        if self.model.log_z is None:
            return math.inf
        x = truth_points(self.data.energy)
        with torch.no_grad():
            return float((self.data.log_prob(x) + self.model(x)).mean()) + self.model.log_z


def at(dimension: int, **values: float) -> list[float]:
    """A point that is 0 but for coordinates such as x1=2."""
    point = [0.0] * dimension
    for name, value in values.items():
        point[int(name[1:]) - 1] = value
    return point


def two(dimension: int, share: float, apart: float, variance: float) -> Normals:
    """Two modes at +-apart in the first coordinate."""
    ends = at(dimension, x1=apart), at(dimension, x1=-apart)
    return normals((share, ends[0], variance), (1 - share, ends[1], variance))


def one(dimension: int, variance: float = 1.0, **mean: float) -> Normals:
    return normals((1.0, at(dimension, **mean), variance))


def turned(angle: float) -> Matrix:
    """A covariance with variances 1 and 0.04, turned in the plane."""
    c, s = math.cos(angle), math.sin(angle)
    return [[c * c + 0.04 * s * s, 0.96 * c * s], [0.96 * c * s, s * s + 0.04 * c * c]]


def circle(variance: float, points: int = 8, radius: float = 1.0) -> Normals:
    angles = [2 * math.pi * k / points for k in range(points)]
    return normals(
        *((1 / points, [radius * math.cos(a), radius * math.sin(a)], variance) for a in angles)
    )


def memorised(data: Normals, count: int, variance: float) -> Normals:
    """Narrow Gaussians at training points."""
    x = data.sample(count, torch.Generator().manual_seed(7))
    return normals(*((1 / count, point.tolist(), variance) for point in x))


LOST: dict[str, Grade] = {
    "generation": "no", "long_chains": "no", "density": "no", "ood": "partly"
}  # fmt: skip
ROUGH: dict[str, Grade] = {"long_chains": "partly", "density": "partly"}
INVENTED: dict[str, Grade] = {"long_chains": "no", "density": "no", "ood": "no"}


def liars() -> Iterator[Liar]:
    """Models with a fault."""
    data = NormalData
    line, plane, space = two(1, 0.5, 2, 0.25), two(2, 0.5, 1, 0.04), two(3, 0.5, 2, 0.16)
    yield Liar("1-D, a mode missing", data(line), one(1, 0.25, x1=2), LOST)
    yield Liar("1-D, mode weights .8/.2 for .5/.5", data(line), two(1, 0.8, 2, 0.25), ROUGH)
    far = normals((0.6, [0.0], 1.0), (0.4, [8.0], 1.0))
    yield Liar("1-D, 40% of the mass at 8 standard deviations", data(one(1)), far,
               {"long_chains": "partly", "density": "partly", "ood": "partly"})  # fmt: skip
    yield Liar("1-D, blurred twofold", data(one(1)), one(1, 4.0), ROUGH)
    bimodal = two(2, 0.5, 1, 0.09)
    out = normals((0.15, [1, 0], 0.09), (0.15, [-1, 0], 0.09), (0.7, [5, 0], 0.09))
    yield Liar("2-D, 70% of the mass outside the grid", data(bimodal), out, INVENTED)
    centre = normals((0.455, [1, 0], 0.0225), (0.455, [-1, 0], 0.0225), (0.09, [0, 0], 0.0225))
    yield Liar("2-D, 9% spurious mass at the centre", data(two(2, 0.5, 1, 0.0225)), centre,
               {"long_chains": "partly", "density": "partly", "ood": "partly"})  # fmt: skip
    yield Liar("2-D, mode weights .3/.7 for .5/.5", data(plane), two(2, 0.3, 1, 0.04), ROUGH)
    ridge = normals((0.4, [1, 0], 0.04), (0.4, [-1, 0], 0.04), (0.2, [0, 0], [0.25, 0.0025]))
    yield Liar("2-D, a ridge between modes", data(plane), ridge,
               {"long_chains": "partly", "density": "partly", "ood": "partly"})  # fmt: skip
    ring = circle(0.0225)
    yield Liar("2-D, 50 memorised points", data(ring), memorised(ring, 50, 0.0004),
               {"long_chains": "partly", "density": "no", "ood": "partly"})  # fmt: skip
    turn = normals((1.0, [0, 0], turned(math.pi / 4)))
    yield Liar("2-D, rotated by 45 degrees", data(normals((1.0, [0, 0], turned(0)))), turn,
               {"long_chains": "no", "density": "no", "ood": "no"}, step=0.5)  # fmt: skip
    improper: dict[str, Grade] = {"long_chains": "partly", "density": "no"}
    yield Liar("2-D, falls at infinity", data(one(2)), Falling(one(2), 40, 1), improper)
    yield Liar("2-D, flat at infinity", data(one(2)), Falling(one(2), 25, 0), improper)
    yield Liar("2-D, a good sampler with a wrong density", data(one(2)), one(2, 16.0),
               {"long_chains": "no", "density": "no"}, step=1e-7)  # fmt: skip
    yield Liar("2-D, a right density with a bad sampler", data(one(2)), one(2),
               {"generation": "no", "long_chains": "no"},
               step=1e-4, start=GaussianNoise(8.0, 0.1), steps=5)  # fmt: skip
    yield Liar("2-D, too cold by a factor of 3", data(one(2)), one(2, 1 / 3), ROUGH)
    yield Liar("3-D, mode weights .9/.1 for .5/.5", data(space), two(3, 0.9, 2, 0.16), ROUGH)
    heavy = normals((0.7, at(3), 1.0), (0.2, at(3), 9.0), (0.1, at(3), 100.0))
    yield Liar("3-D, heavy tails", data(one(3)), heavy, ROUGH)
    narrow = normals((1.0, at(3), [0.09, 1.0, 1.0]))
    yield Liar("3-D, narrow in one dimension", data(one(3)), narrow,
               {"long_chains": "partly", "density": "no"})  # fmt: skip
    near = normals((0.7, at(3), 1.0), (0.3, at(3, x2=4), 1.0))
    yield Liar("3-D, 30% of the mass at 4 standard deviations", data(one(3)), near,
               {"long_chains": "partly", "density": "partly", "ood": "partly"})  # fmt: skip
    away = normals((0.1, at(10), 1.0), (0.9, at(10, x2=8), 1.0))
    yield Liar("10-D, 90% of the mass at 8 standard deviations", data(one(10)), away, INVENTED)
    yield Liar("10-D, mode weights .98/.02 for .5/.5", data(two(10, 0.5, 3, 0.25)),
               two(10, 0.98, 3, 0.25), {"long_chains": "partly", "density": "no"})  # fmt: skip
    yield Liar("10-D, too hot by a factor of 2", data(one(10)), one(10, 2.0),
               {"long_chains": "no", "density": "no"})  # fmt: skip
    ends = at(10, x1=4), at(10, x2=4), at(10, x3=4)
    three = normals(*((1 / 3, end, 0.5) for end in ends))
    yield Liar("10-D, a mode of three missing", data(three),
               normals((0.5, ends[0], 0.5), (0.5, ends[1], 0.5)),
               {**LOST, "long_chains": "partly", "generation": "partly"})  # fmt: skip
    yield Liar("10-D, shifted by 1 standard deviation", data(one(10)), one(10, x1=1.0),
               {"long_chains": "partly", "density": "partly"})  # fmt: skip
    distant = normals((0.3, at(50), 1.0), (0.7, at(50, x4=9), 1.0))
    yield Liar("50-D, 70% of the mass at 9 standard deviations", data(one(50)), distant, INVENTED)
    yield Liar("50-D, blurred by 20%", data(one(50)), one(50, 1.44),
               {"long_chains": "no", "density": "no"})  # fmt: skip
    yield Liar("50-D, mode weights .8/.2 for .5/.5", data(two(50, 0.5, 4, 1.0)),
               two(50, 0.8, 4, 1.0), ROUGH)  # fmt: skip


def right_models() -> Iterator[Liar]:
    """Models that are the data's density, with samplers that reach it."""
    line, ring, modes = two(1, 0.5, 2, 0.25), circle(0.0225), two(10, 0.5, 3, 0.25)
    yield Liar("1-D, two modes", NormalData(line), line)
    yield Liar("2-D, eight modes", NormalData(ring), ring)
    tilted = normals((1.0, [1.0, 2.0, 3.0], [[1, 0.8, 0], [0.8, 1, 0.3], [0, 0.3, 0.5]]))
    yield Liar("3-D, correlated", NormalData(tilted), tilted)
    yield Liar("10-D, two separate modes", NormalData(modes), modes)
    scales = normals((1.0, at(10), [1.0, 0.5, 0.25, 0.1, 0.05, 1.0, 0.5, 0.25, 0.1, 0.05]))
    yield Liar("10-D, scales that differ", NormalData(scales), scales, step=0.4, steps=400)
    wide = one(50)
    yield Liar("50-D, one mode", NormalData(wide), wide)
