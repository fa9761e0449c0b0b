"""Telling data from other points: figures by hand and by law, the sets, files of points."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu, norm
from torch import Tensor

from coldness.data import Mixture2D, Points, Rings10D
from coldness.data.points import BadPoints
from coldness.energies import Energy
from coldness.evaluation.ood import (
    LEAST_POINTS,
    compare_with_sets,
    own_sets,
    read_sets,
    separation,
)
from laws import generator
from small import measured, settings

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


class Scaled(Energy):
    """The truth times a factor."""

    def __init__(self, truth: Energy, factor: float) -> None:
        super().__init__()
        self.truth, self.factor = truth, factor

    def energy(self, x: Tensor) -> Tensor:
        return self.factor * self.truth(x.double())


# Figures.


def test_figures_by_hand() -> None:
    """In falling order: data, other, data, data, other: 4 of 6 pairs are in order."""
    found = separation(np.array([5.0, 3.0, 2.0]), np.array([4.0, 1.0]))
    assert found["auroc"] == pytest.approx(4 / 6)
    assert found["aupr"] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    assert found["fpr95"] == 0.5  # all data is accepted from 2 on, and the 4


@given(SCORES, SCORES)
def test_auroc_is_the_statistic_of_mann_and_whitney(
    inside: list[float], outside: list[float]
) -> None:
    a, b = np.array(inside), np.array(outside)
    pairs = len(a) * len(b)
    expected = mannwhitneyu(a, b, method="asymptotic").statistic / pairs
    assert separation(a, b)["auroc"] == pytest.approx(expected)
    assert separation(a, b)["auroc"] + separation(b, a)["auroc"] == pytest.approx(1)


@given(SCORES, SCORES)
def test_figures_by_definition(inside: list[float], outside: list[float]) -> None:
    """Precision at the level of every data point, and the least share of others above a level that
    95% of the data reach."""
    a, b = np.array(inside), np.array(outside)
    found = separation(a, b)
    precisions = [(a >= s).sum() / ((a >= s).sum() + (b >= s).sum()) for s in a]
    assert found["aupr"] == pytest.approx(np.mean(precisions))
    levels = [s for s in np.unique(np.append(a, b)) if (a >= s).mean() >= 0.95 - 1e-12]
    assert found["fpr95"] == pytest.approx(min((b >= s).mean() for s in levels))


def test_scores_that_tell_nothing() -> None:
    found = separation(np.zeros(30), np.zeros(10))
    assert found == {"auroc": 0.5, "aupr": 0.75, "fpr95": 1.0}


def test_infinite_scores_have_a_rank_and_nan_has_none() -> None:
    data = np.array([0.0, 1.0])
    assert separation(data, np.array([-np.inf, -np.inf]))["auroc"] == 1.0
    assert separation(data, np.array([np.inf, -np.inf]))["auroc"] == 0.5
    assert all(map(math.isnan, separation(data, np.array([0.0, np.nan])).values()))
    assert all(map(math.isnan, separation(data * np.nan, data).values()))


def test_gaussian_scores_have_the_closed_forms() -> None:
    """Of N(d, 1) and N(0, 1): AUROC Phi(d / sqrt 2), FPR95 1 - Phi(z_0.05 + d); five errors."""
    n, d = 20_000, 1.2
    rng = np.random.default_rng(0)
    found = separation(rng.normal(d, 1, n), rng.normal(0, 1, n))
    assert found["auroc"] == pytest.approx(norm.cdf(d / math.sqrt(2)), abs=5 * 0.5 / math.sqrt(n))
    rate = 1 - norm.cdf(norm.ppf(0.05) + d)
    assert found["fpr95"] == pytest.approx(rate, abs=5 * 2 * 0.5 / math.sqrt(n))


# Sets.


def test_sets_have_the_laws_that_they_are_named_after() -> None:
    data, n = Rings10D(), 4000
    sets = own_sets(data, n, 1.5, generator(0))
    x = data.sample(n, generator(0)).double()  # the same examples
    low, high = x.min(0).values, x.max(0).values
    uniform, gaussian, shuffled = (sets[k].double() for k in ("uniform", "gaussian", "shuffled"))
    half = 0.75 * (high - low)
    offset = (uniform - (low + high) / 2) / half
    assert bool((offset.abs() <= 1 + 1e-6).all())
    assert float(offset.std()) == pytest.approx(1 / math.sqrt(3), abs=0.01)
    error = 5 / math.sqrt(n)
    assert float(((gaussian.mean(0) - x.mean(0)) / x.std(0)).abs().max()) < error
    scale = x.std(0)[:, None] * x.std(0)
    assert float(((gaussian.T.cov() - x.T.cov()) / scale).abs().max()) < math.sqrt(2) * error
    torch.testing.assert_close(shuffled.sort(0).values, x.sort(0).values)  # the marginals
    radius = shuffled[:, :2].norm(dim=1)
    gaps = ((radius - 1.5).abs() < 0.15) | ((radius - 2.5).abs() < 0.15)
    assert float(gaps.double().mean()) > 0.1  # the rings are gone
    assert set(own_sets(data, 10, 1.5, generator(0))) == {"uniform", "gaussian", "shuffled"}


def test_on_the_line_there_is_nothing_to_shuffle(tmp_path: Path) -> None:
    path = tmp_path / "line.npy"
    np.save(path, np.random.default_rng(0).normal(size=(200, 1)))
    assert set(own_sets(Points(str(path)), 50, 1.5, generator())) == {"uniform", "gaussian"}


def test_same_generator_same_sets() -> None:
    first, again = (own_sets(Mixture2D(), 20, 1.5, generator(3)) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)


# Against the truth.


def compared(factor: float, n: int = 1000) -> dict[str, float]:
    data = Mixture2D()
    sets = own_sets(data, n, 1.5, generator(1))
    return compare_with_sets(
        Scaled(data.energy, factor),
        data,
        data.sample(n, generator(2)),
        data.sample(n, generator(3)),
        sets,
    )[0]


def test_the_truth_at_any_temperature_ranks_as_the_truth_does() -> None:
    for figures in (compared(1.0), compared(0.1), compared(7.0)):
        for name in ("uniform", "gaussian", "shuffled"):
            for figure in ("auroc", "aupr", "fpr95"):
                best = figures[f"{figure}_logp_{name}_best"]
                assert figures[f"{figure}_logp_{name}"] == pytest.approx(best, abs=1e-9)
    assert figures["auroc_logp_uniform"] > 0.9


def test_the_truth_upside_down_is_as_wrong_as_it_can_be() -> None:
    figures = compared(-1.0)
    for name in ("uniform", "gaussian", "shuffled"):
        best = figures[f"auroc_logp_{name}_best"]
        assert figures[f"auroc_logp_{name}"] == pytest.approx(1 - best, abs=1e-9)


def test_a_flat_energy_tells_nothing_and_nan_is_kept() -> None:
    assert compared(0.0)["auroc_logp_uniform"] == 0.5
    lost = compared(math.nan)
    assert math.isnan(lost["auroc_logp_uniform"])
    assert lost["auroc_logp_uniform_best"] > 0.9


def test_without_a_known_density_plain_models_stand_in(tmp_path: Path) -> None:
    """Of a Gaussian, a Gaussian is the truth, and no shuffling of independent columns shows."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(3000, 2)))
    data = Points(str(path))
    sets = own_sets(data, 600, 1.5, generator(0))

    class Quadratic(Energy):
        def energy(self, x: Tensor) -> Tensor:
            return x.square().sum(1) / 2

    figures, arrays = compare_with_sets(Quadratic(), data, data.test, data.train, sets)
    for name in sets:
        plain = figures[f"auroc_logp_{name}_plain"]
        assert figures[f"auroc_logp_{name}"] == pytest.approx(plain, abs=0.02)
        assert f"auroc_logp_{name}_best" not in figures
    assert figures["auroc_logp_shuffled"] == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(600))
    torch.testing.assert_close(
        arrays["u_ood_uniform"], sets["uniform"].square().sum(1).double() / 2
    )


def test_evaluation_has_the_figures_and_leaves_others_alone() -> None:
    given_settings = settings("mixture2d", "--evaluation.ais=null", "--evaluation.adjusted=false")
    figures, arrays = measured(given_settings)
    other = torch.full((120, 2), 1.5)
    again, more = measured(given_settings, others={"corner": other})
    assert {k: v for k, v in again.items() if "corner" not in k} == figures
    assert 0 <= again["auroc_logp_corner"] <= 1
    assert len(more["u_ood_corner"]) == 120
    assert len(arrays["u_ood_uniform"]) == given_settings.evaluation.samples


# Files.


def test_files_are_read_in_the_units_of_the_data(tmp_path: Path) -> None:
    own, other = tmp_path / "own.npy", tmp_path / "my other-set.csv"
    np.save(own, 100 + 7 * np.random.default_rng(0).normal(size=(300, 2)))
    data = Points(str(own))
    x = np.random.default_rng(1).uniform(90, 110, size=(150, 2))
    np.savetxt(other, x, delimiter=",", header="a,b", comments="")
    sets = read_sets([str(other)], data)
    assert list(sets) == ["my_other_set"]
    np.testing.assert_allclose(data.original(sets["my_other_set"]).numpy(), x, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("few.npy", (LEAST_POINTS - 1, 2), f"at least {LEAST_POINTS} are needed"),
        ("wide.npy", (200, 3), "3 dimensions, the data has 2"),
        ("uniform.npy", (200, 2), "rename"),
        ("svhn_best.npy", (200, 2), "rename"),
    ],
)
def test_files_that_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, int], says: str
) -> None:
    path = tmp_path / name
    np.save(path, np.random.default_rng(0).normal(size=shape))
    with pytest.raises(BadPoints, match=says) as caught:
        read_sets([str(path)], Mixture2D())
    assert "\n" not in str(caught.value)


def test_missing_files_and_equal_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPoints, match="there is no file"):
        read_sets([str(tmp_path / "none.npy")], Mixture2D())
    paths = [tmp_path / "a.npy", tmp_path / "a.csv"]
    np.save(paths[0], np.ones((200, 2)))
    np.savetxt(paths[1], np.ones((200, 2)), delimiter=",")
    with pytest.raises(BadPoints, match="rename"):
        read_sets(map(str, paths), Mixture2D())
