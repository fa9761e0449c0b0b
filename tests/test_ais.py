"""Annealed importance sampling and log-likelihoods against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from coldness.batching import at_most
from coldness.data import Rings10D
from coldness.energies import Coordinates, Energy, Gaussian, GaussianMixture
from coldness.evaluation.likelihood import divergence, log_likelihood, of_known
from coldness.kernels import HMC, MALA, Langevin
from coldness.likelihood.ais import AIS, NotFinite, log_z
from coldness.likelihood.bracket import LogZ, Side, bracket
from coldness.likelihood.potential import potential
from laws import assert_mean, generator, normal

TEN = 10


def gaussian() -> tuple[Energy, Tensor]:
    """Correlated, far from 0, in ten dimensions; and points of it."""
    a = normal(TEN, TEN, seed=1)
    covariance = a @ a.T / TEN + 0.1 * torch.eye(TEN, dtype=torch.float64)
    mean = torch.arange(TEN, dtype=torch.float64)
    x = mean + normal(4000, TEN, seed=2) @ torch.linalg.cholesky(covariance).T
    return Gaussian(mean.tolist(), covariance.tolist()), x


def mixture() -> tuple[Energy, Tensor]:
    """Five Gaussians in ten dimensions, several standard deviations apart."""
    means = 2 * normal(5, TEN, seed=3)
    which = torch.randint(5, (4000,), generator=generator(4))
    return GaussianMixture(means.tolist(), 0.5), means[which] + 0.5 * normal(4000, TEN, seed=5)


def rings() -> tuple[Energy, Tensor]:
    """Scales that differ by 150."""
    data = Rings10D()
    return data.energy, data.sample(4000, generator(6)).double()


@pytest.mark.parametrize("case", [gaussian, mixture, rings])
def test_the_bracket_in_ten_dimensions_is_narrow_and_holds_the_exact_value(case) -> None:  # type: ignore[no-untyped-def]
    energy, x = case()
    z = log_z(energy, x, generator())
    assert z.tight
    assert z.width < 0.1
    assert z.low <= energy.log_z <= z.high
    # Each direction by itself, within five standard errors.
    for side, ess in ((z.forward, z.ess_forward), (z.reverse, z.ess_reverse)):
        error = math.sqrt((1 / ess - 1) / len(z.log_w_forward))
        assert abs(side - energy.log_z) <= 5 * error, (side, energy.log_z)


@pytest.mark.parametrize("kernel", [HMC(0.2, leapfrog_steps=3), MALA(0.05)])
def test_weights_are_unbiased_both_ways_however_short_the_path(kernel: HMC | MALA) -> None:
    energy = Gaussian([0.5, -0.5], [[0.5, 0.2], [0.2, 0.3]])
    x = torch.tensor([0.5, -0.5]) + normal(20_000, 2) @ energy.factor.T
    how = AIS(chains=20_000, levels=4, kernel=kernel, settling=0)
    z = log_z(energy, x, generator(1), how)
    ratio = energy.log_z - (z.forward - _log_mean(z.log_w_forward))  # log Z / Z_0
    assert_mean((z.log_w_forward - ratio).exp(), 1.0)
    assert_mean((z.log_w_reverse + ratio).exp(), 1.0)
    # On average the bounds are on their sides (Jensen).
    assert float(z.log_w_forward.mean()) < ratio < float(-z.log_w_reverse.mean())


def _log_mean(log_w: Tensor) -> float:
    return float(torch.logsumexp(log_w, 0)) - math.log(len(log_w))


def test_more_levels_make_it_tighter() -> None:
    energy, x = mixture()
    few = log_z(energy, x, generator(), AIS(chains=256, levels=10))
    many = log_z(energy, x, generator(), AIS(chains=256, levels=200))
    assert many.ess_forward > 3 * few.ess_forward
    assert many.width < few.width


def test_mass_that_data_does_not_reach_crosses_the_pair() -> None:
    """Never swapped: the estimate is that of the forward side, and the crossing is a finding."""
    energy = GaussianMixture([[0.0, 0.0], [6.0, 0.0]], 0.5, [0.2, 0.8])
    x = 0.5 * normal(2000, 2)  # of the lighter mode alone
    how = AIS(chains=1024, levels=300, reference_std=6.0, wide_std=None)
    z = log_z(energy, x, generator(), how)
    assert abs(z.forward) <= 5 * z.error_forward
    assert z.crossed
    assert z.crossing > 1
    assert z.estimate == z.forward
    assert z.low <= energy.log_z <= z.high


@pytest.mark.parametrize(("dimension", "away"), [(2, 4.0), (TEN, 6.0)])
def test_the_wide_gaussian_finds_mass_that_neither_data_nor_the_narrow_one_reaches(
    dimension: int, away: float
) -> None:
    far = [0.0] * (dimension - 1) + [away]
    energy = GaussianMixture([[0.0] * dimension, far], 0.5, [0.2, 0.8])
    x, how = 0.5 * normal(2000, dimension), AIS(chains=512, levels=300)
    blind = log_z(energy, x, generator(), replace(how, reference_std=0.9, wide_std=None))
    assert blind.estimate == pytest.approx(math.log(0.2), abs=0.1)
    z = log_z(energy, x, generator(), how)
    assert z.searched
    assert z.wide_is_better
    assert abs(z.estimate) <= 5 * z.error_wide
    # Its ends, weighted, are samples of the model: four fifths in the far mode.
    share = z.log_w.softmax(0)
    mass = float(share[z.x[:, -1] > away / 2].sum())
    error = float(
        (share.square() * ((z.x[:, -1] > away / 2).double() - mass).square()).sum().sqrt()
    )
    assert abs(mass - 0.8) <= 5 * error


def test_other_mode_weights_cross_the_pair_by_the_closed_form() -> None:
    """Reverse chains from .5/.5 in modes of .9/.1 that forward chains reach equally often."""
    model = GaussianMixture([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0]], 0.4, [0.9, 0.1])
    side = torch.where(torch.arange(4000) % 2 == 0, 3.0, -3.0)
    x = 0.4 * normal(4000, 3)
    x[:, 0] += side
    z = log_z(model, x, generator(), AIS(wide_std=None))
    bias = math.log(0.5 * (0.5 / 0.9) + 0.5 * (0.5 / 0.1))
    assert abs(z.forward) <= 5 * z.error_forward
    assert z.crossing == pytest.approx(bias, abs=0.25)
    assert z.crossed
    assert z.estimate == z.forward


def test_the_better_lower_bound_counts() -> None:
    def side(value: float, spread: float) -> Side:
        return Side(value + spread * normal(1000, seed=3), 0.0)

    reverse = side(-1.0, 0.01)  # -log mean w: about 1
    low, high = side(-2.0, 0.01), side(1.0, 0.01)
    z = bracket(low, reverse, high)
    assert z.wide_is_better
    assert z.estimate == z.wide
    assert not bracket(high, reverse, low).wide_is_better
    # As high, and more accurate.
    assert bracket(side(0.5, 1.0), reverse, high).wide_is_better
    worn = Side(torch.tensor([30.0] + [0.0] * 999, dtype=torch.float64), 0.0)
    assert not bracket(high, reverse, worn).wide_is_better
    assert not bracket(high, reverse, worn).searched


def test_full_coordinates_of_an_energy_are_those_of_its_path() -> None:
    """An image whose directions differ a thousandfold, which standard deviations do not show."""
    turn = torch.linalg.qr(normal(12, 12, seed=4)).Q
    covariance = turn @ torch.logspace(-4, 2, 12, dtype=torch.float64).diag() @ turn.T
    flat = Gaussian([0.5] * 12, covariance.tolist())
    x = (flat.mean + normal(4000, 12) @ flat.factor.T).reshape(4000, 3, 2, 2)
    energy, how = Reshaped(flat), AIS(chains=256, levels=100)
    energy.coordinates = Coordinates.estimate(x, "full")
    z = log_z(energy, x, generator(), how)
    assert z.tight
    assert z.low <= flat.log_z <= z.high


def test_no_more_chains_at_once_than_asked_for() -> None:
    seen = set()

    class Watched(Reshaped):
        def energy(self, x: Tensor) -> Tensor:
            seen.add(len(x))
            return super().energy(x)

    energy = Gaussian([0.0, 0.0, 0.0], torch.eye(3).tolist())
    with at_most(8):
        z = log_z(Watched(energy), normal(500, 3), generator(), AIS(chains=100, levels=30))
    assert seen == {4, 8}
    assert len(z.log_w_forward) == len(z.log_w_reverse) == 100
    assert z.low <= energy.log_z <= z.high


def test_a_dimension_in_which_data_is_constant_is_no_obstacle() -> None:
    energy = Gaussian([0.0, 0.0, 0.0], torch.eye(3).tolist())
    x = normal(500, 3)
    x[:, 1] = 2.0
    for shape in ((3,), (1, 3, 1)):
        image = Reshaped(energy)
        z = log_z(image, x.reshape(500, *shape), generator(), AIS(chains=512, levels=100))
        assert z.low <= energy.log_z <= z.high


class Reshaped(Energy):
    """An energy of vectors, of arrays of any shape."""

    def __init__(self, part: Energy) -> None:
        super().__init__()
        self.part = part

    def energy(self, x: Tensor) -> Tensor:
        return self.part(x.flatten(1))


def test_the_estimate_is_inside_its_bracket() -> None:
    forward = torch.full((1000,), -5.0, dtype=torch.float64)
    forward[0] = 10.0
    z = bracket(Side(forward, 0.0), Side(torch.full((1000,), 3.0, dtype=torch.float64), 0.0))
    assert z.low <= z.estimate <= z.high


def test_settling_brings_data_of_another_law_to_the_model() -> None:
    """Chains in reverse from points twice as wide as the model are wrong by nats."""
    energy = Gaussian([0.0] * 5, torch.eye(5).tolist())
    x = 2 * normal(4000, 5)
    how = AIS(chains=1000, levels=8, kernel=MALA(0.05), settling=0)
    unsettled = log_z(energy, x, generator(), how)
    settled = log_z(energy, x, generator(), replace(how, settling=30))
    assert unsettled.reverse < energy.log_z - 3
    assert settled.reverse == pytest.approx(energy.log_z, abs=0.5)
    assert settled.low <= energy.log_z <= settled.high


def test_an_energy_that_is_not_finite_is_said_and_not_masked() -> None:
    class Broken(Energy):
        def energy(self, x: Tensor) -> Tensor:
            return x.square().sum(1).log() * torch.nan

    with pytest.raises(NotFinite, match="NaN or infinite"):
        log_z(Broken(), normal(100, 2), generator())


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have a Metropolis test .*, got Langevin"):
        AIS(kernel=Langevin(0.1))
    with pytest.raises(ValueError, match="chains and levels of AIS must be >= 2"):
        AIS(levels=1)
    with pytest.raises(ValueError, match="reference_std > 0"):
        AIS(reference_std=0)
    with pytest.raises(ValueError, match="wide_std of AIS must be above reference_std"):
        AIS(wide_std=1.0)


def test_compiled_chains_are_the_eager_ones() -> None:
    energy = Gaussian([0.0, 1.0], [[1.0, 0.3], [0.3, 0.5]]).float()
    x = normal(200, 2).float()
    how = AIS(chains=16, levels=9, kernel=HMC(0.3, leapfrog_steps=2), settling=1)
    eager = log_z(energy, x, generator(), how, compiled=False)
    compiled = log_z(energy, x, generator(), how, compiled=True)
    torch.testing.assert_close(eager.log_w_forward, compiled.log_w_forward, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(eager.log_w_reverse, compiled.log_w_reverse, atol=1e-4, rtol=1e-4)


def exactly(value: float, slack: float = 0.0) -> LogZ:
    return LogZ(value, value - slack, value + slack, value, value, 1.0, 1.0)


def test_kl_and_log_likelihood_of_gaussians_are_the_closed_forms() -> None:
    s, n = 1.3, 40_000
    model = Gaussian([0.0] * TEN, (s**2 * torch.eye(TEN)).tolist())
    x = normal(n, TEN)
    u = potential(model, x)
    log_p_data = -x.square().sum(1) / 2 - TEN / 2 * math.log(2 * math.pi)
    kl = TEN * (math.log(s) + 1 / (2 * s**2) - 0.5)
    found = divergence(u, log_p_data, exactly(model.log_z))
    assert found["kl_low"] <= kl <= found["kl_high"]
    assert found["kl_high"] - found["kl_low"] < 0.1
    wider = divergence(u, log_p_data, exactly(model.log_z, slack=0.5))
    assert wider["kl_high"] - found["kl_high"] == pytest.approx(0.5)
    scored = log_likelihood(u, exactly(model.log_z, slack=0.5), log_scale=2.0)
    log_p = -u - model.log_z - 2.0
    assert scored["log_likelihood_test"] == pytest.approx(float(log_p.mean()))
    assert scored["log_likelihood_high"] == pytest.approx(float(log_p.mean()) + 0.5)


def test_the_truth_has_no_divergence_from_itself() -> None:
    data = Rings10D()
    x = data.sample(1000, generator())
    found = of_known(data.energy, data, x, exactly(0.0))
    assert found["kl"] == pytest.approx(0.0, abs=1e-9)
    assert found["log_likelihood_test"] == pytest.approx(-data.entropy, abs=0.5)
