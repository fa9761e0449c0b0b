"""Steps divided by a norm on the data: exact steps, saved, never masked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from coldness.chains import (
    Adaptation,
    DataStart,
    GaussianNoise,
    InverseNormSteps,
    Source,
    StepAdaptation,
)
from coldness.cli.doctor import temperature_lines, warning_lines
from coldness.energies import Gaussian, ScalarEnergy
from coldness.guard import Diverged
from coldness.kernels import MALA, GeometricSteps, Kernel, Langevin, run
from coldness.nets import MLP
from coldness.runs.folder import RunFolder
from coldness.runs.log import read_metrics
from coldness.training import build, fit
from coldness.training.recipe import find
from coldness.training.result import model_of
from laws import coordinates, generator, normal
from small import QUICK, read, same, settings, trained, weights

STD, COLDNESS, RADIUS, STEP = 0.5, 5.0, 0.8, 0.01

NORMS = {"gradient": RADIUS / STD**2, "energy": RADIUS**2 / (2 * STD**2)}
"""Of E = |x|^2 / (2 s^2) on a circle."""


def energy() -> Gaussian:
    return Gaussian([0.0, 0.0], [[STD**2, 0.0], [0.0, STD**2]], COLDNESS)


def circle(count: int = 9) -> torch.Tensor:
    angle = torch.arange(count, dtype=torch.float64)
    return RADIUS * torch.stack([angle.cos(), angle.sin()], 1)


def inverse(source: Source) -> Adaptation:
    assert source.adaptation is not None
    return source.adaptation


@pytest.mark.parametrize("of", NORMS)
@pytest.mark.parametrize("tempering", [1.0, 0.25, 0.0])
@pytest.mark.parametrize("kernel", [Langevin(STEP), MALA(STEP)])
def test_chains_run_with_the_step_over_the_norm(of: Any, tempering: float, kernel: Kernel) -> None:
    """E is without coldness, and tempering changes nothing of the step."""
    schedule = GeometricSteps(2.0, 0.5)
    source = Source(
        DataStart(), kernel, steps=3, step_schedule=schedule, adaptation=InverseNormSteps(of)
    )
    x = circle()
    chains = source.draw(energy(), x, generator(1), tempering=tempering, step_scale=1.5)
    assert float(inverse(source).scale) == pytest.approx(1 / NORMS[of], rel=1e-12)
    h = torch.tensor(1.5 * STEP / NORMS[of], dtype=torch.float64)
    expected = run(
        kernel, energy(), x, steps=3, generator=generator(1), tempering=tempering, step_size=h,
        schedule=schedule,
    )  # fmt: skip
    torch.testing.assert_close(chains.x, expected.x, rtol=1e-12, atol=1e-14)
    assert float(source.metrics()["step_scale"]) == pytest.approx(1 / NORMS[of], rel=1e-12)


def test_the_norm_is_a_mean_of_norms_over_the_batch() -> None:
    adaptation = InverseNormSteps()
    adaptation.before(energy(), torch.cat([circle(1), -3 * circle(1)]))
    assert float(adaptation.scale) == pytest.approx(1 / (2 * NORMS["gradient"]), rel=1e-12)
    adaptation.before(energy(), circle(1))  # not remembered
    assert float(adaptation.scale) == pytest.approx(1 / NORMS["gradient"], rel=1e-12)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_gradients_are_those_that_kernels_follow(kind: str) -> None:
    model = energy()
    model.coordinates = coordinates(kind)
    adaptation = InverseNormSteps()
    x = normal(9, 2)
    adaptation.before(model, x)
    n = model.coordinates.pull(x / STD**2).norm(dim=1).mean()
    assert float(adaptation.scale) == pytest.approx(1 / float(n), rel=1e-12)


def test_the_step_stays_in_its_range() -> None:
    adaptation = InverseNormSteps(range=10.0)
    for size, scale in ((1e-9, 10.0), (1e9, 0.1), (0.0, 10.0)):
        adaptation.before(energy(), size * circle())
        assert float(adaptation.scale) == pytest.approx(scale, rel=1e-12)


@pytest.mark.parametrize("of", NORMS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_is_not_masked(of: Any, bad: float) -> None:
    adaptation = InverseNormSteps(of, range=10.0)
    x = circle()
    x[3, 0] = bad
    adaptation.before(energy(), x)
    assert math.isnan(float(adaptation.scale))


def test_a_step_that_is_not_a_number_reaches_the_guard(tmp_path: Path) -> None:
    adapted, broken = "--sources.0.adaptation=InverseNormSteps", "--optimiser.lr=1e30"
    words = [adapted, broken, "--guard.policy=stop"]
    with pytest.raises(Diverged, match="became NaN or infinite"):
        fit(build(settings("mixture2d", *words)), tmp_path)
    scales = read_metrics(tmp_path / "metrics.csv")["step_scale"]
    assert math.isfinite(scales[0])
    assert any(math.isnan(scale) for scale in scales)


@pytest.mark.parametrize("of", NORMS)
def test_the_norm_takes_one_evaluation_and_leaves_the_network_as_it_was(of: Any) -> None:
    model = ScalarEnergy(MLP(2, (8,)), 5.0)
    model.train()
    modes = []
    model.net.register_forward_hook(lambda *_: modes.append(model.net.training))
    adaptation = InverseNormSteps(of)
    adaptation.before(model, torch.ones(3, 2))
    assert modes == [False]
    assert not adaptation.log_scale.requires_grad
    assert all(m.training for m in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    modes.clear()
    Source(DataStart(), Langevin(0.01), steps=3, adaptation=InverseNormSteps(of)).draw(
        model, torch.ones(3, 2), generator(2), tempering=1.0
    )
    assert len(modes) == 3 + 1


@pytest.mark.parametrize(
    "kernel",
    [
        Langevin(0.1, clamp=(-1.0, 1.0)),
        Langevin(0.1, clip_gradient=1.0),
        Langevin(0.1, clip_drift=1.0),
        MALA(0.1),
    ],
)
def test_no_acceptance_is_needed(kernel: Kernel) -> None:
    """Unlike for a step that follows one."""
    schedule = GeometricSteps(2.0)
    Source(GaussianNoise(), kernel, step_schedule=schedule, adaptation=InverseNormSteps())
    with pytest.raises(ValueError, match="schedule"):
        Source(GaussianNoise(), kernel, step_schedule=schedule, adaptation=StepAdaptation())
    if not kernel.adjusted:
        with pytest.raises(ValueError, match="no acceptance"):
            Source(GaussianNoise(), kernel, adaptation=StepAdaptation())


@pytest.mark.parametrize("bad", [{"of": "norm"}, {"range": 1.0}, {"range": math.nan}])
def test_bad_arguments_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        InverseNormSteps(**bad)


INVERSE = ["--sources.0.adaptation={class_path: InverseNormSteps, init_args: {of: energy}}"]


def test_a_run_resumes_bit_for_bit() -> None:
    whole, first, second = (build(settings("mixture2d", *INVERSE)) for _ in range(3))
    for _ in range(10):
        whole.iterate()
    for _ in range(5):
        first.iterate()
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        second.iterate()
    assert same(whole.state_dict()["sources"], second.state_dict()["sources"])
    assert same(weights(whole), weights(second))
    assert float(weights(whole)["sampler.step.log_scale"]) != 0


def test_sampling_uses_the_last_step_which_is_saved_with_the_model(tmp_path: Path) -> None:
    training = trained(tmp_path / "a", "mixture2d", *INVERSE)
    folder = RunFolder(tmp_path / "a")
    quick = [*QUICK, "--iterations=40", "--batch_size=16", "--sources.0.steps=3"]
    folder.save_config(read("mixture2d", *quick, *INVERSE).text, "mixture2d", "")
    folder.save_model(model_of(training))
    loaded = folder.load()
    source, ours = loaded.sampler, training.settings.sources[0]
    assert source is not None
    assert torch.equal(inverse(source).log_scale, inverse(ours).log_scale)
    x = torch.zeros(1, 2)
    ends = source.sample(loaded.energy, x, 4, generator(3)).x
    start = source.start.fresh(4, x, loaded.energy.coordinates, generator(3))
    g = generator(3)
    source.start.fresh(4, x, loaded.energy.coordinates, g)
    h = source.kernel.step_size * inverse(ours).scale
    expected = run(source.kernel, loaded.energy, start, steps=3, generator=g, step_size=h)
    torch.testing.assert_close(ends, expected.x)


def test_adaptations_from_a_recipe(tmp_path: Path) -> None:
    text = find("mixture2d").read_text()
    assert text.count("    steps: 20\n") == 1
    for given, expected in (
        ("InverseNormSteps", InverseNormSteps()),
        ("{class_path: InverseNormSteps, init_args: {of: energy}}", InverseNormSteps("energy")),
        ("{target: 0.4}", StepAdaptation(0.4)),
        ("{target: 0.4, rate: 0.1, range: 50}", StepAdaptation(0.4, 0.1, 50.0)),
        ("StepAdaptation", StepAdaptation()),
        ("{class_path: StepAdaptation, init_args: {target: 0.4}}", StepAdaptation(0.4)),
    ):
        path, again = tmp_path / "a.yaml", tmp_path / "b.yaml"
        path.write_text(
            text.replace("    steps: 20\n", f"    steps: 20\n    adaptation: {given}\n")
        )
        resolved = read(path)
        assert repr(resolved.parts().sources[0].adaptation) == repr(expected)
        again.write_text(resolved.text)
        assert read(again).text == resolved.text


def test_the_doctor_says_what_happens_to_the_step() -> None:
    """And does not compare a noise that is not known yet with the data."""
    adapted = settings("mixture2d", "--sources.0.adaptation={target: 0.4}")
    lines = "\n".join(temperature_lines(adapted))
    assert "adapted during training to an acceptance of 0.4" in lines
    assert "narrowest local scale" in lines
    for of, norm in (("gradient", "|dE|"), ("energy", "|E|")):
        word = f"{{class_path: InverseNormSteps, init_args: {{of: {of}}}}}"
        given = settings("rings10d-data", "--sampler=null", f"--sources.0.adaptation={word}")
        lines = "\n".join(temperature_lines(given))
        assert f"divided at every iteration by the mean {norm} on the data" in lines
        assert "narrowest" not in lines
        assert not list(warning_lines(given))
