"""Starts, the bank and sources."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from coldness.chains import Bank, DataStart, GaussianNoise, Source, Start, UniformNoise
from coldness.energies import Coordinates, Energy, Gaussian
from coldness.kernels import MALA, GeometricSteps, Langevin, run
from laws import (
    KINDS,
    assert_law,
    assert_normal_law,
    assert_share,
    coordinates,
    generator,
    langevin_law,
    normal,
)

PLAIN = Coordinates()
X_DATA = normal(10, 2, seed=1)


class Flat(Energy):
    """U = 0: a chain is a random walk."""

    def energy(self, x: Tensor) -> Tensor:
        return 0 * x.flatten(1).sum(1)


# Noise and data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mean", [0.5, [0.5, -1.0]])
def test_gaussian_noise_is_drawn_in_the_coordinates(kind: str, mean: float | list[float]) -> None:
    at = coordinates(kind)
    x = GaussianNoise(mean, 0.3).fresh(20_000, X_DATA, at, generator(2))
    y = at.whiten(x)
    for k, m in enumerate(mean if isinstance(mean, list) else [mean] * 2):
        assert_normal_law(y[:, k], m, 0.09)


@pytest.mark.parametrize("kind", KINDS)
def test_uniform_noise_is_drawn_in_the_coordinates(kind: str) -> None:
    at = coordinates(kind)
    y = at.whiten(UniformNoise(-0.5, 2.0).fresh(20_000, X_DATA, at, generator(3)))
    for k in range(2):
        assert_law(y[:, k], stats.uniform(-0.5, 2.5).cdf)


def test_data_chains_start_at_the_batch_itself_in_order() -> None:
    start = DataStart()
    assert torch.equal(start.fresh(10, X_DATA, coordinates("full"), generator()), X_DATA)
    assert torch.equal(start.fresh(4, X_DATA, PLAIN, generator()), X_DATA[:4])
    many = start.fresh(25, X_DATA, PLAIN, generator())
    assert torch.equal(many, X_DATA[torch.arange(25) % 10])


def test_senseless_arguments_raise() -> None:
    for wrong in (
        lambda: GaussianNoise(std=0.0),
        lambda: UniformNoise(1.0, 1.0),
        lambda: Bank(0),
        lambda: Bank(refresh=1.1),
        lambda: Bank(refresh_batch=-0.1),
        lambda: Source(DataStart(), Langevin(0.1), steps=-1),
        lambda: Source(DataStart(), Langevin(0.1), count=0),
        lambda: Source(DataStart(), Langevin(0.1), weight=0.0),
    ):
        with pytest.raises(ValueError, match=r"must|probabilities"):
            wrong()


# Bank


def tagged(capacity: int = 40, **options: float) -> Bank:
    """A bank whose slot k holds 100 + k, and whose refreshed chains are near 0."""
    bank = Bank(capacity, UniformNoise(-1.0, 1.0), **options)
    bank.prepare(X_DATA[:, :1], PLAIN, generator(4))
    bank.x = 100 + torch.arange(capacity, dtype=torch.float64)[:, None]
    return bank


def test_prepare_fills_the_bank_from_its_initial_start() -> None:
    at = coordinates("full")
    bank = Bank(20_000, GaussianNoise(std=0.5))
    bank.prepare(X_DATA, at, generator(5))
    assert bank.x.shape == (20_000, 2)
    assert bank.x.dtype == X_DATA.dtype
    assert_normal_law(at.whiten(bank.x)[:, 0], 0.0, 0.25)
    assert bank.age.tolist() == [0] * 20_000
    fresh = bank.fresh(20_000, X_DATA, at, generator(6))
    assert_normal_law(at.whiten(fresh)[:, 1], 0.0, 0.25)


def test_a_bank_that_begins_at_the_data_does_not_write_to_it() -> None:
    x_data = X_DATA.clone()
    bank = Bank(8, DataStart())
    bank.prepare(x_data, PLAIN, generator())
    _, slots = bank.draw(4, x_data, PLAIN, generator())
    bank.put(slots, torch.full((4, 2), 9.0, dtype=torch.float64), 1)
    assert torch.equal(x_data, X_DATA)


def test_slots_are_drawn_without_replacement_and_evenly() -> None:
    bank, source = tagged(), generator(7)
    counts = torch.zeros(40)
    for _ in range(1000):
        x, slots = bank.draw(15, X_DATA[:, :1], PLAIN, source)
        assert len(set(slots.tolist())) == 15
        assert torch.equal(x[:, 0], 100 + slots)
        counts[slots] += 1
    for hits in counts.tolist():
        assert_share(int(hits), 1000, 15 / 40)
    with pytest.raises(ValueError, match="draw 41 chains from a bank of 40 slots"):
        bank.draw(41, X_DATA[:, :1], PLAIN, source)


def test_chains_go_back_to_the_slots_they_came_from_and_no_others_change() -> None:
    """A random walk much shorter than the distance of two tags, through the source."""
    bank = tagged()
    source = Source(bank, Langevin(1e-4), steps=5, count=12)
    before = bank.x.clone()
    chains = source.draw(Flat(), X_DATA[:, :1], generator(8), tempering=1.0)
    moved = (bank.x != before)[:, 0]
    assert moved.sum() == 12
    assert float((bank.x - before).abs().max()) < 0.5
    slots = (chains.x[:, 0] - 100).round().long()
    assert torch.equal(bank.x[slots], chains.x)
    assert set(slots.tolist()) == set(moved.nonzero()[:, 0].tolist())
    assert torch.equal(bank.age, 5 * moved)


def test_drawing_alone_changes_no_chain() -> None:
    bank = tagged(refresh=0.5, refresh_batch=0.5)
    before = bank.x.clone()
    bank.draw(20, X_DATA[:, :1], PLAIN, generator(9))
    assert torch.equal(bank.x, before)


@pytest.mark.parametrize("refresh", [0.05, 0.5])
def test_each_chain_is_refreshed_with_its_probability(refresh: float) -> None:
    bank, source = tagged(refresh=refresh), generator(10)
    bank.age += 3
    new, mixed = [], 0
    for _ in range(500):
        x, slots = bank.draw(20, X_DATA[:, :1], PLAIN, source)
        fresh = x[:, 0].abs() <= 1
        # What is not new is the slot's own chain; ages know which is which.
        assert torch.equal(x[~fresh][:, 0], 100 + slots[~fresh])
        assert torch.equal(bank.age[slots] == 0, fresh)
        bank.age[slots] = 3
        new.append(fresh)
        mixed += bool(fresh.any() and not fresh.all())
    assert_share(int(torch.cat(new).sum()), 500 * 20, refresh)
    assert mixed > 100
    # Independent over chains: the number of new chains a draw has the binomial variance.
    counts = torch.stack(new).sum(1).double()
    variance = 20 * refresh * (1 - refresh)
    kurtosis = 3 + (1 - 6 * refresh * (1 - refresh)) / variance
    error = variance * math.sqrt((kurtosis - 1) / 500)
    assert abs(float(counts.var()) - variance) < 5 * error


def test_refreshed_chains_have_the_initial_law() -> None:
    bank, source = tagged(refresh=0.5), generator(11)
    x = torch.cat([bank.draw(40, X_DATA[:, :1], PLAIN, source)[0] for _ in range(200)])
    assert_law(x[x.abs() <= 1], stats.uniform(-1, 2).cdf)


def test_a_whole_batch_is_refreshed_at_once() -> None:
    bank, source = tagged(refresh_batch=0.3), generator(12)
    hits = 0
    for _ in range(1000):
        x, slots = bank.draw(20, X_DATA[:, :1], PLAIN, source)
        fresh = x[:, 0].abs() <= 1
        assert fresh.all() or not fresh.any()
        hits += bool(fresh.all())
        assert bool(fresh.all()) is False or bank.age[slots].sum() == 0
    assert_share(hits, 1000, 0.3)


def test_ages_count_steps_since_a_chain_began() -> None:
    bank = tagged(10)
    for steps in (4, 6):
        x, slots = bank.draw(10, X_DATA[:, :1], PLAIN, generator(13))
        bank.put(slots, x, steps)
    assert bank.age.tolist() == [10] * 10
    x, slots = bank.draw(3, X_DATA[:, :1], PLAIN, generator(14))
    bank.put(slots, x, 7)
    figures = bank.metrics()
    assert float(figures["bank_age_max"]) == 17
    assert float(figures["bank_age_mean"]) == pytest.approx(10 + 7 * 3 / 10)
    bank.refresh = 1.0
    _, slots = bank.draw(4, X_DATA[:, :1], PLAIN, generator(15))
    assert bank.age[slots].tolist() == [0] * 4


def test_a_loaded_bank_goes_on_as_the_saved_one_and_shares_nothing_with_it() -> None:
    saved, loaded = tagged(refresh=0.2), Bank(40, UniformNoise(-1.0, 1.0), refresh=0.2)
    saved.age += 2
    loaded.load_state_dict(saved.state_dict())
    for bank in (saved, loaded):
        source = Source(bank, Langevin(0.1), steps=2, count=15)
        source.draw(Flat(), X_DATA[:, :1], generator(16), tempering=1.0)
    assert torch.equal(saved.x, loaded.x)
    assert torch.equal(saved.age, loaded.age)
    loaded.x[0] = -7.0
    assert float(saved.x[0]) != -7.0


# Source


def test_a_source_runs_its_kernel_from_its_start_on_the_tempered_potential() -> None:
    """The law of Langevin from N(0, 0.25) with schedule, scale and tempering, by recursion."""
    source = Source(
        GaussianNoise(std=0.5), Langevin(0.1), steps=4, count=20_000,
        step_schedule=GeometricSteps(2.0, 0.25), step_scale=99.0,
    )  # fmt: skip
    energy = Gaussian([0.0], [[0.4]])
    chains = source.draw(energy, X_DATA[:, :1], generator(17), tempering=0.5, step_scale=1.5)
    along = [0.1 * 1.5 * 2.0 * 0.5**k for k in range(4)]
    mean, variance = langevin_law(0.0, 0.25, 0.4 / 0.5, along)
    assert_normal_law(chains.x[:, 0], mean, variance)


def test_samples_follow_the_model_itself_from_fresh_chains() -> None:
    bank = Bank(50, GaussianNoise(std=0.5))
    bank.prepare(X_DATA[:, :1], PLAIN, generator(18))
    before = bank.x.clone()
    source = Source(bank, Langevin(0.1), steps=4, count=3)
    energy = Gaussian([0.0], [[0.4]])
    for steps in (None, 0, 9):
        chains = source.sample(energy, X_DATA[:, :1], 20_000, generator(19), steps=steps)
        length = 4 if steps is None else steps
        mean, variance = langevin_law(0.0, 0.25, 0.4, [0.1] * length)
        assert_normal_law(chains.x[:, 0], mean, variance)
    assert torch.equal(bank.x, before)
    assert bank.age.sum() == 0


@pytest.mark.parametrize("start", [DataStart(), Bank(8, DataStart())], ids=["data", "bank"])
def test_samples_of_a_source_that_starts_at_data_begin_at_noise_of_its_scale(start: Start) -> None:
    """Else they would show what was put in instead of what the model generates."""
    x_data = torch.tensor([[1.0, -4.0], [3.0, 4.0]], dtype=torch.float64)  # mean, variance: 2, 2
    source = Source(start, Langevin(0.1), steps=3)
    x = source.sample(Flat(), x_data, 20_000, generator(24), steps=0).x
    assert_normal_law(x[:, 0], 2.0, 2.0)
    assert_normal_law(x[:, 1], 0.0, 32.0)


def test_a_source_has_as_many_chains_as_the_batch_unless_told() -> None:
    energy = Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    for count, chains in ((None, 10), (3, 3), (14, 14)):
        source = Source(DataStart(), MALA(0.1), steps=2, count=count)
        assert source.chains_for(10) == chains
        assert source.draw(energy, X_DATA, generator(20), tempering=1.0).x.shape == (chains, 2)


def test_contrastive_divergence_is_the_kernel_from_the_batch() -> None:
    energy = Gaussian([0.0, 0.0], [[1.0, 0.3], [0.3, 1.0]])
    energy.coordinates = coordinates("full")
    source = Source(DataStart(), MALA(0.1), steps=3)
    drawn = source.draw(energy, X_DATA, generator(21), tempering=0.8)
    ran = run(MALA(0.1), energy, X_DATA, steps=3, generator=generator(21), tempering=0.8)
    assert torch.equal(drawn.x, ran.x)


def test_no_steps_give_the_start_as_negatives() -> None:
    """The beta paper's hardest stress test: one negative, zero steps."""
    bank = tagged()
    before = bank.x.clone()
    source = Source(bank, Langevin(0.1), steps=0, count=1)
    chains = source.draw(Flat(), X_DATA[:, :1], generator(22), tempering=1.0)
    assert chains.x.shape == (1, 1)
    assert torch.equal(bank.x, before)


def test_a_bank_of_many_dimensions_may_have_a_few_values_far_out() -> None:
    """Of 768 values N(0, 1) about two are beyond 3: that is not outside; a tenth of them is."""
    x_data = 2 * torch.rand(200, 768, generator=torch.Generator().manual_seed(0)) - 1
    bank = Bank(50, GaussianNoise())
    generator = torch.Generator().manual_seed(1)
    bank.prepare(x_data, Coordinates(), generator)
    x, slots = bank.draw(50, x_data, Coordinates(), generator)
    assert (x.abs() > 3).any(1).float().mean() > 0.5
    bank.put(slots, x, 1)
    assert float(bank.metrics()["bank_outside"]) == 0
    x[:5, :77] = 4.0
    bank.put(slots, x, 1)
    assert float(bank.metrics()["bank_outside"]) == pytest.approx(0.1)


def test_a_bank_of_bytes_is_refused_in_full_coordinates() -> None:
    bank = Bank(4, UniformNoise(), storage="uint8")
    bank.prepare(X_DATA, coordinates("diagonal"), generator())
    with pytest.raises(ValueError, match="storage must be float32"):
        bank.prepare(X_DATA, coordinates("full"), generator())
