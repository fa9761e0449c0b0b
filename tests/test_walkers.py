"""Evaluation walkers: exact laws, and what they leave untouched in a run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from coldness.energies import Gaussian, GaussianMixture, ScalarEnergy, Sum, Tempered
from coldness.kernels import HMC
from coldness.likelihood.walkers import COLLAPSED, REST, Estimate, Population, Walkers
from coldness.nets import MLP
from coldness.runs.log import read_metrics
from coldness.training import build, fit
from coldness.training.result import model_of
from laws import assert_mean, generator
from small import same, saved_state, settings, trained, weights

LIVE = (
    "--energy.reference_std=2", "--energy.coldness=1", "--live.chains=64", "--live.every=5",
    "--live.levels=10", "--live.points=50",
)  # fmt: skip
"""A small run whose walkers do not collapse."""


def gaussian(k: int) -> Gaussian:
    """Of a path along which mean, scales and Z change."""
    k = min(k, 11)
    return Gaussian([0.1 * k, 0.0], [[1 - 0.06 * k, 0.1], [0.1, 1 + 0.05 * k]]).float()


def followed(how: Walkers, seed: int, steps: int = 10) -> Population:
    walkers = Population(how, generator(seed))
    walkers.begin(gaussian(0), (2,))
    for k in range(1, steps + 1):
        walkers.advance(gaussian(k))
    return walkers


# Exact laws.


def test_z_is_exact_in_mean_along_a_path_and_errors_are_calibrated() -> None:
    """E exp A = Z / Z_ref, with resampling: one number per independent population."""
    how = Walkers(chains=64, groups=16, levels=5, renew=math.inf)
    found = [followed(how, seed).estimate() for seed in range(200)]
    ratio = torch.tensor([math.exp(z.log_z - gaussian(10).log_z) for z in found])
    assert_mean(ratio, 1.0)
    stated = torch.tensor([z.error for z in found])
    assert 0.7 < float(ratio.std() / stated.square().mean().sqrt()) < 1.4
    assert_mean(torch.tensor([z.log_z for z in found]) + stated.square() / 2, gaussian(10).log_z)


def test_resampling_keeps_the_mean_of_every_group_and_the_law_of_walkers() -> None:
    how = Walkers(chains=40_000, groups=2, renew=math.inf)
    walkers = Population(how, generator(0))
    walkers.log_weight = 2 * torch.randn(40_000, generator=generator(1), dtype=torch.float64)
    before = walkers.log_weight.reshape(2, -1).clone()
    index = walkers._resample()
    after = walkers.log_weight.reshape(2, -1)
    assert torch.allclose(after.logsumexp(1), before.logsumexp(1), rtol=0, atol=1e-9)
    assert torch.equal(after, after[:, :1].expand_as(after))
    assert torch.equal(index // 20_000, torch.arange(40_000) // 20_000)
    copies = torch.bincount(index, minlength=40_000).double()
    expected = (before.softmax(1) * 20_000).flatten()
    assert float((copies - expected).abs().max()) < 1 + 1e-6  # systematic resampling


def test_even_weights_are_not_resampled() -> None:
    walkers = Population(Walkers(chains=32), generator(0))
    walkers.log_weight = torch.linspace(0, 0.1, 32, dtype=torch.float64)
    assert torch.equal(walkers._resample(), torch.arange(32))


def test_shares_of_modes_that_never_exchange() -> None:
    """Weights carry mass between modes that no walker can cross."""

    def mixture(share: float) -> GaussianMixture:
        return GaussianMixture([[-20.0], [20.0]], 1.0, [share, 1 - share]).float()

    walkers = Population(Walkers(chains=4096, start_std=20.0, renew=math.inf), generator(0))
    walkers.begin(mixture(0.5), (1,))
    for k in range(1, 21):
        found = walkers.advance(mixture(0.5 + 0.02 * k))
    a, left = walkers.log_weight.reshape(16, -1), walkers.y.reshape(16, -1) < 0
    of_groups = (a.exp() * left).sum(1) / a.exp().sum(1)
    error = float(of_groups.std()) / 4
    assert abs(float(of_groups.mean()) - 0.9) <= 5 * error < 0.2
    assert abs(found.log_z) <= 5 * found.error


def test_successive_moves_do_not_resonate() -> None:
    """At h = 1, three leapfrog steps on N(0, 1) are half a period and lead from y to -y exactly."""
    energy = Gaussian([0.0] * 10, torch.eye(10).tolist()).float()
    how = Walkers(kernel=HMC(1.0, leapfrog_steps=3), target=0.99, levels=5)
    walkers = Population(how, generator(0))
    walkers.begin(energy, (10,))
    walkers.log_step = 0.0
    squares = [walkers.y.square()]
    for _ in range(2):
        walkers.advance(energy)
        squares.append(walkers.y.square())
    assert torch.allclose(squares[0], squares[1], atol=1e-4)
    together = torch.stack([squares[1].flatten(), squares[2].flatten()])
    assert float(torch.corrcoef(together)[0, 1]) < 0.5


def test_worn_out_walkers_start_anew() -> None:
    walkers = followed(Walkers(chains=64, levels=10, renew=1e-6), 0, steps=26)
    assert walkers.moves == 0


def test_state_goes_there_and_back() -> None:
    how = Walkers(chains=64, levels=10)
    one, two = followed(how, 0), Population(how, generator(9))
    two.load_state_dict(one.state_dict())
    assert one.advance(gaussian(11)) == two.advance(gaussian(11))
    assert same(one.state_dict(), two.state_dict())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chains": 100}, "multiple of groups"),
        ({"groups": 1}, "multiple of groups"),
        ({"every": 0}, "every of walkers"),
        ({"renew": 0.0}, "renew of walkers"),
        ({"target": 1.5}, "target"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Walkers(**wrong)  # type: ignore[arg-type]


def test_which_energies_are_confined() -> None:
    free, held = ScalarEnergy(MLP(2, (4,))), ScalarEnergy(MLP(2, (4,)), 1.0, 2.0)
    assert not free.confined
    assert held.confined
    assert gaussian(0).confined
    assert Sum([held, gaussian(0)]).confined
    assert not Sum([held, gaussian(0)], [1.0, -1.0]).confined
    assert not Sum([free, held]).confined
    assert Tempered(held, 0.5).confined


# In a run.


def test_walkers_change_no_bit_of_training(tmp_path: Path) -> None:
    on = trained(tmp_path / "on", "mixture2d", *LIVE)
    off = trained(tmp_path / "off", "mixture2d", *LIVE[:2], "--live=null")
    assert same(weights(on), weights(off))
    a, b = (read_metrics(tmp_path / name / "metrics.csv") for name in ("on", "off"))
    assert all(a[name] == b[name] for name in b)
    measured = [k for k, v in enumerate(a["live_log_likelihood"]) if math.isfinite(v)]
    assert measured == [k for k in range(40) if (k + 1) % 5 == 0]


ENDS_EARLY = ("--live.renew=10", "--stop.patience=6", "--stop.least=1000")
"""The first check is the best, and the seventh, at iteration 35, ends the run."""


@pytest.mark.parametrize("more", [(), ("--ema=0.9", "--stop.patience=30"), ENDS_EARLY])
def test_resumed_equals_uninterrupted(more: tuple[str, ...], tmp_path: Path) -> None:
    run = ("mixture2d", *LIVE, "--checkpoint_every=15", *more)
    whole = trained(tmp_path / "whole", *run)
    (tmp_path / "half").mkdir()

    def kill(iteration: int, row: dict[str, float]) -> None:
        if iteration >= 30:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fit(build(settings(*run)), tmp_path / "half", on_block=kill)
    resumed = build(settings(*run))
    resumed.load_state_dict(saved_state(tmp_path / "half"))
    fit(resumed, tmp_path / "half")
    states = [{**t.state_dict(), "seconds": 0} for t in (whole, resumed)]
    assert same(*states)
    texts = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "half")]
    assert texts[0] == texts[1]
    assert same(weights(whole), weights(resumed))
    if more == ENDS_EARLY:
        assert [t.iteration for t in (whole, resumed)] == [35, 35]
        assert resumed.live.stopping.iteration == 5
        assert resumed.live.stopping.weights is not None


def test_a_rollback_restores_the_walkers() -> None:
    training = build(settings("mixture2d", *LIVE))
    training.live.begin(training)
    before = training.state_dict()["live"]
    kept = {**before["population"], "y": before["population"]["y"].clone()}
    for _ in range(10):
        training.iterate()
        training.live.look(training)
    assert not same(training.live.population.state_dict(), kept)  # type: ignore[union-attr]
    training.live.load_state_dict(before)
    assert torch.equal(training.live.population.y, kept["y"])  # type: ignore[union-attr]


def test_why_log_z_is_not_measured() -> None:
    history = fit(build(settings("mixture2d", "--energy.reference_std=null", *LIVE[2:])))
    assert history is not None
    assert not [name for name in history.columns if name.startswith("live")]
    assert "no term that confines" in history.events[0].text
    assert [e.event for e in history.events] == ["note"]
    clamped = build(settings("mixture2d", *LIVE, "--sources.0.kernel.clamp=[-3,3]"))
    assert "clamped" in clamped.live.reason
    with pytest.raises(ValueError, match="stop needs log Z"):
        build(settings("mixture2d", "--energy.reference_std=null", *LIVE[2:], "--stop.patience=3"))
    with pytest.raises(ValueError, match="set live"):
        replace(settings("mixture2d", *LIVE, "--stop.patience=3"), live=None)


def test_stopping_keeps_the_best_weights() -> None:
    training = build(settings("mixture2d", *LIVE, "--stop.patience=2", "--ema=0.5"))
    seen: dict[int, tuple[float, dict[str, torch.Tensor]]] = {}
    training.live.begin(training)
    values = iter([-3.0, -1.0, -2.0, -1.5, 9.0])
    while not training.live.done:
        training.iterate()
        if training.iteration % 5 == 0:
            value = next(values)
            with training.averaged():
                now = {k: v.clone() for k, v in training.energy.state_dict().items()}
                measured = {"live_log_likelihood": value, "live_log_likelihood_error": 0.1}
                training.live._judge(measured, training)
            seen[training.iteration] = (value, now)
    assert training.iteration == 20
    assert training.live.stopping.iteration == 10
    assert same(dict(model_of(training).energy.state_dict()), seen[10][1])
    (kind, text), *_ = [n for n in training.live.told() if n[0] == "note"]
    assert (kind, "iteration 10 are kept" in text) == ("note", True)


def test_checks_with_a_large_error_of_log_z_are_not_compared() -> None:
    """With a tiny `renew` no check can be compared: nothing is kept, and a note says so."""
    training = build(settings("mixture2d", *LIVE, "--live.renew=1e-9", "--stop.patience=3"))
    history = fit(training)
    assert history is not None
    assert training.iteration == 40
    assert training.live.stopping.weights is None
    notes = [e.text for e in history.events if "could not compare" in e.text]
    assert len(notes) == 2  # after three and six of eight checks


def test_a_collapse_is_noted_if_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    training = build(settings("mixture2d", *LIVE, "--live.every=1"))
    training.live.begin(training)
    collapsed = Estimate(0.0, 0.0, COLLAPSED / 2)
    monkeypatch.setattr(training.live.population, "advance", lambda energy: collapsed)
    told = []
    for _ in range(REST + 5):
        training.iterate()
        training.live.look(training)
        told.append(training.live.told())
    (note,) = [k for k, news in enumerate(told) if news]
    assert note == REST
    assert "collapsed" in told[note][0][1]


def test_a_falling_likelihood_is_a_warning() -> None:
    training = build(settings("mixture2d", *LIVE))
    for value in (-1.0, -1.5, -3.0):
        training.live._judge(
            {"live_log_likelihood": value, "live_log_likelihood_error": 0.1}, training
        )
    assert [kind for kind, _ in training.live.told()] == ["warning"]
