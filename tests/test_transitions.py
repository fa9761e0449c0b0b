"""Transitions: random changes of chains before their steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

import coldness
from coldness.chains import (
    Bank,
    DataStart,
    GaussianNoise,
    InverseNormSteps,
    Source,
    StepAdaptation,
    UniformNoise,
    WeightedBank,
)
from coldness.configuration import construct, describe
from coldness.data import Augmentation, Compose, Flip, ResizedCrop
from coldness.doctor.temperature import temperature_lines
from coldness.energies import Coordinates, Energy, ScalarEnergy
from coldness.evaluation.chain_checks import ChainChecks
from coldness.kernels import MALA, GeometricSteps, Kernel, Langevin, StepSchedule
from coldness.nets import MLP
from coldness.training import build
from laws import generator
from small import measured, settings, trained, untrained

SHAPE = (1, 4, 5)
X_DATA = torch.rand(10, *SHAPE, generator=generator(1))


class Quadratic(Energy):
    """N(0, 1) for every pixel."""

    def energy(self, x: Tensor) -> Tensor:
        return x.flatten(1).square().sum(1) / 2


@dataclass(frozen=True)
class Shift(Augmentation):
    """Adds a number, and random noise of that size."""

    by: float = 1.0

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        return x + self.by * (1 + torch.rand(len(x), 1, 1, 1, generator=generator))


def by_hand(
    kernel: Kernel, x: Tensor, steps: list[int], g: torch.Generator, schedule: Tensor | None = None
) -> Tensor:
    """Rounds of a transition and so many steps each."""
    done = 0
    for count in steps:
        x = Shift()(x, g)
        (noise,) = kernel.draw(count, x, g)
        for k in range(count):
            h = kernel.step_size * (1.0 if schedule is None else float(schedule[done + k]))
            x = x - h * x + (2 * h) ** 0.5 * noise[k]
        done += count
    return x


# In training.


@pytest.mark.parametrize(("every", "rounds"), [(None, [7]), (3, [3, 3, 1]), (7, [7]), (9, [7])])
@pytest.mark.parametrize("schedule", [None, GeometricSteps(8.0, 0.5)], ids=["constant", "falling"])
def test_a_transition_comes_before_the_steps_and_between_them(
    every: int | None, rounds: list[int], schedule: StepSchedule | None
) -> None:
    """The same random numbers by hand; the step schedule runs over the whole chain."""
    kernel, given = Langevin(0.1), {} if schedule is None else {"step_schedule": schedule}
    source = Source(GaussianNoise(), kernel, 7, transition=Shift(), transition_every=every, **given)  # type: ignore[arg-type]
    chains = source.draw(Quadratic(), X_DATA, generator(2), tempering=1.0)
    g = generator(2)
    start = GaussianNoise().fresh(10, X_DATA, Coordinates(), g)
    x = by_hand(kernel, start, rounds, g, None if schedule is None else schedule.factors(7))
    torch.testing.assert_close(chains.x, x)


def test_a_bank_holds_chains_after_their_transition_and_counts_steps_alone() -> None:
    bank = Bank(30, UniformNoise(), refresh=0.5)
    bank.prepare(X_DATA, Coordinates(), generator(3))
    source = Source(bank, Langevin(1e-12), 4, transition=Shift(5.0), transition_every=2)
    chains = source.draw(Quadratic(), X_DATA, generator(4), tempering=1.0)
    # Chains in [-1, 1], refreshed or not, have moved by two numbers in [5, 10].
    assert float(chains.x.min()) > 9 - 1e-3
    changed = bank.x.flatten(1).amin(1) > 5
    assert int(changed.sum()) == 10
    assert bank.age[changed].tolist() == [4] * 10


def test_metrics_are_means_over_all_steps() -> None:
    """No noise to speak of: gradients are x, which a transition changes in between."""
    source = Source(DataStart(), Langevin(1e-12), 5, transition=Shift(), transition_every=3)
    energy, g = Quadratic(), generator(5)
    x_1 = Shift()(X_DATA, g)
    Langevin(1e-12).draw(3, x_1, g)
    x_2 = Shift()(x_1, g)
    norms = [x.flatten(1).norm(dim=1).mean() for x in (x_1, x_2)]
    found = source.draw(energy, X_DATA, generator(5), tempering=1.0)
    torch.testing.assert_close(found.gradient_norm, (3 * norms[0] + 2 * norms[1]) / 5)
    adjusted = replace(source, kernel=MALA(1e-12))
    chains = adjusted.draw(energy, X_DATA, generator(5), tempering=1.0)
    assert float(chains.acceptance) == pytest.approx(1.0, abs=1e-4)
    torch.testing.assert_close(chains.last, energy(chains.x))
    assert chains.first is not None
    assert chains.first.shape == (10,)


@pytest.mark.parametrize("adaptation", [StepAdaptation(), InverseNormSteps()])
def test_steps_are_adapted_in_spite_of_transitions(
    adaptation: StepAdaptation | InverseNormSteps,
) -> None:
    source = Source(DataStart(), MALA(0.1), 4, transition=Shift(), adaptation=adaptation)
    chains = source.draw(Quadratic(), X_DATA, generator(6), tempering=0.5)
    assert bool(chains.x.isfinite().all())
    assert float(adaptation.scale) != 1.0


def test_chains_that_are_run_in_parts_all_have_transitions() -> None:
    source = Source(DataStart(), Langevin(1e-12), 2, transition=Shift(5.0))
    chains = source.draw(Quadratic(), X_DATA, generator(7), tempering=1.0, at_once=4)
    moved = (chains.x - X_DATA).flatten(1)
    assert bool(((moved > 4.9) & (moved < 10.1)).all())
    assert moved[:, 0].unique().numel() == 10


@pytest.mark.filterwarnings("ignore")
def test_compiled_chains_with_transitions_equal_eager_ones() -> None:
    torch.manual_seed(0)
    energy = ScalarEnergy(MLP(20, (6,), "silu"), coldness=4.0)
    source = Source(DataStart(), Langevin(0.05), 4, transition=ResizedCrop(), transition_every=2)
    ends = [
        source.draw(energy, X_DATA, generator(8), tempering=0.7, compiled=compiled).x
        for compiled in (False, True)
    ]
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-4, atol=1e-5)


# In sampling.


def test_samples_repeat_what_training_did_for_as_many_steps_as_asked() -> None:
    kernel = Langevin(0.1)
    source = Source(Bank(5, GaussianNoise()), kernel, 3, transition=Shift())
    for steps, rounds in ((None, [3]), (3, [3]), (8, [3, 3, 2]), (2, [2]), (0, [])):
        found = source.sample(Quadratic(), X_DATA, 6, generator(9), steps=steps).x
        g = generator(9)
        x = by_hand(kernel, GaussianNoise().fresh(6, X_DATA, Coordinates(), g), rounds, g)
        torch.testing.assert_close(found, x)
    often = replace(source, transition_every=2)
    x = by_hand(kernel, X_DATA, [2, 2, 1], generator(10))
    torch.testing.assert_close(often.carry_on(Quadratic(), X_DATA, 5, generator(10)).x, x)


def test_settled_chains_have_no_transitions() -> None:
    """They are those that long-run checks of the density, R-hat and refinement are made of."""
    source = Source(GaussianNoise(), Langevin(0.1), 3, transition=Shift(100.0))
    plain = replace(source, transition=None)
    ends = [
        s.carry_on(Quadratic(), X_DATA, 9, generator(11), settled=True) for s in (source, plain)
    ]
    assert torch.equal(ends[0].x, ends[1].x)

    def checks(of: Source) -> ChainChecks:
        return ChainChecks(Quadratic(), of, X_DATA, generator(12), 1.0, compiled=False)

    assert float(checks(source).short(20, 3).x.min()) > 50
    ends = [checks(s).from_data(X_DATA, 30).x for s in (source, plain)]
    assert torch.equal(*ends)


def test_transitions_travel_with_the_sampler_and_the_saved_model(tmp_path: Path) -> None:
    flip = "{class_path: Flip, init_args: {p: 0.3}}"
    transition = f"{{class_path: Compose, init_args: {{parts: [ResizedCrop, {flip}]}}}}"
    s = settings(
        "digits",
        "--energy.net={class_path: MLP}",
        "--sampler.steps=4",
        "--sampler.transition_every=2",
        f"--sampler.transition={transition}",
        f"--sources.0.transition={transition}",
    )
    wanted = Compose([ResizedCrop(), Flip(0.3)])
    assert s.sampling.transition == s.sources[0].transition == wanted
    model = untrained(s)
    assert model.sampler is not None
    assert (model.sampler.transition, model.sampler.transition_every) == (wanted, 2)
    saved = coldness.load(model.save(tmp_path / "model"))
    assert saved.sampler is not None
    assert (saved.sampler.transition, saved.sampler.transition_every) == (wanted, 2)
    a, b = (m.sample(5, seed=0, steps=9) for m in (model, saved))
    assert (a == b).all()
    model.sampler.transition, model.sampler.transition_every = None, None
    assert not (model.sample(5, seed=0, steps=9) == a).all()


def test_sources_with_transitions_are_read_from_yaml_and_written() -> None:
    text = """
start: {class_path: Bank, init_args: {capacity: 10}}
kernel: {class_path: Langevin, init_args: {step_size: 2.0e-6, clamp: [-1, 1], clip_drift: 2.0e+4}}
steps: 60
transition:
  class_path: Compose
  init_args:
    parts:
      - {class_path: ResizedCrop, init_args: {scale: [0.08, 1], interpolation: bicubic}}
      - ColourJitter
      - {class_path: Grey, init_args: {p: 0.2}}
      - Flip
"""
    source = construct(Source, yaml.safe_load(text))
    assert isinstance(source.transition, Compose)
    assert [type(p).__name__ for p in source.transition.parts] == [
        "ResizedCrop", "ColourJitter", "Grey", "Flip",
    ]  # fmt: skip
    assert source.transition.parts[0] == ResizedCrop()
    again = construct(Source, yaml.safe_load(yaml.safe_dump(describe(source))))
    assert again.transition == source.transition
    source.check_examples((3, 32, 32))


def test_long_chains_make_steps_without_transitions() -> None:
    """At least as many as short ones make with them."""
    given = ["--energy.net={class_path: MLP}", "--sampler.steps=6", "--evaluation.ais=null"]
    moved = ["--sampler.transition=Affine"]
    for words, steps in ((given, 6), (given + moved, 12)):
        metrics, arrays = measured(settings("digits", *words, "--evaluation.samples=20"))
        assert (metrics["short_steps"], metrics["long_steps"]) == (6, steps)
        assert torch.equal(arrays["x_short"], arrays["x_long"]) == (steps == 6)


def test_transitions_are_named_before_a_run() -> None:
    s = settings("digits", "--sources.0.transition=Affine", "--sources.0.transition_every=2")
    lines = list(temperature_lines(s))
    assert "  Affine of chains before every 2 steps" in lines
    assert sum("of chains before" in line for line in lines) == 1


# What is refused.


def test_wrong_transitions_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="a weighted bank cannot have a transition"):
        Source(WeightedBank(Bank(8)), MALA(0.1), transition=Flip())
    with pytest.raises(ValueError, match="transition_every must be >= 1, got 0"):
        Source(DataStart(), MALA(0.1), transition=Flip(), transition_every=0)
    with pytest.raises(ValueError, match="transition_every needs a transition"):
        Source(DataStart(), MALA(0.1), transition_every=2)


def test_a_transition_that_does_not_fit_the_data_is_refused_before_training() -> None:
    for where in ("sources.0", "sampler"):
        given = [f"--{where}.transition=Flip"]
        if where == "sampler":
            given = ["--sampler={start: GaussianNoise, kernel: {class_path: MALA, init_args: "
                     "{step_size: 0.1}}, transition: Flip}"]  # fmt: skip
        with pytest.raises(ValueError, match=r"transition Flip needs images .* shape \(2,\)"):
            build(settings("mixture2d", *given))
    crop = "{class_path: CropFlip, init_args: {padding: 8}}"
    with pytest.raises(ValueError, match="padding must be smaller than the sides"):
        build(
            settings("digits", "--energy.net={class_path: MLP}", f"--sources.0.transition={crop}")
        )


def test_a_transition_must_keep_the_shape() -> None:
    @dataclass(frozen=True)
    class Half(Augmentation):
        def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
            return x[:, :, ::2, ::2]

    with pytest.raises(ValueError, match=r"Half changes the shape of examples from \(1, 4, 4\) to"):
        Source(DataStart(), MALA(0.1), transition=Half()).check_examples((1, 4, 4))


# Through a run.


def test_a_run_with_transitions_trains_and_differs_from_one_without(tmp_path: Path) -> None:
    small = ["--energy.net={class_path: MLP, init_args: {widths: [8]}}", "--iterations=3"]
    with_crops = trained(tmp_path / "a", "digits", *small, "--sources.0.transition=ResizedCrop")
    without = trained(tmp_path / "b", "digits", *small)
    banks = [t.settings.sources[0].start.state_dict()["x"] for t in (with_crops, without)]
    assert bool(banks[0].isfinite().all())
    assert not torch.equal(*banks)
