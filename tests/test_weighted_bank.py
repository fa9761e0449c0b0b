"""The weighted bank: proper weights on a moving target, resampling, refusals, and its contrast."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from coldness.chains import (
    Bank,
    DataStart,
    GaussianNoise,
    LikeData,
    Source,
    Start,
    StepAdaptation,
    UniformNoise,
    WeightedBank,
)
from coldness.chains.weighted_bank import systematic
from coldness.data import SeparatedModes
from coldness.energies import Coordinates, Energy, Gaussian, GaussianMixture, ScalarEnergy
from coldness.kernels import HMC, MALA, Kernel, Langevin
from coldness.nets import MLP
from laws import KINDS, assert_mean, coordinates, generator, normal
from small import settings

PLAIN = Coordinates()
ONE = normal(10, 1, seed=1)
WIDE = 3.0
"""Standard deviation of the initial law: it covers both modes."""

LOG_Z_WIDE = math.log(WIDE * math.sqrt(2 * math.pi))
"""log Z of its potential |x|^2 / (2 WIDE^2)."""


class Moving(Energy):
    """From a wide Gaussian (s = 0) to two separated modes (s = 1), whose shares then change."""

    def __init__(self) -> None:
        super().__init__()
        self.s, self.shares = 0.0, (0.5, 0.5)

    def energy(self, x: Tensor) -> Tensor:
        wide = x.square().sum(1) / (2 * WIDE**2) + LOG_Z_WIDE
        modes = GaussianMixture([[-2.0], [2.0]], 0.4, self.shares)
        return (1 - self.s) * wide + self.s * modes(x)

    def path(self) -> list[tuple[float, float]]:
        """s and the share of the left mode, iteration by iteration."""
        begin = [(k / 20, 0.5) for k in range(21)]
        return begin + [(1.0, 0.5 - 0.35 * k / 30) for k in range(1, 31)]


def prepared(capacity: int, **options: float) -> WeightedBank:
    start = WeightedBank(Bank(capacity, GaussianNoise(std=WIDE)), **options)
    start.prepare(ONE, PLAIN, generator(2))
    return start


def followed(
    start: Start, capacity: int, seed: int, kernel: Kernel | None = None, tempering: float = 1.0
) -> Tensor:
    """Chains along the path, half of the slots an iteration, all of them at its end; their A."""
    energy, stream = Moving(), generator(seed)
    kernel = kernel or MALA(0.15)
    path = energy.path()
    for k, (s, left) in enumerate(path):
        energy.s, energy.shares = s, (left, 1 - left)
        count = capacity if k == len(path) - 1 else capacity // 2
        source = Source(start, kernel, steps=3, count=count)
        t = 1 + (tempering - 1) * k / (len(path) - 1)
        chains = source.draw(energy, ONE, stream, tempering=t)
    return chains


def on_the_left(x: Tensor) -> Tensor:
    return (x[:, 0] < 0).double()


def assert_weighted_mean(log_weights: Tensor, values: Tensor, expected: float) -> None:
    """A ratio of means over independent chains, by the delta method, within 5 errors."""
    w = torch.softmax(log_weights, 0) * len(values)
    mean = float((w * values).mean())
    error = float((w * (values - mean)).std()) / math.sqrt(len(values))
    assert abs(mean - expected) <= 5 * error, (mean, expected, error)
    assert error < 0.02


# The law


@pytest.mark.parametrize("kernel", [MALA(0.15), HMC(0.4, 3)], ids=["MALA", "HMC"])
def test_weighted_averages_are_those_of_the_present_target(kernel: Kernel) -> None:
    """The left mode's share falls from 0.5 to 0.15, over a barrier that chains do not cross."""
    n = 20_000
    chains = followed(prepared(n, resample_below=0.0), n, 3, kernel)
    assert chains.log_weights.dtype == torch.float64
    assert_weighted_mean(chains.log_weights, on_the_left(chains.x), 0.15)
    assert_weighted_mean(chains.log_weights, (chains.x[:, 0] > 2).double(), 0.85 / 2)
    # Jarzynski's equality: the mean weight is the ratio of normalising constants.
    assert_mean(chains.log_weights.exp(), math.exp(-LOG_Z_WIDE))

    # The plain bank follows neither: half of its chains stay on the left.
    plain = Bank(n, GaussianNoise(std=WIDE))
    plain.prepare(ONE, PLAIN, generator(2))
    share = on_the_left(followed(plain, n, 3, kernel).x)
    assert float(share.mean()) > 0.45
    error = float(share.std()) / math.sqrt(n)
    assert abs(float(share.mean()) - 0.15) > 50 * error


def test_weights_follow_a_tempering_that_changes() -> None:
    """Chains end on V = 0.7 U, where the left mode has 0.15^0.7 / (0.15^0.7 + 0.85^0.7)."""
    n = 20_000
    chains = followed(prepared(n, resample_below=0.0), n, 4, tempering=0.7)
    left = 0.15**0.7 / (0.15**0.7 + 0.85**0.7)
    assert_weighted_mean(chains.log_weights, on_the_left(chains.x), left)


@pytest.mark.parametrize("resample_below", [0.8, 1.0])
def test_resampling_keeps_expectations(resample_below: float) -> None:
    """Over independent banks: means of exp(A) and of exp(A) on the left are the known integrals."""
    ratio, whole, left, resampled = math.exp(-LOG_Z_WIDE), [], [], 0.0
    for seed in range(60):
        start = WeightedBank(Bank(200, GaussianNoise(std=WIDE)), resample_below)
        start.prepare(ONE, PLAIN, generator(100 + seed))
        chains = followed(start, 200, 200 + seed)
        w = chains.log_weights.exp()
        whole.append(w.mean() / ratio)
        left.append((w * on_the_left(chains.x)).mean() / ratio)
        resampled += float(start.metrics()["bank_resampled"])
    assert resampled == 60 or resample_below < 1
    assert_mean(torch.stack(whole), 1.0)
    assert_mean(torch.stack(left), 0.15)
    assert float(torch.stack(whole).std()) < 0.5


def test_chains_that_begin_in_the_target_have_even_weights() -> None:
    """The untrained model is its reference where the network is a constant."""
    energy = Gaussian([0.0], [[WIDE**2]])
    chains = Source(prepared(500), MALA(0.2), steps=4, count=300).draw(
        energy, ONE, generator(5), tempering=1.0
    )
    torch.testing.assert_close(chains.log_weights, torch.zeros(300, dtype=torch.float64))


def test_a_chain_keeps_its_weight_while_nothing_moves_but_itself() -> None:
    start, energy = prepared(40, resample_below=0.0), Moving()
    energy.s = 0.6
    source = Source(start, MALA(0.1), steps=2, count=40)
    source.draw(energy, ONE, generator(6), tempering=0.8)
    before = start.log_weights.clone()
    with torch.no_grad():
        left_with = 0.8 * energy(start.bank.x)
    torch.testing.assert_close(start.potentials, left_with)
    source.draw(energy, ONE, generator(7), tempering=0.8)
    torch.testing.assert_close(start.log_weights, before)
    # By hand, over one change of the network without a move.
    energy.s = 0.7
    still = Source(start, MALA(0.1), steps=0, count=40)
    with torch.no_grad():
        expected = before + 0.8 * 0 + start.potentials - 0.5 * energy(start.bank.x)
    still.draw(energy, ONE, generator(8), tempering=0.5)
    torch.testing.assert_close(start.log_weights, expected)


def test_negatives_are_the_states_before_the_moves_and_the_bank_keeps_those_after() -> None:
    """Weights are updated at points that the last update did not use."""
    start, energy = prepared(40, resample_below=0.0), Moving()
    energy.s = 0.6
    before = start.bank.x.clone()
    chains = Source(start, MALA(0.1), steps=5, count=15).draw(
        energy, ONE, generator(19), tempering=1.0
    )
    slots = (chains.x == before[:, 0]).nonzero()[:, 1]
    assert len(slots.unique()) == 15
    assert torch.equal(chains.log_weights, start.log_weights[slots])
    assert (start.bank.x[slots] != before[slots]).double().mean() > 0.9
    torch.testing.assert_close(chains.first, energy(chains.x).detach())
    torch.testing.assert_close(chains.last, energy(start.bank.x[slots]).detach())


def test_slots_that_are_not_drawn_keep_everything() -> None:
    start, energy = prepared(40, resample_below=1.0), Moving()
    energy.s = 0.5
    before = copy.deepcopy(start.state_dict())
    source = Source(start, MALA(0.1), steps=2, count=15)
    source.draw(energy, ONE, generator(9), tempering=1.0)
    same = (start.potentials == before["potentials"]) & (start.bank.x == before["x"])[:, 0]
    assert int(same.sum()) == 25
    assert torch.equal(start.log_weights[same], before["log_weights"][same])
    assert start.bank.age[same].sum() == 0
    assert (start.bank.age[~same] == 2).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "start", [GaussianNoise(0.5, 1.5), GaussianNoise([0.5, -1.0], 0.7), LikeData(2.0)]
)
def test_starts_know_their_density(start: Start, kind: str) -> None:
    """-log p up to a constant: p is the Gaussian with the moments that its draws have."""
    at, x_data = coordinates(kind), normal(50, 2, seed=3)
    x = start.fresh(1000, x_data, at, generator(10))
    u = start.potential(x, x_data, at)
    assert u is not None
    assert u.dtype == torch.float64
    # |z|^2 / 2 of a Gaussian in two dimensions is exponential with mean 1.
    assert_mean(u, 1.0)
    y = at.whiten(x)
    z = normal(1000, 2)  # draws are affine in the noise: u is quadratic with the same Hessian
    step = at.unwhiten(y + 1e-3 * z) - x
    rise = start.potential(x + step, x_data, at) + start.potential(x - step, x_data, at) - 2 * u
    std = at.whiten(x_data).std(0) * 2.0 if isinstance(start, LikeData) else start.std
    torch.testing.assert_close(rise / 1e-6, (z / std).square().sum(1), rtol=1e-4, atol=1e-4)


def test_starts_without_a_density_say_so() -> None:
    for start in (UniformNoise(), DataStart(), Bank(5, UniformNoise())):
        assert start.potential(ONE, ONE, PLAIN) is None


# Resampling


def test_systematic_resampling_is_unbiased_and_spread_evenly() -> None:
    w = torch.softmax(normal(11, seed=4) * 2, 0)
    counts = torch.stack(
        [
            torch.bincount(systematic(w, torch.tensor((k + 0.5) / 4000)), minlength=11)
            for k in range(4000)
        ]
    ).double()
    assert (counts >= (11 * w).floor()).all()
    assert (counts <= (11 * w).ceil()).all()
    assert (counts.sum(1) == 11).all()
    torch.testing.assert_close(counts.mean(0), 11 * w, rtol=0, atol=1e-3)


def test_even_weights_are_resampled_to_themselves() -> None:
    w = torch.full((8,), 1 / 8, dtype=torch.float64)
    for u in (0.0, 0.3, 0.999):
        assert systematic(w, torch.tensor(u, dtype=torch.float64)).tolist() == list(range(8))


def test_resampled_chains_take_everything_of_their_ancestor_and_the_mean_weight() -> None:
    start = prepared(6, resample_below=0.5)
    start.bank.x = torch.arange(6.0, dtype=torch.float64)[:, None]
    start.bank.age = torch.arange(6) * 10
    slots = torch.tensor([4, 1, 2])
    start.log_weights[slots] = torch.tensor([0.0, 5.0, -1.0], dtype=torch.float64)
    first = start.potentials[slots].clone()
    last = torch.tensor([0.4, 0.1, 0.2], dtype=torch.float64)
    given = start.weigh(slots, first, last, generator(11))
    torch.testing.assert_close(given, torch.tensor([0.0, 5.0, -1.0], dtype=torch.float64))
    assert float(start.metrics()["bank_resampled"]) == 1
    assert float(start.metrics()["bank_weight_ess"]) < 0.5
    mean = math.log((1 + math.exp(5) + math.exp(-1)) / 3)
    assert start.log_weights[slots].tolist() == pytest.approx([mean] * 3)
    ancestors = start.bank.x[slots, 0].long()
    assert set(ancestors.tolist()) <= {4, 1, 2}
    assert (ancestors == 1).sum() >= 2
    assert torch.equal(start.bank.age[slots], 10 * ancestors)
    at = {4: 0.4, 1: 0.1, 2: 0.2}
    assert start.potentials[slots].tolist() == [at[k] for k in ancestors.tolist()]
    others = torch.tensor([0, 3, 5])
    assert start.bank.x[others, 0].tolist() == [0, 3, 5]
    assert (start.log_weights[others] == 0).all()


def test_a_potential_that_is_no_number_shows_in_the_weights() -> None:
    start = prepared(6)
    slots, last = torch.arange(6), torch.zeros(6)
    first = torch.tensor([0.0, 0.0, math.nan, 0.0, 0.0, 0.0])
    assert start.weigh(slots, first, last, generator(12)).isnan().any()
    assert start.log_weights.isnan().any()


# Refusals, state, compilation


def bank(**options: Any) -> Bank:
    return Bank(20, GaussianNoise(), **options)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: WeightedBank(bank(refresh=0.05)), "cannot refresh chains"),
        (lambda: WeightedBank(bank(refresh_batch=0.05)), "cannot refresh chains"),
        (lambda: WeightedBank(bank(storage="uint8")), "needs storage float32"),
        (lambda: WeightedBank(bank(), 1.5), "resample_below must be in"),
        (lambda: Source(WeightedBank(bank()), Langevin(0.1)), "a Metropolis test"),
        (lambda: Source(WeightedBank(bank()), Langevin(0.1, clamp=(-1, 1))), "without a clamp"),
        (lambda: Source(WeightedBank(bank()), MALA(0.1), conditional=True), "conditional"),
        (
            lambda: WeightedBank(Bank(20, UniformNoise())).prepare(ONE, PLAIN, generator()),
            "a known density",
        ),
        (
            lambda: WeightedBank(Bank(20, DataStart())).prepare(ONE, PLAIN, generator()),
            "a known density",
        ),
    ],
)
def test_what_breaks_the_weights_is_refused_with_a_reason(
    make: Callable[[], object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_kernel_whose_states_carry_no_potential_is_refused() -> None:
    class Forgetful(MALA):
        def potential_in(self, state: tuple[Tensor, ...]) -> None:  # type: ignore[override]
            return None

    source = Source(prepared(20), Forgetful(0.1), steps=1, count=5)
    with pytest.raises(ValueError, match="Forgetful has no `potential_in`"):
        source.draw(Moving(), ONE, generator(), tempering=1.0)


def test_a_restored_source_goes_on_with_the_same_weights() -> None:
    """What a resumed run and a rollback rely on."""
    energy = Moving()
    energy.s = 0.7

    def source() -> Source:
        return Source(
            prepared(30, resample_below=0.9), MALA(0.1), steps=2, count=12,
            adaptation=StepAdaptation(0.5),
        )  # fmt: skip

    saved, other = source(), source()
    saved.draw(energy, ONE, generator(13), tempering=1.0)
    other.load_state_dict(copy.deepcopy(saved.state_dict()))
    for tempering in (1.0, 0.6):
        ends = [s.draw(energy, ONE, generator(14), tempering=tempering) for s in (saved, other)]
        assert torch.equal(ends[0].x, ends[1].x)
        assert torch.equal(ends[0].log_weights, ends[1].log_weights)
    for name, value in saved.state_dict()["start"].items():
        assert torch.equal(value, other.state_dict()["start"][name]), name
    other.start.load_state_dict(saved.state_dict()["start"])
    other.start.log_weights[0] = 7.0
    assert float(saved.start.log_weights[0]) != 7.0


def test_a_part_of_the_chains_at_a_time_gives_the_same_weights() -> None:
    energy = Moving()
    energy.s = 0.7
    found = []
    for at_once in (None, 4):
        source = Source(prepared(30, resample_below=0.9), MALA(0.1), steps=0, count=15)
        found.append(source.draw(energy, ONE, generator(15), tempering=1.0, at_once=at_once))
    assert torch.equal(found[0].log_weights, found[1].log_weights)
    assert torch.equal(found[0].x, found[1].x)


def test_sampling_begins_at_the_initial_law_and_a_saved_bank_can_be_read() -> None:
    start = prepared(30)
    assert start.without_data(ONE, PLAIN) == GaussianNoise(std=WIDE)
    assert start.visits(300) == 10
    x, age = start.slots(start.state_dict())
    assert torch.equal(x, start.bank.x)
    assert age.tolist() == [0] * 30
    assert not GaussianNoise().weighted
    with pytest.raises(NotImplementedError, match="keeps no weights"):
        GaussianNoise().weigh(age, x, x, generator())


@pytest.mark.filterwarnings("ignore")
def test_compiled_chains_have_the_weights_of_eager_ones() -> None:
    torch.manual_seed(0)
    energy = ScalarEnergy(MLP(1, (6,), "silu"), coldness=4.0, reference_std=1.0)
    energy.coordinates = Coordinates("full", torch.tensor([0.5]), torch.tensor([[0.8]]))
    x_data = ONE.float()
    found = []
    for compiled in (False, True):
        start = WeightedBank(Bank(30, GaussianNoise(std=1.5)), 0.0)
        start.prepare(x_data, energy.coordinates, generator(16))
        source, stream = Source(start, MALA(0.1), steps=4, count=20), generator(17)
        for t in (1.0, 0.7):
            chains = source.draw(energy, x_data, stream, tempering=t, compiled=compiled)
        found.append((chains.log_weights, start.potentials, start.bank.x))
    for eager, other in zip(*found, strict=True):
        torch.testing.assert_close(other, eager, rtol=1e-4, atol=1e-5)


# In training


def test_the_recipe_trains_with_weights_and_their_metrics() -> None:
    from coldness.training import build

    words = ("--sources.0.count=16", "--sources.0.start.bank.capacity=40")
    training = build(settings("two-modes", *words))
    training.check()
    start = training.settings.sources[0].start
    assert (start.log_weights == 0).all()
    assert (start.bank.age == 0).all()
    for _ in range(5):
        metrics = training.iterate()
    assert 0 < float(metrics["bank_weight_ess"]) <= 1
    # Without beta, the weights of the contrast are those that chains carry.
    assert float(metrics["weight_ess"]) == pytest.approx(float(metrics["bank_weight_ess"]))
    assert float(metrics["largest_weight"]) > 1 / 16
    assert "d_std" not in metrics
    for words_of, reason in (
        (("--sources.0.start.bank.refresh=0.05",), "cannot refresh"),
        (("--sources.0.kernel={class_path: Langevin, init_args: {step_size: 0.1}}",), "Metropolis"),
    ):
        with pytest.raises(ValueError, match=reason):
            settings("two-modes", *words, *words_of)


def test_modes_of_the_recipe_are_separated() -> None:
    data = SeparatedModes(3, (0.5, 0.2, 0.3), 5.0, 0.4)
    x = data.sample(20_000, generator(18))
    mode = data.mode_of(x)
    for k, share in enumerate((0.5, 0.2, 0.3)):
        assert_mean((mode == k).double(), share)
        assert_mean(x[mode == k][:, 0].double(), 5.0 * (k - 1))
        assert_mean(x[mode == k][:, 2].double().square(), 0.16)
    for wrong in ({"distance": 1.0}, {"shares": (1.0,)}, {"dimensions": 0}, {"shares": (0.5, 0.6)}):
        with pytest.raises(ValueError, match=r"must be|at least"):
            SeparatedModes(**wrong)
