"""Steps that follow the model, several betas at once, and updates that are left out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from coldness.chains import GaussianNoise, Source, StepAdaptation
from coldness.energies import Gaussian
from coldness.kernels import HMC, MALA, Kernel, Langevin
from coldness.runs.folder import RunFolder
from coldness.training import build
from coldness.training.result import model_of
from small import QUICK, read, same, settings, trained, weights

STD = 0.3


def isotropic() -> Gaussian:
    return Gaussian([0.0, 0.0], [[STD**2, 0.0], [0.0, STD**2]])


def adapted_source(kernel: Kernel, steps: int = 5, target: float = 0.6) -> Source:
    return Source(
        start=GaussianNoise(std=STD),
        kernel=kernel,
        steps=steps,
        count=200,
        adaptation=StepAdaptation(target=target, rate=0.1),
    )


def follow(source: Source, tempering: float, rounds: int = 200) -> float:
    """Mean acceptance over the last rounds, on a Gaussian with the start's own law at t = 1."""
    energy = isotropic()
    generator = torch.Generator().manual_seed(0)
    x_data = torch.zeros(1, 2)
    seen = [
        float(source.draw(energy, x_data, generator, tempering=tempering).acceptance)
        for _ in range(rounds)
    ]
    return sum(seen[-50:]) / 50


@pytest.mark.parametrize("tempering", [1.0, 0.5])
@pytest.mark.parametrize("h", [0.02, 0.5])
@pytest.mark.parametrize("kernel", [MALA, HMC, Langevin])
def test_the_step_is_followed_to_the_target_acceptance(
    kernel: type[Kernel], h: float, tempering: float
) -> None:
    assert follow(adapted_source(kernel(step_size=h)), tempering) == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize("kernel", [MALA, HMC, Langevin])
def test_the_step_belongs_to_the_model_whatever_the_tempering(kernel: type[Kernel]) -> None:
    """On a Gaussian, t U has scales 1/sqrt(t) as wide: the same step on U is found for any t."""
    scales = []
    for tempering in (1.0, 0.25):
        source = adapted_source(kernel(step_size=0.05))
        source.start = GaussianNoise(std=STD / math.sqrt(tempering))
        follow(source, tempering)
        assert source.adaptation is not None
        scales.append(float(source.adaptation.scale))
    assert scales[1] == pytest.approx(scales[0], rel=0.25)


def test_the_side_test_moves_no_chain(generator: torch.Generator) -> None:
    energy = isotropic()
    plain = Source(GaussianNoise(), Langevin(0.01), steps=4, count=10)
    adapted = replace(plain, adaptation=StepAdaptation())
    state = generator.get_state()
    x = plain.draw(energy, torch.zeros(1, 2), generator, tempering=1.0).x
    generator.set_state(state)
    assert torch.equal(adapted.draw(energy, torch.zeros(1, 2), generator, tempering=1.0).x, x)


def test_the_step_stays_in_its_range() -> None:
    adaptation = StepAdaptation(rate=1.0, range=10.0)
    for _ in range(50):
        adaptation.update(torch.tensor(1.0))
    assert float(adaptation.scale) == pytest.approx(10.0)
    adaptation.update(torch.tensor(float("nan")))
    assert math.isnan(float(adaptation.scale))


@pytest.mark.parametrize("bad", [{"target": 1.0}, {"rate": 0.0}, {"range": 1.0}])
def test_bad_adaptation_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        StepAdaptation(**bad)


def test_an_adapted_step_needs_chains_that_follow_the_energy() -> None:
    with pytest.raises(ValueError, match="tempering must be > 0"):
        follow(adapted_source(MALA(0.1)), 0.0, rounds=1)


ADAPTED = ["--sources.0.adaptation={target: 0.6, rate: 0.1}", "--sources.0.kernel=MALA"]


def test_an_adapted_run_resumes_bit_for_bit() -> None:
    whole = build(settings("mixture2d", *ADAPTED))
    for _ in range(20):
        whole.iterate()
    first = build(settings("mixture2d", *ADAPTED))
    for _ in range(10):
        first.iterate()
    second = build(settings("mixture2d", *ADAPTED))
    second.load_state_dict(first.state_dict())
    for _ in range(10):
        second.iterate()
    assert same(whole.state_dict()["sources"], second.state_dict()["sources"])
    assert same(weights(whole), weights(second))
    assert float(weights(whole)["sampler.step.log_scale"]) != 0


def test_the_adapted_step_is_saved_with_the_model(tmp_path: Path) -> None:
    training = trained(tmp_path / "a", "mixture2d", *ADAPTED)
    folder = RunFolder(tmp_path / "a")
    quick = [*QUICK, "--iterations=40", "--batch_size=16", "--sources.0.steps=3"]
    folder.save_config(read("mixture2d", *quick, *ADAPTED).text, "mixture2d", "")
    folder.save_model(model_of(training))
    sampler = folder.load().sampler
    assert sampler is not None
    loaded = sampler.adaptation
    ours = training.settings.sources[0].adaptation
    assert loaded is not None
    assert ours is not None
    assert torch.equal(loaded.log_scale, ours.log_scale)


TWO = (
    "--sources=[{start: GaussianNoise, kernel: Langevin, steps: 3, beta: %s}, "
    "{start: GaussianNoise, kernel: MALA, steps: 3, beta: %s, weight: 2}]"
)


def test_sources_of_one_beta_are_weighed_together() -> None:
    assert settings("mixture2d", TWO % (0.5, 0.5)).contrasts() == [[0, 1]]
    assert settings("mixture2d", TWO % (0.9, "null")).contrasts() == [[0, 1]]  # 0.9 is the recipe's
    assert settings("mixture2d", TWO % (0.5, 0.1)).contrasts() == [[0], [1]]


def test_losses_of_several_betas_are_added_and_each_follows_its_own_potential() -> None:
    several = settings("mixture2d", TWO % (0.5, 0.1), "--temperature.noise=1")
    assert [several.tempering_of(source, 0) for source in several.sources] == [0.5, 0.9]
    training = build(several)
    figures = training.iterate()
    assert float(figures["beta"]) == 0.5
    assert float(figures["beta_1"]) == 0.1
    assert figures["grad_scale"] != figures["grad_scale_1"]


def test_two_betas_of_the_same_value_equal_one_contrast_at_beta_zero() -> None:
    """At beta 0 the loss is a sum over sources (hybrid loss), however they are grouped."""
    one = build(settings("mixture2d", TWO % (0, 0)))
    two = build(settings("mixture2d", TWO % (0, 0)))
    two.contrasts = [[0], [1]]
    assert float(one.iterate()["loss"]) == pytest.approx(float(two.iterate()["loss"]), abs=1e-6)


def test_beta_follows_a_schedule_per_source() -> None:
    words = TWO % ("{class_path: Linear, init_args: {start: 0.0, end: 1.0}}", 0.1)
    training = build(settings("mixture2d", words))
    betas = [float(training.iterate()["beta"]) for _ in range(3)]
    assert betas == sorted(set(betas))


def test_updates_with_little_grad_scale_are_left_out() -> None:
    """Appendix H. 16 negatives like the data give a GradScale of about 16/17."""
    never, always = "--least_grad_scale=0.9999", "--least_grad_scale=1e-12"
    words = ["--contrast.beta=0.9", "--ema=0.9", "--temperature.noise=1"]
    for option, left_out in ((never, 1.0), (always, 0.0)):
        training = build(settings("mixture2d", *words, option))
        before = {name: value.clone() for name, value in weights(training).items()}
        figures = [training.iterate() for _ in range(3)]
        assert [float(f["left_out"]) for f in figures] == 3 * [left_out]
        assert same(weights(training), before) == (left_out == 1.0)
        assert bool(training.optimiser.optimizer.state) == (left_out == 0.0)


def test_standard_training_is_never_left_out() -> None:
    training = build(settings("mixture2d", "--contrast.beta=0", "--least_grad_scale=0.9999"))
    assert float(training.iterate()["left_out"]) == 0.0


@pytest.mark.parametrize("bad", ["-0.1", "1.0"])
def test_bad_least_grad_scale_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="least_grad_scale"):
        settings("mixture2d", f"--least_grad_scale={bad}")
