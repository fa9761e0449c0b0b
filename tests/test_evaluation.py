"""Evaluation against closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from coldness.data import Mixture2D, Rings2D, Rings10D
from coldness.energies import Gaussian, GaussianMixture
from coldness.evaluation import compare_on_grid, energy_distance, neighbour_share
from laws import generator, normal
from small import measured, settings


@pytest.mark.parametrize("data", [Mixture2D(), Mixture2D(equal_weights=True), Rings2D()])
def test_the_true_energy_is_found_right(data: Mixture2D | Rings2D) -> None:
    figures, grids = compare_on_grid(data.energy, data, points=400, widening=1.5)
    assert figures["kl"] == pytest.approx(0, abs=1e-4)
    assert figures["reverse_kl"] == pytest.approx(0, abs=1e-4)
    assert figures["tv"] == pytest.approx(0, abs=1e-4)
    assert figures["log_z"] == pytest.approx(0, abs=1e-4)
    assert figures["mass_outside"] < 1e-3
    torch.testing.assert_close(grids["log_p_model"], grids["log_p_data"], atol=1e-4, rtol=1e-4)


class OneGaussian(Mixture2D):
    """A single Gaussian at 0, so that divergences are known."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.energy = GaussianMixture([[0.0, 0.0]], std)
        self.box = 6 * std


def test_divergences_between_gaussians_are_the_closed_forms() -> None:
    m, s = 0.7, 1.5
    model = Gaussian([m, 0.0], [[s**2, 0.0], [0.0, s**2]])
    figures, _ = compare_on_grid(model, OneGaussian(1.0), points=500, widening=2.0)
    kl = 2 * math.log(s) + (2 + m**2) / (2 * s**2) - 1
    reverse = -2 * math.log(s) + (2 * s**2 + m**2) / 2 - 1
    assert figures["kl"] == pytest.approx(kl, abs=1e-6)
    assert figures["reverse_kl"] == pytest.approx(reverse, abs=1e-6)
    assert figures["log_z"] == pytest.approx(model.log_z, abs=1e-6)


def test_total_variation_of_shifted_gaussians() -> None:
    m = 1.0
    model = Gaussian([m, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    figures, _ = compare_on_grid(model, OneGaussian(1.0), points=600, widening=1.5)
    assert figures["tv"] == pytest.approx(math.erf(m / 2 / math.sqrt(2)), abs=1e-4)


def test_mass_where_no_data_is_counts() -> None:
    far = Gaussian([2.2, 0.0], [[0.01, 0.0], [0.0, 0.01]])
    figures, _ = compare_on_grid(far, Mixture2D(), points=300, widening=1.5)
    assert figures["mass_outside"] > 0.99
    assert figures["kl"] > 10


def test_energy_distance_of_two_points_and_of_equal_samples() -> None:
    x, y = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])
    assert energy_distance(x, y) == pytest.approx(10.0)
    assert energy_distance(x, x) == 0.0


def test_energy_distance_of_gaussians_is_the_closed_form(generator: torch.Generator) -> None:
    """In one dimension E|x - y| of N(m, 1) and N(0, 1) is known; five standard errors."""
    n, m = 4000, 0.5
    values = []
    for _ in range(10):
        x = torch.randn(n, 1, generator=generator, dtype=torch.float64)
        y = torch.randn(n, 1, generator=generator, dtype=torch.float64) + m
        values.append(energy_distance(x, y))

    def mean_abs(mu: float) -> float:  # of N(mu, 2)
        s = math.sqrt(2)
        return s * math.sqrt(2 / math.pi) * math.exp(-(mu**2) / (2 * s**2)) + mu * math.erf(mu / 2)

    # All pairs are counted, the n zero ones of a sample with itself too: a bias of 2 E|x-x'| / n.
    expected = 2 * mean_abs(m) - 2 * mean_abs(0) + 2 * mean_abs(0) / n
    found = torch.tensor(values)
    assert abs(float(found.mean()) - expected) < 5 * float(found.std()) / math.sqrt(len(found))


def test_evaluating_twice_gives_the_same_figures() -> None:
    given = settings()
    first, arrays = measured(given)
    again, _ = measured(given)
    assert first == again
    assert first["energy_distance_floor"] > 0
    assert arrays["x_short"].shape == arrays["x_data"].shape == (50, 2)


def test_no_grid_where_it_cannot_be() -> None:
    figures, arrays = measured(settings("rings10d"))
    assert "tv" not in figures
    assert "log_p_model" not in arrays
    assert figures["energy_distance_short"] > 0


def test_neighbours_of_equal_laws_are_of_either_kind_and_of_far_ones_of_their_own() -> None:
    x, y = normal(1000, 3, seed=1), normal(1000, 3, seed=2)
    assert neighbour_share(x, y) == pytest.approx(0.5, abs=5 * math.sqrt(0.5 / 2000))
    assert neighbour_share(x, y + 20) == 1.0
    assert neighbour_share(x[:100], y) == neighbour_share(x[:100], y[:100])


def test_neighbours_by_hand() -> None:
    """On a line: a at 0 and 1, b at 1.4 and 5: neighbours a, b, a, b; two of four are own."""
    a, b = torch.tensor([[0.0], [1.0]]), torch.tensor([[1.4], [5.0]])
    assert neighbour_share(a, b) == 0.5


def test_neighbours_tell_rings_from_a_gaussian_of_the_same_moments() -> None:
    """Which the energy distance does not, with as many samples."""
    data = Rings10D()
    rings, others = data.sample(1000, generator(1)), data.sample(1000, generator(2))
    gaussian = rings.mean(0) + rings.std(0) * normal(1000, 10).float()
    assert energy_distance(gaussian, rings) < 2 * energy_distance(others, rings)
    assert neighbour_share(gaussian, rings) > 0.6
    assert abs(neighbour_share(others, rings) - 0.5) < 0.08
