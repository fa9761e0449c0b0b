"""The fitted reference of an energy: exact laws, choice, files, and the recipe that uses it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

import coldness
from coldness.chains import Bank, ReferenceStart
from coldness.data import Points
from coldness.energies import Coordinates, FittedMixture, Gaussian, ScalarEnergy
from coldness.kernels.run import tempered_field
from coldness.likelihood.ais import AIS, log_z
from coldness.likelihood.walkers import Population, Walkers
from coldness.nets import MLP
from coldness.training.recipe import Recipe
from coldness.training.table_rules import FEWEST_TO_STOP, WITHOUT_STOPPING, decide
from laws import assert_mean, generator, normal

SLOPE = (0.3, -0.2, 0.2)


def rows(count: int = 300) -> Tensor:
    """Two clusters of different shapes in 3-D."""
    x = normal(count, 3)
    x[: count // 3] = 0.3 * x[: count // 3] + torch.tensor([3.0, 1.0, -2.0])
    x[:, 2] += 0.8 * x[:, 0]
    return x


def fitted(bandwidth: float = 0.6, background: float = 0.02, groups: int = 2) -> FittedMixture:
    q = FittedMixture([groups], [bandwidth], [1e-3], [1.0], background=background)
    q.fit(rows(), seed=0)
    return q


def components(q: FittedMixture) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, means and covariances of all components, by the definition."""
    k = q.group
    factors = q.bandwidth * q.factors[k]
    means = q.means[k] + (q.factors[k] @ q.centres[..., None]).squeeze(2)
    return q.log_weights.exp(), means, factors @ factors.mT


def tilted(q: FittedMixture, dtype: torch.dtype = torch.float64) -> ScalarEnergy:
    """U = c a.y - log q(y) with a known Z."""
    net = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([SLOPE]))
    return ScalarEnergy(net, coldness=2.0, reference=q).to(dtype)


def true_log_z(q: FittedMixture) -> float:
    """Z = sum_i w_i exp(-t.m_i + t C_i t / 2), t = c a: the moment generating function of q."""
    w, m, covariance = components(q)
    t = 2.0 * torch.tensor(SLOPE, dtype=torch.float64)
    return float(torch.logsumexp(w.log() - m @ t + t @ covariance @ t / 2, 0))


@pytest.mark.parametrize("background", [0.0, 0.02])
@pytest.mark.parametrize("bandwidth", [0.4, 1.0])
def test_potential_and_gradient_are_those_of_the_mixture(
    bandwidth: float, background: float
) -> None:
    q, y = fitted(bandwidth, background), 2 * normal(50, 3, seed=1)
    w, m, covariance = components(q)
    assert float(w.sum()) == pytest.approx(1, abs=1e-12)

    def potential(y: Tensor) -> Tensor:
        return -torch.logsumexp(w.log() + MultivariateNormal(m, covariance).log_prob(y[:, None]), 1)

    one = torch.ones((), dtype=torch.float64)
    found, wanted = tempered_field(q, one)(y), tempered_field(potential, one)(y)
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found[1], wanted[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("bandwidth", [0.3, 0.8, 1.0])
def test_kernels_of_a_group_keep_its_mean_and_covariance(bandwidth: float) -> None:
    """With one group: C = S/n + ridge, and the mixture has covariance S/n + h^2 ridge."""
    q, x = fitted(bandwidth, background=0.0, groups=1), rows()
    w, m, covariance = components(q)
    mean = w @ m
    torch.testing.assert_close(mean, x.mean(0), rtol=1e-10, atol=1e-10)
    whole = (w[:, None] * (m - mean)).T @ (m - mean) + (w[:, None, None] * covariance).sum(0)
    wanted = torch.cov(x.T, correction=0) + bandwidth**2 * 1e-3 * torch.eye(3)
    torch.testing.assert_close(whole, wanted, rtol=1e-9, atol=1e-9)


def test_samples_have_the_moments_of_the_mixture() -> None:
    q = fitted()
    w, m, covariance = components(q)
    x = q.sample(200_000, generator(1))
    t = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    first, spread = m @ t, t @ covariance @ t
    mean = float(w @ first)
    assert_mean(x @ t, mean)
    assert_mean((x @ t - mean).square(), float(w @ (spread + (first - mean) ** 2)))


def test_log_z_of_a_linear_tilt_is_the_moment_generating_function() -> None:
    q = fitted(background=0.0)
    energy = tilted(q)
    found = log_z(energy, rows(), generator(2), AIS(1024, 20, settling=20, wide_std=None))
    exact = true_log_z(q)
    assert abs(found.forward - exact) < 5 * found.error_forward
    assert found.low - 0.02 < exact < found.high + 0.02
    assert abs(exact) > 0.1  # so that log Z = 0 of the reference does not pass


def test_walkers_start_at_the_reference_and_follow_the_tilt() -> None:
    q = fitted(background=0.0)
    exact = true_log_z(q)
    energy = tilted(q, torch.float32)
    ratios = []
    for seed in range(40):
        walkers = Population(Walkers(64, levels=4, renew=math.inf), generator(seed))
        with torch.no_grad():
            energy.net.weight.zero_()
        assert walkers.begin(energy, (3,)).log_z == pytest.approx(0, abs=1e-6)
        for share in (0.25, 0.5, 0.75, 1.0):
            with torch.no_grad():
                energy.net.weight.copy_(share * torch.tensor([SLOPE]))
            found = walkers.advance(energy)
        ratios.append(math.exp(found.log_z - exact))
    assert_mean(torch.tensor(ratios), 1.0)


def test_full_coordinates_are_in_log_z() -> None:
    q = fitted(background=0.0)
    energy = tilted(q)
    energy.coordinates = Coordinates("full", torch.ones(3).double(), 2 * torch.eye(3).double())
    x = energy.coordinates.unwhiten(rows())
    found = log_z(energy, x, generator(2), AIS(1024, 20, settling=20, wide_std=None))
    exact = true_log_z(q) + 3 * math.log(2)
    assert abs(found.forward - exact) < 5 * found.error_forward


def test_groups_bandwidth_and_ridge_are_chosen_by_held_out_rows() -> None:
    """Two narrow clusters far apart need two groups; Gaussian rows need no kernels."""
    apart = 0.01 * normal(400, 2) + torch.tensor([5.0, 0.0]) * (torch.arange(400) % 2)[:, None]
    q = FittedMixture((1, 2), (1.0,), (1e-5, 1.0))
    q.fit(apart, 0)
    assert len(q.means) == 3  # two groups and the broad component
    assert float(q.factors[:2].diagonal(dim1=1, dim2=2).max()) < 0.02  # the ridge of 1e-5
    q = FittedMixture((1,), (0.2, 1.0), background=0.0)
    q.fit(normal(1000, 8), 0)
    assert float(q.bandwidth) == 1


def test_a_row_far_from_all_costs_little_with_a_background() -> None:
    far = torch.full((1, 3), 30.0, dtype=torch.float64)
    assert float(fitted(background=0.02)(far)) < 0.2 * float(fitted(background=0.0)(far))


def test_state_of_another_size_is_loaded() -> None:
    q, other = fitted(), FittedMixture()
    other.load_state_dict(q.state_dict())
    y = normal(5, 3)
    torch.testing.assert_close(other.double()(y), q(y))


def test_starts() -> None:
    q = fitted()
    start, energy = Bank(100, ReferenceStart()), tilted(q)
    with pytest.raises(ValueError, match="not bound"):
        start.fresh(3, rows(), energy.coordinates, generator())
    start.bind(energy)
    x = start.fresh(7, rows(), energy.coordinates, generator(3))
    assert torch.equal(x, q.sample(7, generator(3)))
    known = start.potential(x, rows(), energy.coordinates)
    assert known is not None
    torch.testing.assert_close(known, q(x))
    with pytest.raises(ValueError, match="fitted reference"):
        ReferenceStart().bind(Gaussian([0.0], [[1.0]]))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        ScalarEnergy(MLP(), reference_std=1.0, reference=FittedMixture())
    for wrong in (
        {"groups": []}, {"bandwidths": [1.1]}, {"ridges": [0.0]}, {"background": 1.0},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="must be"):
            FittedMixture(**wrong)
    with pytest.raises(ValueError, match="no reference"):
        ScalarEnergy(MLP(3)).tilt_at(rows().float())


# The recipe.


@pytest.mark.parametrize("purpose", ["density", "detection"])
@pytest.mark.parametrize("budget", ["fast", "default", "best"])
@pytest.mark.parametrize("count", [30, 500, 1_000_000])
def test_decisions_are_a_recipe(count: int, budget: str, purpose: str) -> None:
    decided = decide(count, 10, budget, purpose)  # type: ignore[arg-type]
    recipe = Recipe.read("table", decided.changes)
    assert recipe["iterations"] == decided.changes["iterations"]
    assert (recipe["stop"] is None) == (count < FEWEST_TO_STOP)
    assert decided.members == (4 if budget == "best" else 1)
    assert all(s.endswith(".") for s in decided.said)
    assert len(decided.said) == 3


def table(count: int = 260) -> NDArray[np.float64]:
    return 3 * rows(count).numpy() + 7


def small(**more: object) -> dict[str, object]:
    changes = decide(200, 3).changes
    less = {"live.chains": 64, "evaluation.ais.chains": 64, "iterations": 20, "live.every": 10}
    return {**changes, **less, **more}


def test_a_table_is_learned_saved_and_loaded(tmp_path: Path) -> None:
    model = coldness.train("table", data=table(), overrides=small(), progress=False)
    assert model.log_z is not None
    assert model.log_z.tight
    model.save(tmp_path / "model")
    loaded = coldness.load(tmp_path / "model")
    x = table()[:9]
    np.testing.assert_array_equal(loaded.log_prob(x), model.log_prob(x))
    np.testing.assert_array_equal(loaded.sample(5, seed=1), model.sample(5, seed=1))


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    points = Points.of(table(), validation=0.1)

    def train(out: str, iterations: int, resume: bool = False) -> coldness.Model:
        return coldness.train(
            "table", data=points, overrides=small(iterations=iterations, learning_rate=1.0),
            out=tmp_path / out, resume=resume, progress=False,
        )  # fmt: skip

    whole = train("whole", 30)
    train("parts", 10)
    parts = train("parts", 30, resume=True)
    for name, value in whole.energy.state_dict().items():
        assert torch.equal(value, parts.energy.state_dict()[name]), name


def test_few_rows_train_without_stopping() -> None:
    changes = decide(40, 3).changes
    assert changes["iterations"] == WITHOUT_STOPPING
    model = coldness.train("table", data=table(60), overrides=changes, progress=False)
    assert np.isfinite(model.log_prob(table(60))).all()
