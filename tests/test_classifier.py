"""Classifiers as energies: their laws, chains by class, and training that resumes exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from coldness.chains import Bank, DataStart, GaussianNoise, Source, UniformNoise
from coldness.chains.source import repeated
from coldness.data import Digits, Mixture2D
from coldness.energies import ClassifierEnergy, ScalarEnergy, Sum
from coldness.guard.watch import Watch
from coldness.kernels import Langevin
from coldness.nets import MLP
from coldness.objectives import Batch, Contrast, CrossEntropy
from coldness.training import Settings, build, fit
from small import same, saved_state

CLASSES = 3


def classifier(coldness: float = 5.0) -> ClassifierEnergy:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, CLASSES)).double()
    return ClassifierEnergy(net, coldness, CLASSES)


def points(n: int = 7, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 2, generator=generator, dtype=torch.float64)


def test_the_marginal_is_the_sum_of_the_joint_at_coldness_one() -> None:
    """exp(-E(x)) = sum_y exp(f_y(x)), and U = c E."""
    energy, x = classifier(), points()
    joint = torch.stack(
        [energy.given(torch.full((len(x),), y)).energy(x) for y in range(CLASSES)], 1
    )
    torch.testing.assert_close(energy.energy(x).neg().exp(), joint.neg().exp().sum(1))
    torch.testing.assert_close(energy(x), 5.0 * energy.energy(x))


def test_given_a_class_the_energy_is_its_negative_logit() -> None:
    energy, x = classifier(), points()
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 0])
    expected = torch.stack([-energy.logits(x)[i, y] for i, y in enumerate(labels)])
    torch.testing.assert_close(energy.given(labels).energy(x), expected)
    torch.testing.assert_close(energy.given(labels)(x), 5.0 * expected)
    both = Sum([energy.given(labels), energy.given(labels.flip(0))])
    other = energy.given(labels.flip(0))
    torch.testing.assert_close(both(x), energy.given(labels)(x) + other(x))
    assert not torch.equal(energy.given(labels)(x), other(x))  # objects of their own


def test_a_classifiers_state_has_nothing_of_its_conditionals() -> None:
    energy = classifier()
    before = list(energy.state_dict())
    energy.given(torch.zeros(2, dtype=torch.int64))
    assert list(energy.state_dict()) == before
    assert len(list(energy.modules())) == len(list(classifier().modules()))


def test_cross_entropy_is_the_mean_of_minus_log_p() -> None:
    energy, x = classifier(), points()
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 0])
    u = energy(x)
    loss = CrossEntropy(0.5)(Batch(energy, x, x, u, u, (x, labels)))
    log_p = energy.logits(x) - energy.logits(x).logsumexp(1, keepdim=True)
    expected = -0.5 * sum(log_p[i, y] for i, y in enumerate(labels)) / len(x)
    torch.testing.assert_close(loss, expected)


def test_cross_entropy_refuses_what_has_no_classes() -> None:
    with pytest.raises(ValueError, match="an energy with class logits"):
        CrossEntropy().check(ScalarEnergy(MLP(2)), Digits())
    with pytest.raises(ValueError, match="data with labels"):
        CrossEntropy().check(classifier(), Mixture2D())
    x = points()
    u = classifier()(x)
    with pytest.raises(ValueError, match="labelled examples"):
        CrossEntropy()(Batch(classifier(), x, x, u, u))


def bank(capacity: int = 31, **arguments: float) -> Bank:
    start = Bank(capacity, GaussianNoise(), **arguments)
    start.prepare(points().float(), classifier().coordinates, torch.Generator().manual_seed(3))
    return start


def test_chains_of_a_class_come_from_slots_of_the_class_and_from_different_ones() -> None:
    start, at = bank(), classifier().coordinates
    labels = torch.tensor([2, 0, 2, 1, 2, 0, 2])
    generator = torch.Generator().manual_seed(0)
    seen: set[int] = set()
    for _ in range(50):
        x, slots = start.draw_by_class(labels, CLASSES, points().float(), at, generator)
        assert slots is not None
        assert (slots % CLASSES == labels).all()
        assert len(set(slots.tolist())) == len(labels)
        torch.testing.assert_close(x, start.x[slots])
        seen |= set(slots.tolist())
    assert seen == set(range(31))


def test_slots_of_a_class_are_drawn_alike() -> None:
    """Each of n slots with probability 1/n: counts within 5 standard errors."""
    start, at, draws = bank(30), classifier().coordinates, 4000
    generator, counts = torch.Generator().manual_seed(0), torch.zeros(30)
    for _ in range(draws):
        _, slots = start.draw_by_class(torch.tensor([1]), 3, points().float(), at, generator)
        counts[slots] += 1
    share = counts[1::3] / draws
    assert (share - 0.1).abs().max() < 5 * (0.1 * 0.9 / draws) ** 0.5
    assert counts.sum() == counts[1::3].sum()


def test_a_bank_with_too_few_slots_of_a_class_is_refused() -> None:
    with pytest.raises(ValueError, match="2 slots per class"):
        bank(8).draw_by_class(
            torch.ones(3, dtype=torch.int64), 3, points().float(), classifier().coordinates,
            torch.Generator(),
        )  # fmt: skip


def test_a_bank_of_bytes_rounds_to_255_levels_and_cuts_to_the_range() -> None:
    start = Bank(4, UniformNoise(), storage="uint8")
    x_data = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    start.prepare(x_data, classifier().coordinates, torch.Generator().manual_seed(0))
    assert start.x.dtype == torch.uint8
    x = torch.tensor([[0.1234, -3.0], [1.7, -0.5]])
    start.put(torch.tensor([2, 0]), x, 1)
    back = start.states()[[2, 0]]
    assert (back - x.clamp(-1, 1)).abs().max() <= 1 / 255 + 1e-6
    assert back[0, 1] == -1.0
    assert back[1, 0] == 1.0


def test_a_bank_on_the_host_gives_the_same_chains() -> None:
    """Here the device is the host too; what is tested is that nothing depends on the place."""
    at, x = classifier().coordinates, points().float()
    drawn = []
    for place in ("device", "host"):
        start = Bank(10, GaussianNoise(), refresh=0.3, place=place)  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(1)
        start.prepare(x, at, generator)
        drawn.append(start.draw(5, x, at, generator))
    assert same(drawn[0], drawn[1])


def test_classes_are_repeated_as_data_starts_are() -> None:
    labels = torch.tensor([4, 5, 6])
    assert repeated(labels, 2).tolist() == [4, 5]
    assert repeated(labels, 7).tolist() == [4, 5, 6, 4, 5, 6, 4]


def test_conditional_chains_follow_the_energy_of_their_class() -> None:
    """With f_y(x) = -|x - m_y|^2 / 2 each class is N(m_y, 1/c): means within 5 standard errors."""
    centres = torch.tensor([[-3.0, 0.0], [4.0, 1.0]])

    class Wells(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return -(x[:, None] - centres).square().sum(2) / 2

    energy = ClassifierEnergy(Wells(), 4.0, 2)
    source = Source(GaussianNoise(), Langevin(0.02), steps=200, conditional=True)
    labels = torch.arange(2000) % 2
    chains = source.draw(
        energy, torch.zeros(2000, 2), torch.Generator().manual_seed(0), tempering=1.0,
        given=labels, at_once=700,
    )  # fmt: skip
    # Langevin's own stationary variance: s^2 / (1 - h / (2 s^2)) with s^2 = 1/4.
    variance = 0.25 / (1 - 0.02 / 0.5)
    for y in range(2):
        x = chains.x[labels == y]
        error = (x.mean(0) - centres[y]).abs().max()
        assert error < 5 * (variance / len(x)) ** 0.5
        assert (x.var(0) / variance - 1).abs().max() < 5 * (2 / len(x)) ** 0.5


def test_samples_by_class_need_an_energy_with_classes() -> None:
    source = Source(GaussianNoise(), Langevin(0.02), steps=2)
    with pytest.raises(ValueError, match="has no classes or latents"):
        source.sample(
            ScalarEnergy(MLP(2)), torch.zeros(4, 2), 3, torch.Generator(),
            given=torch.zeros(3, dtype=torch.int64),
        )  # fmt: skip


def settings(**changes: object) -> Settings:
    torch.manual_seed(0)
    source = Source(
        Bank(60, UniformNoise(), refresh=0.2), Langevin(0.001), steps=3, conditional=True
    )
    plain = Settings(
        data=Digits(validation=0.1),
        energy=ClassifierEnergy(MLP(widths=(16,), activation="silu"), 500.0),
        sources=[source],
        contrast=Contrast(beta=0.002, tempering=1.0),
        terms=[CrossEntropy()],
        optimiser=lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
        iterations=24,
        batch_size=12,
        data_noise=0.1,
        checkpoint_every=12,
        validate_every=5,
        compile="never",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_resuming_a_classifier_is_exact_with_its_bank_and_classes(tmp_path: Path) -> None:
    whole = build(settings())
    (tmp_path / "a").mkdir()
    fit(whole, tmp_path / "a")
    halves = build(settings())
    (tmp_path / "b").mkdir()
    halves.settings = replace(halves.settings, iterations=12)
    fit(halves, tmp_path / "b")
    again = build(settings())
    again.load_state_dict(saved_state(tmp_path / "b"))
    fit(again, tmp_path / "b")
    assert same(
        {k: v for k, v in whole.state_dict().items() if k != "seconds"},
        {k: v for k, v in again.state_dict().items() if k != "seconds"},
    )


def test_in_parts_an_iteration_is_the_same_up_to_rounding() -> None:
    """Chains from data without steps: nothing random depends on the parts."""
    source = Source(DataStart(), Langevin(0.001), steps=0, conditional=True)
    gradients = []
    for at_once in (None, 5):
        training = build(settings(sources=[source], at_once=at_once))
        training.iterate()
        gradients.append([p.grad for p in training.parameters])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_in_parts_no_more_than_asked_for_go_through_the_network() -> None:
    training, sizes = build(settings(at_once=5)), []
    training.energy.net.register_forward_pre_hook(lambda net, x: sizes.append(len(x[0])))
    training.iterate()
    assert max(sizes) == 5


def test_labels_of_data_and_of_negatives_reach_the_loss() -> None:
    """d is the mean of c (-f_y) over the batch less that of the chains, each of its class."""
    source = Source(DataStart(), Langevin(0.001), steps=0, conditional=True)
    training = build(settings(sources=[source], data_noise=0.0))
    figures = training.iterate()
    assert float(figures["d"]) == pytest.approx(0.0, abs=1e-4)
    assert float(figures["cross_entropy"]) > 0
    assert 0 <= float(figures["accuracy_validation"]) <= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": Mixture2D()}, "needs data with labels"),
        ({"energy": ScalarEnergy(MLP(widths=(8,)))}, "need an energy with classes"),
        ({"energy": ClassifierEnergy(MLP(widths=(8,)), 1.0, 7)}, "has 7 classes, but the data"),
        ({"data": Digits()}, "validation part"),
        ({"at_once": 0}, "at_once must be"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(settings(**changes))


def test_sources_are_all_conditional_or_none() -> None:
    both = [
        Source(UniformNoise(), Langevin(0.001), conditional=True),
        Source(UniformNoise(), Langevin(0.001)),
    ]
    with pytest.raises(ValueError, match="all conditional or all not"):
        settings(sources=both)


def test_a_network_with_batch_norm_is_refused_as_an_energy() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))
    with pytest.raises(ValueError, match="BatchNorm1d, couples the examples of a batch"):
        build(settings(energy=ClassifierEnergy(net, 500.0)))


def test_gaps_of_logits_are_ordinary_to_the_guard() -> None:
    """A gap of 20 logits at coldness 500 that doubles is no alarm; one of 60 is."""
    dimension, ordinary = 64, settings().energy.ordinary_gap
    for logits, alarmed in ((20.0, False), (60.0, True)):
        watch = Watch(dimension, ordinary)
        others = {"parameter_gradient": 1.0, "r": 1.0, "grad_scale": 1.0}
        rows = [
            {"iteration": t, "d": 500.0 * logits * 2 ** (t / 20 - 1), **others} for t in range(41)
        ]
        watch.add(rows)
        assert (watch.look() is not None) is alarmed
        assert 500.0 * logits > 80.0 * dimension / 2


def test_a_classifier_without_competing_negatives_is_starved_only_if_they_stay_behind() -> None:
    """Its labels go on teaching it; without them the same figures are an alarm at once."""
    figures = {"parameter_gradient": 1.0, "r": 1.0, "grad_scale": 1e-4}

    def cause(n: int, taught: bool, rate: float = 0.0) -> str | None:
        watch = Watch(64, taught=taught)
        watch.add([{"iteration": t, "d": math.exp(-rate * t), **figures} for t in range(n)])
        alarm = watch.look()
        return alarm.cause if alarm else None

    assert cause(41, taught=False) == "starvation"
    assert cause(41, taught=True) is None
    assert cause(120, taught=True) == "starvation"
    assert cause(120, taught=True, rate=0.01) is None
