"""Synthetic data: samplers, densities and entropies that belong together."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from coldness.data import EmbeddedRings, KnownDensity, Mixture2D, Rings2D, Rings10D
from coldness.data.synthetic import UNEQUAL
from laws import assert_law, assert_mean, assert_normal_law, assert_share, generator
from small import read

LAWS = {
    "mixture2d": Mixture2D(),
    "mixture2d equal": Mixture2D(equal_weights=True),
    "mixture2d wide": Mixture2D(radius=2.0, std=0.5),
    "rings2d": Rings2D(),
    "rings2d through the centre": Rings2D((0.2, 1.0), 0.15),
    "rings10d": Rings10D(),
    "rings10d other": Rings10D((0.5, 1.0), 0.3, 0.05),
    "rings in 3": EmbeddedRings(3, (1.0, 2.0), 0.2),
    "rings in 20": EmbeddedRings(20),
}
every_law = pytest.mark.parametrize("data", LAWS.values(), ids=LAWS)


@every_law
def test_entropy_is_what_samples_say(data: KnownDensity) -> None:
    x = data.sample(40_000, generator(1))
    assert_mean(-data.log_prob(x), data.entropy)


@every_law
def test_density_and_sampler_agree_on_a_test_function(data: KnownDensity) -> None:
    """E_q[p/q] = 1 over draws from p-like q: a density off by a factor shows at once."""
    spread = 1.02
    x = data.sample(40_000, generator(2)).double()
    y = spread * x  # of density p(y / 1.02) / 1.02^D
    q = data.log_prob(y / spread) - x.shape[1] * math.log(spread)
    assert_mean((data.log_prob(y) - q).exp(), 1.0)


def radii(x: torch.Tensor) -> torch.Tensor:
    return x[:, :2].double().norm(dim=1)


def angles(x: torch.Tensor) -> torch.Tensor:
    return torch.atan2(x[:, 1], x[:, 0]).double() / (2 * math.pi) + 0.5


@pytest.mark.parametrize("name", ["rings2d", "rings2d through the centre"])
def test_radial_rings_have_folded_normal_radii(name: str) -> None:
    data = LAWS[name]
    x = data.sample(40_000, generator(3))
    at = data.energy.radii.numpy()

    def cdf(r: np.ndarray) -> np.ndarray:
        return stats.norm.cdf((r[:, None] - at) / 0.15).mean(1) - stats.norm.cdf(
            (-r[:, None] - at) / 0.15
        ).mean(1)

    assert_law(radii(x), cdf)
    assert_law(angles(x), stats.uniform.cdf)


@pytest.mark.parametrize(
    ("name", "std", "narrow"),
    [
        ("rings10d", 0.1, 0.01),
        ("rings10d other", 0.3, 0.05),
        ("rings in 3", 0.2, 0.01),
        ("rings in 20", 0.1, 0.01),
    ],
)
def test_planar_rings_have_rice_radii_and_normal_others(
    name: str, std: float, narrow: float
) -> None:
    data = LAWS[name]
    x = data.sample(40_000, generator(4))
    at = data.energy.radii.numpy()
    assert_law(radii(x), lambda r: stats.rice.cdf(r[:, None] / std, at / std).mean(1))
    assert_law(angles(x), stats.uniform.cdf)
    for k, s in enumerate([std] + [narrow] * (data.shape[0] - 3)):
        assert_normal_law(x[:, 2 + k].double(), 0.0, s**2)


@pytest.mark.parametrize("name", ["mixture2d", "mixture2d equal", "mixture2d wide"])
@pytest.mark.parametrize("direction", [0.0, 0.4, math.pi / 2])
def test_mixture_has_normal_mixtures_as_projections(name: str, direction: float) -> None:
    data = LAWS[name]
    x = data.sample(40_000, generator(5)).double()
    weights = np.array([1 / 8] * 8 if "equal" in name else UNEQUAL)
    radius, std = (2.0, 0.5) if "wide" in name else (1.0, 0.15)
    centres = radius * np.cos(2 * np.pi * np.arange(8) / 8 - direction)
    projected = math.cos(direction) * x[:, 0] + math.sin(direction) * x[:, 1]
    assert_law(projected, lambda v: stats.norm.cdf((v[:, None] - centres) / std) @ weights)


def test_mixture_components_have_their_weights() -> None:
    """Within a tenth of a standard deviation's disc of each mean, where others hold nothing."""
    x = Mixture2D().sample(40_000, generator(6)).double()
    angle = 2 * math.pi * torch.arange(8).double() / 8
    centres = torch.stack([angle.cos(), angle.sin()], 1)
    within = torch.cdist(x, centres) < 0.15
    for k, w in enumerate(UNEQUAL):
        assert_share(int(within[:, k].sum()), len(x), w * (1 - math.exp(-0.5)))


@every_law
def test_the_box_holds_the_mass(data: KnownDensity) -> None:
    """All but 1e-3 of it, in every law; 4 standard deviations leave less than 1e-4 a dimension."""
    x = data.sample(40_000, generator(7))
    outside = float((x.abs() > data.box).any(1).double().mean())
    assert outside + 5 * math.sqrt(1e-4 / len(x)) < 1e-3
    # And not because it is huge: the outermost ring or mean nearly touches it.
    assert float(x.abs().max()) > 0.8 * data.box


@pytest.mark.parametrize("name", ["mixture2d", "mixture2d equal", "mixture2d wide"])
def test_entropy_of_the_mixture_by_another_quadrature(name: str) -> None:
    """Gauss-Hermite around each component instead of a grid."""
    data = LAWS[name]
    node, weight = np.polynomial.hermite_e.hermegauss(80)
    noise = torch.cartesian_prod(torch.tensor(node), torch.tensor(node))
    weight = torch.tensor(np.outer(weight, weight).ravel() / (2 * math.pi))
    entropy = 0.0
    for mean, w in zip(data.energy.means, data.energy.log_weights.exp(), strict=True):
        entropy -= float(w * (weight * data.log_prob(mean + data.energy.std * noise)).sum())
    assert data.entropy == pytest.approx(entropy, abs=2e-5)


def test_entropy_of_a_sharp_ring_in_closed_form() -> None:
    """A ring far wider than its noise is a Gaussian times a circle: h = log(2 pi R) + h(normal)."""
    normal = 0.5 * math.log(2 * math.pi * math.e * 0.01**2)
    # E log r = log R - s^2 / (2 R^2) to second order.
    radial = Rings2D((10.0,), 0.01)
    expected = math.log(2 * math.pi * 10) + normal - 0.01**2 / (2 * 10**2)
    assert radial.entropy == pytest.approx(expected, abs=1e-7)
    rings = Rings10D((10.0,), 0.01, 0.002)
    others = normal + 7 * 0.5 * math.log(2 * math.pi * math.e * 0.002**2)
    assert rings.entropy == pytest.approx(math.log(2 * math.pi * 10) + normal + others, abs=1e-5)
    more = EmbeddedRings(20, (10.0,), 0.01, 0.002)
    extra = 10 * 0.5 * math.log(2 * math.pi * math.e * 0.002**2)
    assert more.entropy == pytest.approx(rings.entropy + extra, abs=1e-5)


def test_rings10d_is_embedded_rings_in_ten_with_the_numbers_it_always_had() -> None:
    radii, std, narrow = (0.5, 1.0), 0.3, 0.05
    data, g = Rings10D(radii, std, narrow), generator(8)
    noise = torch.tensor([std] * 3 + [narrow] * 7) * torch.randn(50, 10, generator=g)
    ring = torch.tensor(radii)[torch.randint(2, (50,), generator=g)]
    angle = 2 * math.pi * torch.rand(50, generator=g)
    noise[:, :2] += ring[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    assert torch.equal(data.sample(50, generator(8)), noise)
    same = EmbeddedRings(10, radii, std, narrow)
    assert torch.equal(same.sample(50, generator(8)), noise)
    assert torch.equal(same.log_prob(noise), data.log_prob(noise))
    assert (same.entropy, same.box) == (data.entropy, data.box)
    assert EmbeddedRings().shape == Rings10D().shape == (10,)


@pytest.mark.parametrize("name", ["rings in 3", "rings10d other", "rings in 20"])
def test_the_slice_through_the_plane_of_rings_is_its_density(name: str) -> None:
    """Up to the densities of the other dimensions at 0, which normalising takes out."""
    data = LAWS[name]
    side = torch.linspace(-data.box - 1, data.box + 1, 401, dtype=torch.float64)
    at = torch.cartesian_prod(side, side)
    with torch.no_grad():
        log_p = -data.plane(at)
    total = torch.logsumexp(log_p, 0) + 2 * (side[1] - side[0]).log()
    assert float(total) == pytest.approx(0, abs=1e-6)
    assert data.plane.log_z == 0
    others = data.energy.other_stds
    at_zero = -float(others.log().sum()) - len(others) / 2 * math.log(2 * math.pi)
    padded = torch.cat([at, torch.zeros(len(at), len(others), dtype=torch.float64)], 1)
    torch.testing.assert_close(data.log_prob(padded) - at_zero, log_p, rtol=0, atol=1e-9)


def test_rings_need_three_dimensions() -> None:
    with pytest.raises(ValueError, match="dimensions must be >= 3, got 2"):
        EmbeddedRings(2)


def test_dimensions_are_an_option_of_recipes(tmp_path: Path) -> None:
    recipe = tmp_path / "rings.yaml"
    recipe.write_text(
        "data: {class_path: EmbeddedRings, init_args: {dimensions: 20}}\n"
        "energy: {class_path: ScalarEnergy, init_args: {net: MLP}}\n"
        "sources: [{start: DataStart, kernel: {class_path: Langevin, init_args: "
        "{step_size: 0.001}}}]\n"
        "optimiser: Adam\n"
    )
    assert read(recipe).parts().data.shape == (20,)
    other = read(recipe, "--data.dimensions=12").parts()
    assert other.data.shape == (12,)
    other.energy.build(other.data.domain)
    assert other.energy(torch.zeros(3, 12)).shape == (3,)
    with pytest.raises(ValueError, match="dimensions must be >= 3"):
        read(recipe, "--data.dimensions=2").parts()


def test_local_scales() -> None:
    assert Mixture2D(std=0.2).local_scales.tolist() == pytest.approx([0.2] * 2)
    assert Rings2D(std=0.3).local_scales.tolist() == pytest.approx([0.3] * 2)
    assert Rings10D().local_scales.tolist() == pytest.approx([0.1] * 3 + [0.01] * 7)
    assert Rings10D().narrowest_scale == pytest.approx(0.01)
    assert Rings10D(std=0.1, narrow_std=0.4).narrowest_scale == pytest.approx(0.1)


def test_weights_must_sum_to_one() -> None:
    with pytest.raises(ValueError, match=r"sum to 1, got a sum of 0\.9"):
        Mixture2D(weights=[0.9 / 8] * 8)
    with pytest.raises(ValueError, match="7 weights for 8"):
        Mixture2D(weights=[1 / 7] * 7)
    assert sum(UNEQUAL) == pytest.approx(1, abs=1e-12)
    assert list(UNEQUAL) == sorted(UNEQUAL)
    assert (UNEQUAL[0], UNEQUAL[-1]) == (0.02, 0.2)
