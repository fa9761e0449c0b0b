"""Computational losses of sources: what is logged, and what pairing buys."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from coldness.chains import Source
from coldness.diagnostics import paired_covariance, signal_to_noise
from coldness.training import build
from small import settings

PAIR = (
    "--sources=[{start: GaussianNoise, kernel: Langevin, steps: 2, beta: %s, count: %s}, "
    "{start: DataStart, kernel: Langevin, steps: 2, beta: %s, count: %s, weight: 3}]"
)


def one_iteration(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, float], torch.Tensor, list[torch.Tensor]]:
    """Figures, and U of the data and of every source's negatives, before the update."""
    training = build(settings("mixture2d", words))
    before = copy.deepcopy(training.energy)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    draw = Source.draw

    def recorded(self: Source, energy: Any, x_data: torch.Tensor, *a: Any, **k: Any) -> Any:
        chains = draw(self, energy, x_data, *a, **k)
        seen.append((x_data, chains.x))
        return chains

    monkeypatch.setattr(Source, "draw", recorded)
    figures = {name: float(value) for name, value in training.iterate().items()}
    with torch.no_grad():
        return figures, before(seen[0][0]).double(), [before(x).double() for _, x in seen]


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-4, abs=1e-3)


def test_the_spread_of_the_loss_is_over_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    figures, data, (noise, paired) = one_iteration(PAIR % (0, "null", 0.1, 16), monkeypatch)
    assert figures["d_std"] == close(float((data - noise).std(correction=0)))
    assert figures["d_std_1"] == close(float((data - paired).std(correction=0)))
    assert figures["d_1"] == close(float((data - paired).mean()))
    assert not any("source" in name for name in figures)  # no contrast is shared


def test_sources_of_a_shared_contrast_have_figures_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figures, data, (noise, paired) = one_iteration(PAIR % (0, 7, 0, "null"), monkeypatch)
    together = torch.cat([noise, paired])
    assert figures["d"] == close(float(data.mean() - together.mean()))
    assert figures["u_model_std"] == close(float(together.std(correction=0)))
    for suffix, u in (("_source", noise), ("_1", paired)):
        assert figures[f"d{suffix}"] == close(float(data.mean() - u.mean()))
        assert figures[f"u_model_mean{suffix}"] == close(float(u.mean()))
        assert figures[f"u_model_std{suffix}"] == close(float(u.std(correction=0)))
    assert "d_std" not in figures  # 7 chains for 16 examples are no pairs
    assert figures["d_std_1"] == close(float((data - paired).std(correction=0)))
    covariance = ((data - data.mean()) * (paired - paired.mean())).mean()
    assert paired_covariance(
        figures["u_data_std"], figures["u_model_std_1"], figures["d_std_1"]
    ) == close(float(covariance))


def test_one_source_needs_no_more_than_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    one = "--sources=[{start: DataStart, kernel: Langevin, steps: 0}]"
    figures, data, _ = one_iteration(one, monkeypatch)
    assert figures["d_std"] == pytest.approx(0, abs=1e-5 * float(data.abs().max()) + 1e-6)
    assert not any(name.endswith("_source") for name in figures)


def batches(correlation: float, size: int = 500, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Potentials of data, sd 2, and of negatives, sd 3 and mean -1, correlated so."""
    rng = np.random.default_rng(0)
    data, own = rng.normal(size=(2, count, size))
    model = correlation * data + math.sqrt(1 - correlation**2) * own
    return 2 * data, 3 * model - 1


@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.3])
def test_pairing_is_worth_the_covariance(correlation: float) -> None:
    """A batch's covariance has mean rho s+ s- (1 - 1/N), variance (s+ s-)^2 (1 + rho^2) / N."""
    data, model = batches(correlation)
    size = data.shape[1]
    seen = paired_covariance(data.std(1), model.std(1), (data - model).std(1))
    direct = [np.cov(a, b, ddof=0)[0, 1] for a, b in zip(data, model, strict=True)]
    np.testing.assert_allclose(seen, direct, atol=1e-10)
    error = 6 * math.sqrt((1 + correlation**2) / (size * len(data)))
    assert abs(seen.mean() - 6 * correlation * (1 - 1 / size)) < 5 * error


def test_paired_covariance_of_known_spreads() -> None:
    assert paired_covariance(3.0, 4.0, 5.0) == pytest.approx(0)  # independent: 9 + 16 = 25
    assert paired_covariance(3.0, 4.0, 1.0) == pytest.approx(12)  # one is a multiple of the other
    assert paired_covariance(3.0, 4.0, 7.0) == pytest.approx(-12)
    assert paired_covariance([2.0, 2.0], [2.0, 2.0], [0.0, 4.0]).tolist() == [4.0, -4.0]


def test_signal_to_noise_of_known_series() -> None:
    assert signal_to_noise([1.0, -3.0], [2.0, 1.5]).tolist() == [0.5, -2.0]
    assert signal_to_noise(1.0, 2.0, 100) == pytest.approx(5.0)
    assert signal_to_noise([1.0, -1.0], 0.0).tolist() == [math.inf, -math.inf]
    assert math.isnan(float(signal_to_noise(0.0, 0.0)))
    with pytest.raises(ValueError, match="n must be >= 1"):
        signal_to_noise(1.0, 1.0, 0)


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_signal_to_noise_of_a_batch_is_that_of_its_mean_over_batches(correlation: float) -> None:
    data, model = batches(correlation)
    difference = data - model
    n = difference.shape[1]
    variance = 4 + 9 - 2 * correlation * 6
    exact = math.sqrt(n / variance)  # the mean difference is 1
    each = signal_to_noise(difference.mean(1), difference.std(1), n)
    assert (
        abs(each.mean() - exact) < 5 * math.sqrt((1 + exact**2 / (2 * n)) / len(data)) + exact / n
    )
    over = difference.mean(1)
    spread = 5 * exact / math.sqrt(2 * len(data)) + 5 / math.sqrt(len(data))
    assert over.mean() / over.std() == pytest.approx(exact, abs=spread)
