"""Numbers of the study beta-theory: that they measure what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from coldness.chains import GaussianNoise, Source
from coldness.energies import Gaussian
from coldness.kernels import Langevin
from coldness.studies import fixed_point, identities, optimisers
from coldness.training import build
from small import settings


def test_identities_hold() -> None:
    for number in identities.identities():
        assert number["holds"], number
        assert {"claim", "equation", "expected", "measured"} < set(number)


def test_a_wrong_weight_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = identities.Contrast.weights

    def wrong(*args: object) -> object:
        weights = ours(*args)  # type: ignore[arg-type]
        return weights._replace(a=weights.a * torch.linspace(0.9, 1.1, len(weights.a)))

    monkeypatch.setattr(identities.Contrast, "weights", wrong)
    assert not all(number["holds"] for number in identities.bound())
    assert not all(number["holds"] for number in identities.closed_forms())


@pytest.mark.parametrize("tempering", [1.0, 0.4])
def test_density_of_chains_is_that_of_the_exact_recursion(tempering: float) -> None:
    """On N(0, 1) a step maps N(m, v) to N((1 - t h) m, (1 - t h)^2 v + 2 h)."""
    h, steps, mean, variance = 0.1, 6, 0.7, 0.25
    source = Source(GaussianNoise(mean=mean, std=math.sqrt(variance)), Langevin(h), steps=steps)
    energy = Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    for _ in range(steps):
        shrink = 1 - tempering * h
        mean, variance = shrink * mean, shrink**2 * variance + 2 * h
    x = torch.cartesian_prod(torch.linspace(-1, 2, 9), torch.linspace(-1, 2, 9))
    expected = -(x - mean).square().sum(1) / (2 * variance) - math.log(2 * math.pi * variance)
    ours = fixed_point.log_density_of_chains(source, energy, x, tempering)
    assert float((ours - expected).abs().max()) < 0.15


def test_regression_is_weighted_least_squares() -> None:
    generator = np.random.default_rng(0)
    a, w = generator.normal(size=200), generator.uniform(size=200)
    b = 3 * a + generator.normal(size=200)
    r, slope = fixed_point.regression(*(torch.from_numpy(v) for v in (a, b, w)))
    assert slope == pytest.approx(np.polyfit(a, b, 1, w=np.sqrt(w))[0])
    covariance = np.cov(a, b, aweights=w)
    assert r == pytest.approx(covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1]))


def test_taken_negatives_are_where_the_model_sees_little() -> None:
    training = build(settings("mixture2d", "--contrast.beta=0.5", "--iterations=200"))
    for _ in range(200):
        training.iterate()
    optimisers.take_negatives_away(training)
    figures = training.iterate()
    assert float(figures["u_model_mean"]) > float(figures["u_data_mean"])
    assert training.settings.sources[0].steps == 0
