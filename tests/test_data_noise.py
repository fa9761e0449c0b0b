"""Noise on data: its size, its coordinates, and how it follows the step of a source."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from coldness.chains import (
    GaussianNoise,
    InverseNormSteps,
    Source,
    StepAdaptation,
    StepNoise,
)
from coldness.cli.doctor import warning_lines
from coldness.kernels import HMC, GeometricSteps, Langevin
from coldness.schedules import Linear
from coldness.training import build
from coldness.training.recipe import RecipeError, find
from small import read, settings


def test_the_largest_and_the_final_step_are_kernel_times_scale_times_schedule() -> None:
    source = Source(
        GaussianNoise(),
        Langevin(0.02),
        steps=5,
        step_schedule=GeometricSteps(4.0, 0.5),
        step_scale=Linear(1.0, 0.25),
    )
    assert source.largest_step(0, 11) == pytest.approx(0.02 * 4, rel=1e-12)
    assert source.largest_step(10, 11) == pytest.approx(0.02 * 4 / 4, rel=1e-12)
    assert source.final_step(0, 11) == pytest.approx(0.02 * 0.5, rel=1e-12)
    assert StepNoise(2.0).at([source], 0, 11) == pytest.approx(2 * math.sqrt(0.02), rel=1e-12)
    rising = Source(GaussianNoise(), Langevin(0.02), steps=5, step_schedule=GeometricSteps(1, 3))
    assert rising.largest_step(0, 1) == pytest.approx(0.06, rel=1e-12)
    leapfrog = Source(GaussianNoise(), HMC(0.3), steps=0, step_scale=2.0)
    assert leapfrog.largest_step(0, 1) == pytest.approx(0.6**2 / 2, rel=1e-12)


def test_step_noise_is_a_multiple_of_the_noise_of_a_step() -> None:
    """For HMC the noise of a step is the leapfrog step itself."""
    sources = [
        Source(GaussianNoise(), Langevin(0.02), step_scale=Linear(1.0, 0.25)),
        Source(GaussianNoise(), HMC(0.3)),
    ]
    assert StepNoise().at(sources, 0, 11) == pytest.approx(1.5 * math.sqrt(0.04), rel=1e-12)
    assert StepNoise().at(sources, 10, 11) == pytest.approx(1.5 * math.sqrt(0.01), rel=1e-12)
    assert StepNoise(2.0, 1).at(sources, 10, 11) == pytest.approx(0.6, rel=1e-12)


WORDS = ["--sources.0.step_scale={class_path: Linear, init_args: {start: 1, end: 0.25}}"]


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        (["--data_noise=0.3"], 0.3, 0.3),
        (["--data_noise=Linear", "--data_noise.start=0.4", "--data_noise.end=0.1"], 0.4, 0.1),
        (["--data_noise=StepNoise", "--data_noise.factor=2", *WORDS], 0.1, 0.05),
        ([], 0.0, 0.0),
    ],
)
def test_settings_give_the_noise_at_every_iteration(
    words: list[str], first: float, last: float
) -> None:
    """The recipe's step has noise 0.05."""
    given = settings("mixture2d", *words)
    assert given.data_noise_at(0) == pytest.approx(first, rel=1e-9)
    assert given.data_noise_at(39) == pytest.approx(last, rel=1e-9)


@pytest.mark.parametrize("kind", ["none", "diagonal", "full"])
@pytest.mark.parametrize("noise", [["--data_noise=0.3"], ["--data_noise=StepNoise", *WORDS]])
def test_data_gets_noise_in_the_coordinates_that_kernels_move_in(
    kind: str, noise: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--data.radius=3", "--data.std=0.5", f"--preconditioner={kind}", *noise]
    training = build(settings("mixture2d", *words))
    seen = []
    draw = Source.draw

    def recorded(self: Source, energy: Any, x_data: torch.Tensor, *a: Any, **k: Any) -> Any:
        seen.append(x_data)
        return draw(self, energy, x_data, *a, **k)

    monkeypatch.setattr(Source, "draw", recorded)
    at = training.energy.coordinates
    assert at.kind == kind
    for t in range(3):
        of_data = torch.Generator()
        of_data.set_state(training.data_generator.get_state())
        of_noise = torch.Generator()
        of_noise.set_state(training.chain_generator.get_state())
        training.iterate()
        x = training.settings.data.sample(16, of_data)
        sd = 1.5 * 0.05 * math.sqrt(1 - 0.75 * t / 39) if "StepNoise" in noise[0] else 0.3
        xi = torch.empty_like(x).normal_(generator=of_noise)
        torch.testing.assert_close(at.whiten(seen[t]), at.whiten(x) + sd * xi)
        assert kind == "none" or not torch.allclose(seen[t], x + sd * xi, atol=1e-3)


def test_step_noise_from_a_recipe(tmp_path: Path) -> None:
    text = find("mixture2d").read_text()
    path = tmp_path / "noisy.yaml"
    for line in (
        "data_noise: {class_path: StepNoise, init_args: {factor: 2.0}}",
        "data_noise: {factor: 2.0}",
    ):
        path.write_text(f"{text}\n{line}\n")
        resolved = read(path)
        assert resolved.parts().data_noise == StepNoise(2.0, 0)
        again = tmp_path / "again.yaml"
        again.write_text(resolved.text)
        assert read(again).text == resolved.text
    path.write_text(f"{text}\ndata_noise: StepNoise\n")
    assert read(path).parts().data_noise == StepNoise()
    over = read(path, "--data_noise.factor=3").parts()
    assert over.data_noise == StepNoise(3.0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--data_noise.factor=0"], "factor of data_noise must be > 0"),
        (["--data_noise.factor=-1"], "factor of data_noise must be > 0"),
        (["--data_noise.source=1"], "from 0, got 1 with 1 sources"),
        (["--data_noise.source=-1"], "from 0, got -1"),
        (["--sources.0.adaptation={target: 0.5}"], "source 0, which is adapted"),
        (["--sources.0.adaptation=InverseNormSteps"], "source 0, which is adapted"),
    ],
)
def test_noise_without_a_step_to_follow_is_refused(words: list[str], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        settings("mixture2d", "--data_noise=StepNoise", *words)


def test_another_source_may_be_adapted() -> None:
    for adaptation in (StepAdaptation(), InverseNormSteps()):
        adapted = Source(GaussianNoise(), Langevin(0.1), adaptation=adaptation)
        plain = Source(GaussianNoise(), Langevin(0.02))
        StepNoise(source=1).check([adapted, plain])


@pytest.mark.parametrize(("factor", "warned"), [(0.1, True), (1.5, False)])
def test_enough_noise_on_data_silences_the_doctor(factor: float, warned: bool) -> None:
    """Rings are narrower (0.01) than the noise of a step (0.045)."""
    words = ["--data_noise=StepNoise", f"--data_noise.factor={factor}"]
    words.append("--sources.0.kernel.step_size=0.001")
    lines = list(warning_lines(settings("rings10d-data", *words)))
    assert any("exceeds the narrowest scale of the data" in line for line in lines) is warned
