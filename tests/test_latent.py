"""Energies with latents on the sphere, and their guidance by teachers (CLEL)."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from scipy.special import roots_gegenbauer
from torch import Tensor, nn
from torch.nn.functional import normalize

from coldness.energies import Energy, MultiHeadEnergy, SphericalEnergy, Sum
from coldness.nets import MLP, Encoder
from coldness.objectives import Batch
from coldness.objectives.byol import BYOL
from coldness.objectives.guidance import Guidance
from coldness.objectives.simclr import SimCLR, nt_xent
from laws import generator, normal

KINDS = ("mlp", "linear", "identity")


def spherical(d: int = 4, kind: str = "mlp", **more: float) -> SphericalEnergy:
    torch.manual_seed(0)
    energy = SphericalEnergy(
        MLP(2, (8,)), latent=d, hidden=16, projector=kind, guidance=0.7, **more
    )
    energy.net.build((2,), d)
    return energy.double()


def on_sphere(d: int, nodes: int = 8) -> tuple[Tensor, Tensor]:
    """Points (K, d) of the unit sphere and their weights: Gauss quadrature of each angle."""
    polar = [roots_gegenbauer(nodes, k / 2) for k in range(d - 2, 0, -1)]
    turns = 32 if d < 8 else 16
    circle = torch.arange(turns, dtype=torch.float64) * (2 * math.pi / turns)
    points, weights = [], []
    for choice in product(*(zip(*of_angle, strict=True) for of_angle in polar)):
        radius, z, weight = 1.0, [], 2 * math.pi / turns
        for t, w in choice:
            z.append(radius * t)
            radius *= math.sqrt(1 - t * t)
            weight *= w
        rest = torch.tensor(z, dtype=torch.float64).expand(turns, -1)
        points.append(torch.cat([rest, radius * torch.stack([circle.cos(), circle.sin()], 1)], 1))
        weights.append(torch.full((turns,), weight, dtype=torch.float64))
    return torch.cat(points), torch.cat(weights)


@torch.no_grad()
@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("energy_class", [SphericalEnergy, MultiHeadEnergy])
def test_the_marginal_is_the_integral_over_the_sphere(d: int, energy_class: type) -> None:
    """Eq. 11: -log of the integral of exp(-E(x, z)) over z is E(x) plus a constant."""
    torch.manual_seed(1)
    energy = energy_class(MLP(2, (8,)), latent=d, hidden=16, guidance=0.7)
    energy.net.build((2,), d)
    energy.double()
    z, weights = on_sphere(d, nodes=6 if d == 8 else 12)
    area = 2 * math.pi ** (d / 2) / math.gamma(d / 2)
    assert float(weights.sum()) == pytest.approx(area, rel=1e-9)
    x = 2 * normal(5, 2)
    marginal = torch.stack(
        [-torch.logsumexp(-energy.given(z).energy(one.expand(len(z), 2)) + weights.log(), 0)
         for one in x]
    )  # fmt: skip
    constant = marginal - energy.energy(x)
    assert float(constant.std()) < 1e-6
    # The constant is minus the logarithm of the von Mises-Fisher integral, not of the area.
    assert float(constant[0]) < -math.log(area)


@pytest.mark.parametrize("kind", KINDS)
def test_energies_are_those_of_the_paper(kind: str) -> None:
    energy = spherical(kind=kind)
    x, z = normal(6, 2), normalize(normal(6, 4, seed=1), dim=1)
    f = energy.net(x)
    u = f / f.norm(dim=1, keepdim=True)
    if kind == "mlp":
        w_1, w_2 = energy.project[0].weight, energy.project[2].weight
        hidden = u @ w_1.T
        u = torch.where(hidden > 0, hidden, 0.2 * hidden) @ w_2.T
    elif kind == "linear":
        u = u @ energy.project.weight.T
    v = u / u.norm(dim=1, keepdim=True)
    marginal = f.square().sum(1) / 2
    torch.testing.assert_close(energy.energy(x), marginal)
    torch.testing.assert_close(energy.given(z).energy(x), marginal - 0.7 * (v * z).sum(1))
    torch.testing.assert_close(energy.direction(energy.outputs(x)), v)
    assert all(p.shape[0] != 1 or "bias" not in n for n, p in energy.project.named_parameters())


def test_conditions_compose() -> None:
    """Eq. 15 is one condition, the weighted sum; energies of two conditions are independent."""
    energy = spherical()
    x, a, b = normal(6, 2), normal(4, seed=2), normal(4, seed=3)
    v = energy.direction(energy.outputs(x))
    expected = energy.energy(x) - 0.7 * (2 * (v @ a) - (v @ b))
    torch.testing.assert_close(energy.given(2 * a - b).energy(x), expected)
    both = Sum([energy.given(a), energy.given(b)])
    torch.testing.assert_close(both(x), energy.given(a)(x) + energy.given(b)(x))


def test_the_coldness_multiplies_the_joint_energy() -> None:
    energy, cold = spherical(), spherical(coldness=50.0)
    x, z = normal(6, 2), normal(4, seed=2)
    torch.testing.assert_close(cold.given(z)(x), 50 * energy.given(z)(x))


def test_nt_xent_is_the_loop_of_its_definition() -> None:
    n, tau = 5, 0.3
    z = normal(2 * n, 3)
    further = normal(4, 3, seed=1)
    unit = [row / row.norm() for row in z]
    others = [row / row.norm() for row in further]
    losses = []
    for i in range(n):
        for j in (0, 1):
            own, partner = unit[i + j * n], unit[i + (1 - j) * n]
            positive = math.exp(float(own @ partner) / tau)
            negatives = [unit[k + m * n] for k in range(n) if k != i for m in (0, 1)] + others
            negative = sum(math.exp(float(own @ other) / tau) for other in negatives)
            losses.append(-math.log(positive / (positive + negative)))
    assert float(nt_xent(z[:n], z[n:], further, tau)) == pytest.approx(
        sum(losses) / len(losses), rel=1e-5
    )
    without = float(nt_xent(z[:n], z[n:], None, tau))
    assert without < float(nt_xent(z[:n], z[n:], further, tau))


class Flat(Encoder):
    """A linear encoder of flattened images, for exact gradients."""

    def layers(self, shape: tuple[int, int, int]) -> tuple[nn.Module, int]:
        return nn.Flatten(), math.prod(shape)

    def build(self, shape: tuple[int, ...], outputs: int | None = None) -> None:
        self.map = nn.Linear(math.prod(shape), self.latent).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x.flatten(1))


class Images:
    """What a teacher needs to know of its data."""

    finite = labelled = attributed = None

    class domain:
        shape, is_images = (1, 2, 2), True


def given_batch(energy: Energy, x: Tensor, x_model: Tensor, iteration: int = 0) -> Batch:
    outputs, of_model = energy.outputs(x), energy.outputs(x_model)
    return Batch(
        energy, x, x_model, energy.read(outputs), energy.read(of_model), outputs_data=outputs,
        outputs_model=of_model, iteration=iteration, iterations=10,
    )  # fmt: skip


def lesson(teacher: type, **options: object) -> tuple[SphericalEnergy, Guidance, Tensor, Tensor]:
    torch.manual_seed(0)
    energy = SphericalEnergy(MLP(None, (8,)), latent=3, hidden=16, guidance=0.7)
    energy.net.build((1, 2, 2), 3)
    term = Guidance(teacher(Flat(3), **options))
    term.check(energy.double(), Images)
    term.prepare(energy, Images, generator(3))
    return energy, term, normal(6, 1, 2, 2), normal(5, 1, 2, 2, seed=1)


def test_gradients_of_the_guidance_are_those_of_the_equations() -> None:
    """Eqs. 12 and 13, with the stop-gradients of Algorithm 1, in float64."""
    energy, term, x, x_model = lesson(SimCLR, temperature=0.3)
    encoder = term.teacher.encoder
    term(given_batch(energy, x, x_model)).backward()
    of_energy = [p.grad.clone() for p in energy.parameters()]
    of_encoder = [p.grad.clone() for p in encoder.parameters()]
    f, of_model = energy.net(x), energy.net(x_model)
    v = normalize(energy.project(normalize(f, dim=1)), dim=1)
    z = normalize(encoder(x), dim=1).detach()
    eq12 = -0.7 * (v * z).sum(1).mean()  # its part that the contrast does not contain
    for mine, right in zip(
        of_energy, torch.autograd.grad(eq12, list(energy.parameters())), strict=True
    ):
        torch.testing.assert_close(mine, right)
    v_model = normalize(energy.project(normalize(of_model, dim=1)), dim=1).detach()
    z = normalize(encoder(x), dim=1)
    pairs, further = (z @ z.T / 0.3).exp(), (z @ v_model.T / 0.3).exp().sum(1)
    own = pairs.diagonal()  # without augmentation both views are the same
    rest = 2 * (pairs.sum(1) - own)
    eq13 = -(own / (own + rest + further)).log().mean()
    for mine, right in zip(
        of_encoder, torch.autograd.grad(eq13, list(encoder.parameters())), strict=True
    ):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-7)


def test_byol_predicts_its_average() -> None:
    energy, term, x, x_model = lesson(BYOL, hidden=8, momentum=0.9)
    teacher = term.teacher
    teacher.both.double()
    loss = teacher.loss(x, energy.direction(energy.outputs(x_model)))
    predicted = normalize(teacher.both[1](teacher.encoder(torch.cat([x, x]))), dim=1)
    target = normalize(teacher.average(x), dim=1)
    expected = (2 - 2 * (predicted * torch.cat([target, target])).sum(1)).mean()
    torch.testing.assert_close(loss.double(), expected.double(), rtol=1e-5, atol=1e-6)
    loss.backward()
    before = [p.clone() for p in teacher.average.parameters()]
    teacher.update(0, 10)
    own = list(teacher.encoder.parameters())
    for old, now, new in zip(before, teacher.average.parameters(), own, strict=True):
        torch.testing.assert_close(now, 0.9 * old + 0.1 * new)  # the base momentum at first
    assert all(p.grad is None for p in teacher.average.parameters())


def test_a_teacher_does_not_guide_while_it_warms_up() -> None:
    energy, term, x, x_model = lesson(SimCLR)
    term.warm_up = 3
    term(given_batch(energy, x, x_model, iteration=2)).backward()
    assert all(p.grad is None for p in energy.project.parameters())
    term(given_batch(energy, x, x_model, iteration=3)).backward()
    assert all(float(p.grad.norm()) > 0 for p in energy.project.parameters())


def test_latents_must_fit() -> None:
    energy, term, _, _ = lesson(SimCLR)
    with pytest.raises(ValueError, match="latents of dimension 3, the energy of 5"):
        term.check(SphericalEnergy(MLP(2), latent=5), Images)
    from coldness.energies import ScalarEnergy

    with pytest.raises(ValueError, match="needs an energy with latents"):
        term.check(ScalarEnergy(MLP(2)), Images)
