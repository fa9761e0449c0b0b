"""Energies: known integrals by quadrature, gradients, and the identities of composition."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn

from coldness.energies import (
    Coordinates,
    DriftNoise,
    Energy,
    Gaussian,
    GaussianMixture,
    Mixture,
    PlanarRings,
    RadialRings,
    ScalarEnergy,
    Sum,
    Tempered,
    check_coordinates,
)
from coldness.nets import MLP
from laws import KINDS, banana, coordinates, matrix, normal

MEAN, COVARIANCE = [0.3, -0.2], [[0.5, 0.2], [0.2, 0.4]]
MEANS, WEIGHTS = [[0.0, 1.0], [1.0, -1.0], [-1.5, 0.2]], [0.2, 0.3, 0.5]


def grid_log_z(energy: Energy, half: float, points: int, dimension: int = 2) -> float:
    """log of the integral of exp(-U) on a grid: of spectral accuracy for smooth densities."""
    side = torch.linspace(-half, half, points, dtype=torch.float64)
    x = torch.cartesian_prod(*[side] * dimension).reshape(-1, dimension)
    cell = dimension * math.log(float(side[1] - side[0]))
    return float(torch.logsumexp(-energy(x), 0)) + cell


@pytest.mark.parametrize(
    ("energy", "half", "points", "dimension"),
    [
        (Gaussian([0.7], [[0.3]]), 6, 400, 1),
        (Gaussian(MEAN, COVARIANCE), 6, 200, 2),
        (Gaussian(MEAN, COVARIANCE, coldness=3.0), 6, 300, 2),
        (Gaussian(MEAN, COVARIANCE, coldness=0.5), 9, 200, 2),
        (GaussianMixture(MEANS, 0.4, WEIGHTS), 5, 200, 2),
        (GaussianMixture([[0.1, 0.2, 0.3]], 0.5), 4, 60, 3),
        (PlanarRings([0.5, 1.5], 0.3, weights=[0.3, 0.7]), 4, 200, 2),
        (PlanarRings([0.5, 1.0], 0.3, [0.2]), 3, 90, 3),
        (PlanarRings([3.0], 0.1), 4, 700, 2),
    ],
)
def test_log_z_by_quadrature(energy: Energy, half: float, points: int, dimension: int) -> None:
    assert energy.log_z is not None
    assert grid_log_z(energy, half, points, dimension) == pytest.approx(energy.log_z, abs=1e-9)


@pytest.mark.parametrize("radii", [[1.0, 2.0, 3.0, 4.0], [0.2, 1.0]])
def test_radial_rings_integrate_to_one(radii: list[float]) -> None:
    """In polar coordinates, since the density itself is infinite at the centre."""
    energy = RadialRings(radii, 0.15, [0.3] + [0.7 / (len(radii) - 1)] * (len(radii) - 1))
    r = torch.linspace(0, 6, 20_001, dtype=torch.float64)[1:]
    density = (-energy(torch.stack([r * math.cos(1), r * math.sin(1)], 1))).exp()
    cell = float(r[1] - r[0])
    # The integrand at 0 is not 0 for a ring that reaches the centre: half its cell is missing.
    centre = float(2 * math.pi * r[0] * density[0]) / 2
    total = float((2 * math.pi * r * density).sum()) + centre
    assert total * cell == pytest.approx(1, abs=1e-6)
    assert energy.log_z == 0


def test_planar_rings_are_rings_with_noise_in_the_plane() -> None:
    """Against the average of a Gaussian over the angle, which knows nothing of Bessel functions."""
    radii, weights, s = [1.0, 3.0], [0.25, 0.75], 0.1
    x = 1.5 * normal(50, 2)
    angle = torch.arange(4096, dtype=torch.float64) * (2 * math.pi / 4096)
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    density = torch.zeros(50, dtype=torch.float64)
    for r, w in zip(radii, weights, strict=True):
        squares = (x[:, None] - r * circle).square().sum(2)
        density += w * (-squares / (2 * s**2)).exp().mean(1) / (2 * math.pi * s**2)
    expected = -density.log()
    near = expected < 600  # beyond, the average underflows
    assert near.sum() > 30
    energy = PlanarRings(radii, s, weights=weights)
    torch.testing.assert_close(energy(x)[near], expected[near], rtol=1e-9, atol=1e-9)


def test_planar_rings_are_finite_at_the_centre_and_far_away() -> None:
    energy = PlanarRings([1.0, 2.0, 3.0], 0.1, [0.1, 0.01])
    x = torch.tensor([[0.0, 0, 0, 0], [300, 0, 0, 0]], dtype=torch.float64, requires_grad=True)
    u = energy(x)
    (gradient,) = torch.autograd.grad(u.sum(), x)
    assert u.isfinite().all()
    assert gradient.isfinite().all()
    assert gradient[0].tolist() == [0, 0, 0, 0]
    assert float(gradient[1, 0]) == pytest.approx(297 / 0.1**2, rel=1e-3)


def test_gaussian_is_the_quadratic_form() -> None:
    x = normal(7, 2)
    centred = x - torch.tensor(MEAN, dtype=torch.float64)
    inverse = torch.tensor(COVARIANCE, dtype=torch.float64).inverse()
    expected = torch.einsum("bi,ij,bj->b", centred, inverse, centred) / 2
    torch.testing.assert_close(Gaussian(MEAN, COVARIANCE, coldness=4).energy(x), expected)


def scalar(kind: str = "none", **options: float) -> ScalarEnergy:
    torch.manual_seed(3)
    energy = ScalarEnergy(MLP(2, (8, 8), "silu"), **options).double()
    energy.coordinates = coordinates(kind)
    return energy


@pytest.mark.parametrize(
    "energy",
    [
        Gaussian(MEAN, COVARIANCE, coldness=2.0),
        GaussianMixture(MEANS, 0.4, WEIGHTS),
        RadialRings([1.0, 2.0], 0.3),
        PlanarRings([1.0, 2.0], 0.3),
        scalar(coldness=5.0, reference_std=2.0),
        scalar("full", coldness=5.0, reference_std=2.0),
        Sum([Gaussian(MEAN, COVARIANCE), scalar()], [0.5, -0.2]),
        Mixture([Gaussian(MEAN, COVARIANCE), GaussianMixture(MEANS, 0.4)]),
        Tempered(scalar(coldness=5.0), 0.3),
    ],
    ids=lambda energy: type(energy).__name__,
)
def test_gradients_by_finite_differences(energy: Energy) -> None:
    x = normal(5, 2, seed=1).requires_grad_(True)
    assert torch.autograd.gradcheck(energy, (x,))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: GaussianMixture(MEANS, 0.4, [0.2, 0.3, 0.6]),
        lambda: GaussianMixture(MEANS, 0.4, [0.5, 0.5]),
        lambda: GaussianMixture(MEANS, 0.4, [1.2, -0.4, 0.2]),
        lambda: GaussianMixture(MEANS, 0.0),
        lambda: RadialRings([1.0, 2.0], 0.1, [0.5, 0.4]),
        lambda: RadialRings([0.0, 2.0], 0.1),
        lambda: RadialRings([1.0], -0.1),
        lambda: PlanarRings([1.0, 2.0], 0.1, weights=[0.5, 0.4]),
        lambda: PlanarRings([1.0], 0.1, [0.1, 0.0]),
        lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]),
        lambda: Gaussian([0.0], [[1.0]], coldness=0.0),
        lambda: ScalarEnergy(MLP(2), coldness=-1.0),
        lambda: ScalarEnergy(MLP(2), reference_std=0.0),
        lambda: Sum([Gaussian([0.0], [[1.0]])], [1.0, 2.0]),
        lambda: Mixture([Gaussian([0.0], [[1.0]])] * 2, [0.7, 0.7]),
        lambda: Tempered(Gaussian([0.0], [[1.0]]), 0.0),
        lambda: DriftNoise(0.0, 1.0),
        lambda: DriftNoise(1.0, -1.0),
        lambda: Coordinates("diagonal"),
        lambda: MLP(0),
        lambda: MLP(2, ()),
        lambda: MLP(2, (8, 0)),
    ],
)
def test_senseless_arguments_raise(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"must|weights|need"):
        wrong()  # type: ignore[operator]


def test_sum_of_gaussians_is_the_gaussian_of_summed_precisions() -> None:
    x = normal(6, 2)
    parts = [Gaussian(MEAN, COVARIANCE, coldness=2.0), Gaussian([1.0, 1.0], [[1.0, 0.0], [0.0, 3]])]
    expected = 0.5 * parts[0](x) + 2 * parts[1](x)
    torch.testing.assert_close(Sum(parts, [0.5, 2.0])(x), expected)
    precision = 0.5 * 2 * torch.tensor(COVARIANCE, dtype=torch.float64).inverse()
    precision = precision + 2 * torch.tensor([[1, 0], [0, 1 / 3]], dtype=torch.float64)
    second = torch.autograd.functional.hessian(lambda v: Sum(parts, [0.5, 2.0])(v[None])[0], x[0])
    torch.testing.assert_close(second, precision)
    torch.testing.assert_close(Sum(parts)(x), parts[0](x) + parts[1](x))
    assert Sum(parts).log_z is None


def test_mixture_of_normalised_parts_is_the_mixture_of_their_densities() -> None:
    x = normal(6, 2)
    square = [[0.16, 0.0], [0.0, 0.16]]
    # Coldness and covariance that come to the same density, and other log Z.
    parts = [Gaussian(MEANS[0], square), Gaussian(MEANS[1], [[0.48, 0], [0, 0.48]], coldness=3.0)]
    parts.append(Gaussian(MEANS[2], [[0.08, 0], [0, 0.08]], coldness=0.5))
    mixture = Mixture(parts, WEIGHTS)
    torch.testing.assert_close(mixture(x), GaussianMixture(MEANS, 0.4, WEIGHTS)(x))
    assert mixture.log_z == 0
    assert grid_log_z(mixture, 5, 200) == pytest.approx(0, abs=1e-9)


def test_mixture_with_an_unknown_integral_uses_none() -> None:
    x = normal(6, 2)
    known, unknown = Gaussian(MEAN, COVARIANCE), scalar()
    mixture = Mixture([known, unknown], [0.25, 0.75])
    expected = -(0.25 * (-known(x)).exp() + 0.75 * (-unknown(x)).exp()).log()
    torch.testing.assert_close(mixture(x), expected)
    assert mixture.log_z is None


def test_tempered_is_the_density_to_a_power() -> None:
    x = normal(6, 2)
    part = scalar(coldness=5.0, reference_std=2.0)
    warm = Tempered(part, 0.3)
    torch.testing.assert_close(warm(x), 0.3 * part(x))
    assert warm.coldness == pytest.approx(1.5)
    gaussian = Gaussian(MEAN, COVARIANCE, coldness=2.0)
    same = Gaussian(MEAN, COVARIANCE, coldness=0.6)
    torch.testing.assert_close(Tempered(gaussian, 0.3)(x), same(x))


def test_potential_is_coldness_times_energy() -> None:
    x = normal(6, 2)
    one, cold = scalar(coldness=1.0), scalar(coldness=128.0)
    torch.testing.assert_close(cold.energy(x), one.energy(x))
    torch.testing.assert_close(cold(x), 128 * one(x))


@pytest.mark.parametrize("kind", KINDS)
def test_reference_is_a_gaussian_in_the_coordinates_whatever_the_coldness(kind: str) -> None:
    x = normal(6, 2)
    bare = scalar(kind, coldness=7.0)
    full = scalar(kind, coldness=7.0, reference_std=2.0)
    y = torch.linalg.solve(
        matrix(full.coordinates), (x - full.coordinates.unwhiten(torch.zeros_like(x))).T
    ).T
    torch.testing.assert_close(full(x) - bare(x), y.square().sum(1) / (2 * 2.0**2))
    assert full.log_z is None


def test_networks_see_whitened_examples() -> None:
    x = normal(6, 2)
    seen = scalar("full")
    torch.testing.assert_close(seen(x), scalar()(seen.coordinates.whiten(x)))


@pytest.mark.parametrize("outputs", ["(B, 1)", "(B,)"])
def test_scalar_energy_takes_columns_and_vectors(outputs: str) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return banana(x) if outputs == "(B,)" else banana(x)[:, None]

    x = normal(6, 2)
    torch.testing.assert_close(ScalarEnergy(Net())(x), banana(x))


def test_scalar_energy_refuses_a_network_with_more_outputs() -> None:
    energy = ScalarEnergy(nn.Linear(2, 3))
    with pytest.raises((ValueError, RuntimeError)):
        energy(torch.zeros(4, 2))


@pytest.mark.parametrize(
    ("drift", "noise", "h", "c"),
    [
        (1, 0.125, 7.8125e-3, 128),
        (1, 0.01, 5e-5, 20_000),
        (0.05, math.sqrt(2 * 0.05 * 0.005), 2.5e-4, 200),
        (100, 0.001, 5e-7, 2e8),
        (2, 0.01, 5e-5, 40_000),
        (1, 0.02, 2e-4, 5_000),
        (0.25, 0.005, 1.25e-5, 20_000),
    ],
)
def test_one_scale_for_all_papers(drift: float, noise: float, h: float, c: float) -> None:
    """The table of setups.md, and scenarios 4, 6 and 7 of the beta paper's JEM runs."""
    pair = DriftNoise(drift, noise)
    assert pair.step_size == pytest.approx(h, rel=1e-12)
    assert pair.coldness == pytest.approx(c, rel=1e-12)
    back = DriftNoise.of(pair.step_size, pair.coldness)
    assert back.drift == pytest.approx(drift, rel=1e-12)
    assert back.noise == pytest.approx(noise, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_are_an_affine_map(kind: str) -> None:
    at = coordinates(kind, 3)
    y, v, g = normal(3, 5, 3)
    factor = matrix(at, 3)
    torch.testing.assert_close(at.unwhiten(at.whiten(y)), y)
    torch.testing.assert_close(at.whiten(at.unwhiten(y)), y)
    torch.testing.assert_close(at.unwhiten(y + v) - at.unwhiten(y), at.push(v))
    torch.testing.assert_close(at.push(v), v @ factor.T)
    torch.testing.assert_close(at.pull(g), g @ factor)
    assert kind in repr(at)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_estimated_coordinates_give_unit_scale(kind: str) -> None:
    x = normal(500, 3) @ torch.tensor([[1.0, 0.5, 0], [0, 2, 0.01], [0, 0, 0.01]]).double() + 4
    y = Coordinates.estimate(x, kind).whiten(x)  # type: ignore[arg-type]
    covariance = torch.cov(y.T)
    torch.testing.assert_close(y.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(covariance.diagonal(), torch.ones(3, dtype=torch.float64))
    off = float((covariance - covariance.diagonal().diag()).abs().max())
    assert off < 1e-9 if kind == "full" else off > 0.1


def test_no_preconditioner_is_the_identity() -> None:
    x = 3 * normal(50, 2) + 1
    at = Coordinates.estimate(x, "none")
    assert at.kind == "none"
    assert all(torch.equal(f(x), x) for f in (at.whiten, at.unwhiten, at.push, at.pull))


def test_images_have_diagonal_coordinates() -> None:
    x = 3 * normal(100, 1, 4, 4) + 1
    at = Coordinates.estimate(x, "diagonal")
    y = at.whiten(x)
    torch.testing.assert_close(y.std(0), torch.ones(1, 4, 4, dtype=torch.float64))
    torch.testing.assert_close(at.unwhiten(y), x)


def test_images_are_whitened_as_images() -> None:
    """Among all y with unit covariance, those of the symmetric root correlate most with x."""
    mixing = torch.eye(12, dtype=torch.float64) + 0.3 * normal(12, 12)
    x = (normal(400, 12) @ mixing + 2).reshape(400, 3, 2, 2)
    at = Coordinates.estimate(x, "full")
    y = at.whiten(x)
    assert y.shape == x.shape
    torch.testing.assert_close(torch.cov(y.flatten(1).T), torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(at.unwhiten(y), x)
    torch.testing.assert_close(at.scale, at.scale.T)
    root = torch.linalg.cholesky(torch.cov(x.flatten(1).T))
    other = torch.linalg.solve_triangular(
        root, x.flatten(1).T - at.location.reshape(-1, 1), upper=False
    )

    def overlap(whitened: Tensor) -> float:
        return float((whitened * (x - at.location).flatten(1)).mean())

    assert overlap(y.flatten(1)) > overlap(other.T)


class Walled(ScalarEnergy):
    """Overrides `energy`, and forgets `energy_at`."""

    def energy(self, x: Tensor) -> Tensor:
        return super().energy(x) + x.square().sum(1)


class Bowl(Energy):
    """Written in x, as it would be without coordinates."""

    def energy(self, x: Tensor) -> Tensor:
        return (x - 1).square().sum(1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_energy_of_ones_own_is_the_same_in_the_coordinates(kind: str) -> None:
    energies = [scalar(kind), Bowl(coldness=2.0)]
    energies[1].coordinates = coordinates(kind)
    y = normal(5, 2)
    for energy in energies:
        at = energy.coordinates
        torch.testing.assert_close(energy.white(y), energy(at.unwhiten(y)))
        assert energy.white is energy.white
        check_coordinates(energy, at.unwhiten(y))


def test_an_energy_that_is_another_in_the_coordinates_is_refused() -> None:
    energy = Walled(MLP(2, (8,), "silu"), coldness=2.0).double()
    check_coordinates(energy, normal(5, 2))  # without coordinates it does not matter
    energy.coordinates = coordinates("full")
    with pytest.raises(ValueError, match="energy and energy_at of Walled disagree"):
        check_coordinates(energy, normal(5, 2))


def test_coordinates_are_inverted_in_the_precision_that_they_have() -> None:
    at = Coordinates.estimate((normal(100, 3) * torch.tensor([1.0, 1e-2, 1e-4])).float(), "full")
    y = normal(5, 3)
    torch.testing.assert_close(at.double().whiten(at.unwhiten(y)), y, rtol=1e-9, atol=1e-9)


def test_full_coordinates_keep_their_precision_under_autocast() -> None:
    at = Coordinates.estimate(normal(100, 1, 2, 2).float(), "full")
    x = normal(5, 1, 2, 2).float()
    with torch.autocast("cpu", torch.bfloat16):
        moved = [f(x) for f in (at.whiten, at.unwhiten, at.push, at.pull)]
    plain = [f(x) for f in (at.whiten, at.unwhiten, at.push, at.pull)]
    assert all(torch.equal(a, b) for a, b in zip(moved, plain, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_log_det_is_the_volume_of_a_unit_of_the_coordinates(kind: str) -> None:
    at = coordinates(kind, 3)
    volume = float(torch.linalg.slogdet(matrix(at, 3)).logabsdet)
    assert at.log_det == pytest.approx(volume, abs=1e-12)


def test_coordinates_that_cannot_be_estimated_raise() -> None:
    x = normal(50, 3)
    x[:, 1] = 2.0
    with pytest.raises(ValueError, match="dimension 1 of the data is constant"):
        Coordinates.estimate(x, "diagonal")
    with pytest.raises(ValueError, match="singular"):
        Coordinates.estimate(x, "full")
    with pytest.raises(ValueError, match="singular"):  # fewer examples than dimensions
        Coordinates.estimate(normal(10, 1, 4, 4), "full")
    with pytest.raises(ValueError, match="5000 dimensions"):
        Coordinates.estimate(normal(10, 5000), "full")


@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_are_saved_with_the_energy(kind: str) -> None:
    saved = scalar(kind, coldness=2.0)
    loaded = copy.deepcopy(saved)
    loaded.coordinates = Coordinates.like(kind, (2,)).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in loaded.parameters():
            parameter.zero_()
    loaded.load_state_dict(saved.state_dict())
    x = normal(4, 2)
    assert torch.equal(loaded(x), saved(x))
    assert torch.equal(loaded.coordinates.push(x), saved.coordinates.push(x))
    assert torch.equal(pickle.loads(pickle.dumps(loaded))(x), saved(x))


def test_the_network_of_the_anatomy_paper_has_10593_parameters() -> None:
    net = MLP(2)
    assert sum(p.numel() for p in net.parameters()) == 10_593
    assert [m.negative_slope for m in net.modules() if isinstance(m, nn.LeakyReLU)] == [0.05] * 4


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("leaky_relu", lambda v: torch.where(v > 0, v, 0.2 * v)),
        ("silu", lambda v: v * torch.sigmoid(v)),
        ("softplus", lambda v: (1 + v.exp()).log()),
    ],
)
def test_mlp_is_linear_layers_with_an_activation_between(name: str, function: object) -> None:
    net = MLP(3, (5, 4), name, slope=0.2).double()  # type: ignore[arg-type]
    h = x = normal(6, 3)
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    for layer in linear[:-1]:
        h = function(h @ layer.weight.T + layer.bias)  # type: ignore[operator]
    h = h @ linear[-1].weight.T + linear[-1].bias
    torch.testing.assert_close(net(x), h)


def test_a_network_with_frequencies_sees_sines_and_cosines_of_each_input() -> None:
    net = MLP(2, (4,), frequencies=3)
    seen: list[Tensor] = []
    net.layers.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    x = torch.tensor([[0.3, -1.2]])
    net(x)
    (y,) = seen
    w = torch.cat([x, 2 * x, 4 * x], 1)
    torch.testing.assert_close(y, torch.cat([x, w.sin(), w.cos()], 1))
    with pytest.raises(ValueError, match="frequencies must be >= 0"):
        MLP(2, frequencies=-1)
