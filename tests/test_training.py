"""The loop: exact resumption, one seed one result, schedules, average, guard, interruption."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coldness.data import HeldOut
from coldness.energies import Tempered
from coldness.files import BadFile
from coldness.guard import Diverged
from coldness.runs.log import MetricsLog, read_metrics
from coldness.seeds import generators
from coldness.signals import Interrupted
from coldness.training import Training, build, fit
from coldness.training.ema import Average, MovingAverage
from small import same, saved_state, settings, trained, weights

RUNS = {
    "short-run": ("mixture2d",),
    "bank with refresh": (
        "mixture2d-convergent",
        "--sources.0.start.capacity=64",
        "--sources.0.start.refresh=0.2",
        "--sources.0.start.refresh_batch=0.1",
    ),
    "weighted bank": (
        "two-modes",
        "--sources.0.count=16",
        "--sources.0.start.bank.capacity=40",
        "--sources.0.start.resample_below=0.9",
        "--sources.0.adaptation.target=0.6",
        "--contrast.beta=0.2",
    ),
    "bank with transitions": (
        "digits",
        "--energy.net={class_path: MLP, init_args: {widths: [8]}}",
        "--sources.0.start.capacity=64",
        "--sources.0.transition=ResizedCrop",
        "--sources.0.transition_every=2",
    ),
    "preconditioned with average": ("rings10d",),
    "in full coordinates": ("rings10d", "--preconditioner=full"),
    "all schedules": (
        "rings2d",
        "--contrast.beta=Linear",
        "--contrast.beta.start=0",
        "--contrast.beta.end=0.9",
        "--data_noise=Geometric",
        "--data_noise.start=0.1",
        "--learning_rate=WarmUp",
        "--learning_rate.iterations=5",
        "--sources.0.step_scale={class_path: Cosine, init_args: {start: 2, end: 1}}",
        "--clip_gradient=0.1",
        "--terms=[{class_path: EnergyL2, init_args: {strength: 0.1}}]",
    ),
}


def mutable(training: Training) -> dict[str, object]:
    state = training.state_dict()
    del state["seconds"]
    return state


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_resumed_equals_uninterrupted_to_the_bit(run: tuple[str, ...], tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole", *run)
    half = build(settings(*run, "--checkpoint_every=15"))
    (tmp_path / "half").mkdir()

    def stop(iteration: int, row: dict[str, float]) -> None:
        if iteration >= 30:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        fit(half, tmp_path / "half", on_block=stop)
    resumed = build(settings(*run, "--checkpoint_every=15"))
    resumed.load_state_dict(saved_state(tmp_path / "half"))
    assert resumed.iteration == 30
    fit(resumed, tmp_path / "half")
    assert same(mutable(whole), mutable(resumed))
    assert same(weights(whole), weights(resumed))
    texts = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "half")]
    assert texts[0] == texts[1]


def test_one_seed_one_result(tmp_path: Path) -> None:
    first, again = trained(tmp_path / "a"), trained(tmp_path / "b")
    other = trained(tmp_path / "c", "mixture2d", "--seed=1")
    assert same(weights(first), weights(again))
    assert not same(weights(first), weights(other))


def test_data_weights_and_chains_have_streams_of_their_own() -> None:
    """With one seed for all, noise starts would repeat the numbers that the data was made of."""
    of_data, of_chains = generators(3)
    assert not torch.equal(torch.randn(5, generator=of_data), torch.randn(5, generator=of_chains))
    again, _ = generators(3)
    again.manual_seed(again.initial_seed())
    other, _ = generators(4)
    assert again.initial_seed() == of_data.initial_seed() != other.initial_seed()


def test_a_preconditioner_needs_a_plain_energy() -> None:
    given = settings("mixture2d", "--preconditioner=diagonal")
    given = replace(given, energy=Tempered(given.energy, 0.5))
    with pytest.raises(ValueError, match="composed of others"):
        build(given)


def test_making_parts_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    build(settings())
    assert torch.equal(before, torch.get_rng_state())


def test_updates_do_not_depend_on_the_coldness_where_gradients_do_not() -> None:
    """Eqs. 1A to 4A: with the same negatives, the step of SGD is the same at any coldness."""

    def first_step(coldness: float) -> torch.Tensor:
        given = settings(
            "mixture2d",
            "--contrast.beta=0",
            "--sources.0.steps=0",
            "--optimiser=SGD",
            "--optimiser.lr=0.1",
            f"--energy.coldness={coldness}",
        )
        training = build(given)
        training.iterate()
        return torch.cat([p.detach().flatten() for p in training.parameters])

    torch.testing.assert_close(first_step(1.0), first_step(20_000.0), rtol=1e-5, atol=1e-7)


def test_every_iteration_is_logged_with_finite_figures(tmp_path: Path) -> None:
    trained(tmp_path)
    columns = read_metrics(tmp_path / "metrics.csv")
    assert columns["iteration"] == list(range(40))
    wanted = {"d", "r", "weight_ess", "grad_scale", "largest_weight", "u_data_mean", "u_model_std"}
    assert wanted <= columns.keys()
    assert all(math.isfinite(v) for column in columns.values() for v in column)


def test_figures_are_those_of_the_objective(tmp_path: Path) -> None:
    """d is the mean U of data less that of negatives, before the update."""
    trained(tmp_path, "mixture2d", "--contrast.beta=0")
    c = read_metrics(tmp_path / "metrics.csv")
    for d, loss, data, model in zip(
        c["d"], c["loss"], c["u_data_mean"], c["u_model_mean"], strict=True
    ):
        assert d == pytest.approx(data - model, abs=1e-3)
        assert loss == pytest.approx(d / 800, abs=1e-6)
    assert set(c["weight_ess"]) == {1.0}


def test_several_sources_have_figures_of_their_own(tmp_path: Path) -> None:
    both = (
        "--sources=[{start: GaussianNoise, kernel: {class_path: Langevin, init_args: "
        "{step_size: 0.001}}, steps: 2}, {start: DataStart, kernel: {class_path: MALA, init_args: "
        "{step_size: 0.001}}, steps: 2, weight: 25, count: 7}]"
    )
    training = build(settings("mixture2d", both))
    figures = training.iterate()
    assert {"r", "r_1", "acceptance", "acceptance_1"} <= figures.keys()
    assert 0 < float(figures["acceptance_1"]) <= 1


def test_learning_rate_follows_its_schedule(tmp_path: Path) -> None:
    over = [
        "--optimiser.lr=1e-4",
        "--learning_rate=Geometric",
        "--learning_rate.rate=0.9",
        "--learning_rate.floor=0.5",
    ]
    trained(tmp_path, "mixture2d", *over)
    rates = read_metrics(tmp_path / "metrics.csv")["learning_rate"]
    assert rates[:2] == pytest.approx([1e-4, 0.9e-4])
    assert rates[-1] == pytest.approx(0.5e-4)


def test_moving_average_is_the_geometric_sum() -> None:
    module = torch.nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        module.weight.fill_(0.0)
    average = MovingAverage(module, Average(0.9))
    for t in range(5):
        with torch.no_grad():
            module.weight.fill_(1.0)
        average.update(t)
    assert float(average.average[0]) == pytest.approx(1 - 0.9**5)
    with average.in_place():
        assert module.weight.item() == pytest.approx(1 - 0.9**5)
    assert module.weight.item() == 1.0


def test_a_moving_average_may_begin_late_and_lag() -> None:
    """Until it begins it is the weights; updated first, it is one update behind."""
    for first in (False, True):
        training = build(settings("mixture2d", "--iterations=6"))
        how = Average(0.5, begin=3, first=first)
        training.ema = MovingAverage(training.energy, how)
        before, after = [], []
        for _ in range(5):
            before.append(training.parameters[0].detach().clone())
            training.iterate()
            after.append(training.parameters[0].detach().clone())
            if training.iteration == 3:
                expected = (before if first else after)[-1]
                assert torch.equal(training.ema.average[0], expected)
        seen = (before if first else after)[2:]
        expected = 0.5 * (0.5 * seen[0] + 0.5 * seen[1]) + 0.5 * seen[2]
        torch.testing.assert_close(training.ema.average[0], expected)


def test_the_average_is_the_model_that_is_saved(tmp_path: Path) -> None:
    training = trained(tmp_path, "mixture2d", "--ema=0.9")
    assert training.ema is not None
    saved = weights(training)["energy.net.layers.0.weight"]
    assert torch.equal(saved, training.ema.average[0])
    assert not torch.equal(saved, training.energy.state_dict()["net.layers.0.weight"])


def test_divergence_raises_with_its_figures_and_saves_what_was_good(tmp_path: Path) -> None:
    words = ["--optimiser.lr=1e30", "--checkpoint_every=10", "--guard.policy=stop"]
    training = build(settings("mixture2d", *words))
    with pytest.raises(Diverged, match="became NaN or infinite") as caught:
        fit(training, tmp_path)
    assert "d" in caught.value.metrics
    assert 0 <= caught.value.iteration < 10
    saved = saved_state(tmp_path)
    assert saved["iteration"] == 0
    assert all(w.isfinite().all() for w in saved["energy"].values())
    logged = read_metrics(tmp_path / "metrics.csv")
    assert len(logged["iteration"]) > caught.value.iteration  # the evidence is kept


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_interruption_saves_and_can_be_resumed(tmp_path: Path) -> None:
    def press(iteration: int, row: dict[str, float]) -> None:
        if iteration == 50:
            os.kill(os.getpid(), signal.SIGINT)

    training = build(settings("mixture2d", "--iterations=200"))
    with pytest.raises(Interrupted, match="saved"):
        fit(training, tmp_path, on_block=press)
    saved = saved_state(tmp_path)
    assert saved["iteration"] == training.iteration == 51
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    trained(tmp_path)
    other = build(settings("mixture2d", "--energy.net.widths=[9]"))
    with pytest.raises(BadFile, match="does not fit"):
        other.load_state_dict(saved_state(tmp_path))


def test_log_drops_rows_after_the_checkpoint_and_a_torn_last_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("iteration,d\n0,1\n1,2\n2,3\n3")
    log = MetricsLog(path, keep_until=2)
    log.add(2, {"d": torch.tensor(5.0)})
    log.write(log.drain())
    assert path.read_text() == "iteration,d\n0,1\n1,2\n2,5\n"


def test_tensorboard_events_where_asked(tmp_path: Path) -> None:
    trained(tmp_path, "mixture2d", "--tensorboard=true")
    events = list((tmp_path / "tensorboard").glob("events*"))
    assert events
    assert events[0].stat().st_size > 1000


def test_full_coordinates_are_those_of_every_training_example_once(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(300, 2)) @ [[1.0, 0.9], [0.0, 0.1]]
    np.save(tmp_path / "x.npy", points)
    given = settings("points", f"--data.path={tmp_path / 'x.npy'}", "--preconditioner=full")
    assert isinstance(given.data, HeldOut)
    y = build(given).energy.coordinates.whiten(given.data.train)
    torch.testing.assert_close(torch.cov(y.T), torch.eye(2), rtol=1e-4, atol=1e-4)
