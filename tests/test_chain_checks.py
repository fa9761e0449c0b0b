"""Checks of chains against laws that are known."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from coldness.chains import GaussianNoise, Source
from coldness.diagnostics.convergence import change, shift, state
from coldness.diagnostics.mixing import mixing
from coldness.energies import Energy, Gaussian, GaussianMixture
from coldness.evaluation.chain_checks import MIXING_DRAWS, TARGET, ChainChecks
from coldness.kernels import HMC, GeometricSteps, Kernel, Langevin
from coldness.report.chains import CURVES, with_floor
from coldness.report.figures import LIGHT
from coldness.runs.folder import RunFolder
from coldness.training.recipe import RecipeError, find
from coldness.trust import verdict_on
from laws import assert_normal_law, generator, normal
from small import measured, read, settings


class Flat(Energy):
    """No force: chains are random walks."""

    def energy(self, x: Tensor) -> Tensor:
        return 0 * x.sum(1)


def checks(energy: Energy, kernel: Kernel, x_data: Tensor, **source: object) -> ChainChecks:
    of = Source(start=GaussianNoise(std=2.0), kernel=kernel, **source)  # type: ignore[arg-type]
    return ChainChecks(energy, of, x_data, generator(), step_scale=1.0, compiled=False)


def standard() -> Energy:
    return Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])


def test_chains_carried_on_make_steps_of_the_schedules_end() -> None:
    h, steps = 0.02, 30
    of = checks(
        Flat(), Langevin(h), normal(4, 2), steps=10, step_schedule=GeometricSteps(50.0, 0.5)
    )
    start = torch.zeros(4000, 2, dtype=torch.float64)
    moved = of.source.carry_on(of.energy, start, steps, generator(1), settled=True).x
    assert_normal_law(moved.flatten(), 0.0, 2 * steps * 0.5 * h)
    schedule = of.source.carry_on(of.energy, start, 10, generator(2)).x
    factors = float(GeometricSteps(50.0, 0.5).factors(10).sum())
    assert_normal_law(schedule.flatten(), 0.0, 2 * h * factors)


def test_long_chains_of_the_right_model_converge_and_say_how_far_they_came() -> None:
    of = checks(standard(), Langevin(0.05), normal(2000, 2, seed=3))
    short = of.short(2000, 5)
    long = of.onwards(short, 400, lambda step: None)
    assert short.steps == [0, 5]
    assert long.steps == [0, 5, 25, 65, 145, 305, 400]
    assert long.distance[0] > 20 * long.distance[-1]
    u_data = standard()(of.reference)
    moved = shift(standard()(long.x), u_data)
    drifted = change(long.steps, [float(u[1]) for u in long.u], u_data)
    assert state(moved, drifted) == "converged"
    # The potential of N(0, I) in the plane is exponential: quantiles are -log(1 - q).
    for value, q in zip(long.u[-1].tolist(), (0.1, 0.5, 0.9), strict=True):
        error = math.sqrt(q * (1 - q) / 2000) / (1 - q)
        assert value == pytest.approx(-math.log(1 - q), abs=5 * error + 0.05)  # 0.05: bias of h


def test_a_model_that_is_too_narrow_is_oversaturated() -> None:
    narrow = Gaussian([0.0, 0.0], [[0.1, 0.0], [0.0, 0.1]])
    of = checks(narrow, Langevin(0.01), normal(500, 2))
    long = of.onwards(of.short(500, 5), 600, lambda step: None)
    assert state(shift(narrow(long.x), narrow(of.reference)), 0.0) == "oversaturated"


def test_states_at_their_limits() -> None:
    assert state(0.49, -0.24) == "converged"
    assert state(0.0, 0.26) == "drifting"
    assert state(0.51, 0.0) == "drifting"
    assert state(-0.51, 0.0) == "oversaturated"
    assert state(math.nan, 0.0) == "drifting"


def test_adjusted_chains_reach_the_target_acceptance_and_the_law() -> None:
    of = checks(standard(), Langevin(0.001), normal(1000, 2))
    trail, figures = of.adjusted(of.short(1000, 5), 200)
    assert figures["mala_acceptance"] == pytest.approx(TARGET, abs=0.05)
    assert figures["mala_step"] > 0.1
    assert_normal_law(trail.x.flatten(), 0.0, 1.0)


@pytest.mark.parametrize("kernel", [Langevin(1e-4), HMC(0.01, leapfrog_steps=2)])
def test_small_steps_are_accepted_and_large_ones_are_not(kernel: Langevin | HMC) -> None:
    x = normal(500, 2)
    small = checks(standard(), kernel, x)
    assert small.acceptance(small.short(500, 20)) > 0.999
    large = checks(standard(), Langevin(1.5), x)
    assert large.acceptance(large.from_data(normal(500, 2, seed=4), 20)) < 0.6


def test_chains_that_leave_the_finite_numbers_are_counted() -> None:
    of = checks(standard(), Langevin(5.0), normal(100, 2).float())
    of.energy = standard().float()
    lost = of.onwards(of.short(100, 5), 2000, lambda step: None)
    assert lost.lost == 100
    assert math.isnan(lost.distance[-1])
    assert lost.steps[-1] < 2000


def test_evaluation_draws_with_the_sampler_where_there_is_one() -> None:
    sampler = "{start: {class_path: GaussianNoise, init_args: {std: 3.0}}, "
    sampler += "kernel: {class_path: Langevin, init_args: {step_size: 0.001}}, steps: 7}"
    s = settings("mixture2d", f"--sampler={sampler}")
    assert s.sampling.steps == 7
    figures, arrays = measured(s)
    assert figures["short_steps"] == 7
    assert float(arrays["x_short"].std()) > 2.0
    plain = settings("mixture2d")
    assert plain.sampling is plain.sources[0]
    assert "u_drift" not in figures  # long-run chains have no steps beyond the short ones
    assert {"u_shift", "acceptance", "mala_acceptance"} <= figures.keys()
    assert {"trail_long_u", "trail_data_distance", "x_from_data", "u_long"} <= arrays.keys()


def test_the_figure_of_potentials_has_short_run_chains() -> None:
    """Three histograms: data, long-run and short-run chains (beta paper, Fig. 13)."""
    s = settings("mixture2d")
    figures, arrays = measured(s)
    u_short = s.energy(arrays["x_short"])
    torch.testing.assert_close(arrays["u_short"].float(), u_short.detach(), rtol=1e-4, atol=1e-3)
    columns = with_floor({key: value.numpy() for key, value in arrays.items()}, figures)
    axes = Figure().subplots()
    CURVES["histograms"].draw(axes, [columns], LIGHT)
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["data", "long-run chains", "short-run chains"]


@pytest.mark.parametrize(
    ("start", "more", "says"),
    [
        ("DataStart", "adaptation: {target: 0.5}", "adaptation would have no effect"),
        ("DataStart", "weight: 2.0", "weight would have no effect"),
        ("DataStart", "beta: 0.5", "beta would have no effect"),
        ("DataStart", "conditional: true", "conditional would have no effect"),
        ("{class_path: Bank, init_args: {capacity: 9}}", "steps: 3", "a bank as its start"),
    ],
)
def test_what_would_do_nothing_in_a_sampler_is_refused(start: str, more: str, says: str) -> None:
    kernel = "{class_path: MALA, init_args: {step_size: 0.1}}"
    with pytest.raises(RecipeError, match=says):
        settings("mixture2d", f"--sampler={{start: {start}, kernel: {kernel}, {more}}}")


def test_a_sampler_takes_its_step_from_the_temperature() -> None:
    sampler = "{start: GaussianNoise, kernel: Langevin, steps: 7}"
    text = find("mixture2d").read_text() + f"sampler: {sampler}\n"
    path = Path(tempfile.mkdtemp()) / "own.yaml"
    path.write_text(text)
    assert read(path).parts().sampling.kernel.step_size == 0.00125


def test_figures_that_are_not_finite_are_kept_as_they_are(tmp_path: Path) -> None:
    """Of a network that is the same everywhere: there is no spread to divide by."""
    flat = settings("mixture2d")
    for parameter in flat.energy.parameters():
        parameter.data.zero_()
    figures, arrays = measured(flat)
    assert not math.isfinite(figures["u_drift"])
    folder = RunFolder(tmp_path)
    folder.save_evaluation(figures, arrays)
    assert folder.metrics() == pytest.approx(figures, nan_ok=True)
    assert json.loads((tmp_path / "metrics.json").read_text())["u_drift"] in ("nan", "inf", "-inf")


def test_chains_whose_potential_is_not_finite_are_lost() -> None:
    words = ["--energy.reference_std=1", "--sources.0.kernel.step_size=8", "--sources.0.steps=30"]
    figures, _ = measured(settings("mixture2d", *words))
    assert figures["lost_chains_short"] == 50
    assert "mala_step" not in figures
    assert verdict_on(figures).answers["generation"].grade == "no"


def test_clamped_chains_have_no_acceptance() -> None:
    assert not Langevin(0.1, clamp=(-1.0, 1.0)).has_twin
    figures, _ = measured(settings("mixture2d", "--sources.0.kernel.clamp=[-2, 2]"))
    assert "acceptance" not in figures
    assert "mala_acceptance" in figures


def test_in_more_dimensions_there_are_slices_and_brackets() -> None:
    figures, arrays = measured(settings("rings10d"))
    assert {"slice_tv", "slice_kl", "kl", "kl_low", "kl_high"} <= figures.keys()
    assert figures["kl_low"] <= figures["kl"] <= figures["kl_high"]
    area = float(arrays["slice_side"][1] - arrays["slice_side"][0]) ** 2
    assert float(arrays["slice_log_p_model"].exp().sum()) * area == pytest.approx(1.0)
    assert float(arrays["slice_log_p_data"].exp().sum()) * area == pytest.approx(1.0, abs=0.05)


def test_chains_that_go_everywhere_mix() -> None:
    """Langevin on N(0, I) is autoregressive: draws k steps apart are correlated by a^k."""
    h, apart = 0.05, 10
    of = checks(standard(), Langevin(h), normal(1000, 2))
    start = of.from_data(normal(100, 2, seed=4), 1)
    figures = of.mixing(start, apart * MIXING_DRAWS)
    rho = (1 - h) ** apart
    # U is a square: correlated by rho^2, so the coordinates are the worst.
    assert figures["chain_ess"] == pytest.approx((1 - rho) / (1 + rho), rel=0.2)
    # Means of half chains of n draws spread by t / n, their draws by 1 - t / n.
    n, t = MIXING_DRAWS / 2, (1 + rho) / (1 - rho)
    expected = math.sqrt((n - 1) / n + t / n / (1 - t / n))
    assert figures["rhat"] == pytest.approx(expected, abs=0.02)


def test_chains_in_wells_of_their_own_do_not_mix() -> None:
    """Two modes 10 standard deviations apart, seen in the coordinate and not in the potential."""
    modes = GaussianMixture([[-5.0, 0.0], [5.0, 0.0]], std=1.0)
    of = checks(modes, Langevin(0.05), normal(1000, 2))
    starts = normal(100, 2, seed=4)
    starts[::2, 0] += 5
    starts[1::2, 0] -= 5
    assert of.mixing(of.from_data(starts, 1), 500)["rhat"] > 1.5


def test_effective_sample_size_of_autoregressive_draws() -> None:
    rng, rho = np.random.default_rng(0), 0.6
    draws = np.zeros((2, 50, 400))
    draws[..., 0] = rng.normal(size=(2, 50))
    for t in range(1, 400):
        step = rng.normal(size=(2, 50))
        draws[..., t] = rho * draws[..., t - 1] + math.sqrt(1 - rho**2) * step
    found = mixing(draws)
    assert found.ess == pytest.approx((1 - rho) / (1 + rho), rel=0.1)
    assert found.rhat < 1.01
    draws[1, 0, 0] = math.nan  # one number that is not finite is not hidden by the rest
    assert math.isnan(mixing(draws).rhat)
    with pytest.raises(ValueError, match="draws must be"):
        mixing(draws[:, :1])
