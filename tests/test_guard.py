"""The guard: what it sees, what it does, and that nothing of it is lost or hidden."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from coldness.chains import Bank, GaussianNoise, LikeData, Source
from coldness.diagnostics.cusum import Cusum
from coldness.diagnostics.onset import onset
from coldness.energies import Coordinates
from coldness.faults import LostStart, PoisonedBank
from coldness.guard import Diverged, Guard
from coldness.guard.remedies import (
    LargerBeta,
    MoreSteps,
    NearerStart,
    NewSeed,
    NoisyData,
    Relief,
    Remedy,
    SmallerRate,
    SmallerSteps,
    Treated,
    default_ladder,
)
from coldness.guard.watch import EFFECT, RECENT, Alarm, Watch
from coldness.kernels import HMC, Langevin
from coldness.limits import largest_beta
from coldness.runs.events import EventLog, read_lines
from coldness.runs.log import read_metrics
from coldness.training import build, fit
from coldness.training.fit import guard_of
from small import same, saved_state, settings, trained, weights

# The running law.


def noise(count: int, seed: int = 0) -> list[float]:
    return list(np.random.default_rng(seed).normal(size=count))


@pytest.mark.parametrize("seed", range(5))
def test_noise_raises_no_alarm(seed: int) -> None:
    law = Cusum()
    assert all(law.push(noise(10, 1000 * seed + k)) is None for k in range(600))


def test_a_wild_value_raises_no_alarm_and_several_do() -> None:
    law = Cusum()
    law.push(noise(300))
    assert law.push([1e6]) is None
    law.push(noise(20, 1))
    assert law.push(10 * [1e6]) == 4  # each counts 8 - 3, the limit is 20


def test_the_change_is_dated() -> None:
    law = Cusum()
    law.push(noise(300))
    k = law.push([*noise(7, 1), *(6 + v for v in noise(20, 2))])
    assert k is not None
    assert 7 <= k < 20
    assert abs((k - law.run + 1) - 7) <= 1


def test_slow_learning_is_no_change_and_the_same_in_a_tenth_of_the_time_is_one() -> None:
    """A figure that moves by 20 standard deviations."""
    slow, fast = Cusum(), Cusum()
    wobble = np.asarray(noise(4000))
    drift = np.linspace(0, 20, 4000)
    assert all(slow.push(list((drift + wobble)[k : k + 10])) is None for k in range(0, 4000, 10))
    fast.push(noise(300))
    steep = [fast.push(list((drift[::40] + wobble[:100])[k : k + 10])) for k in range(0, 100, 10)]
    assert any(k is not None for k in steep)


def test_a_law_needs_enough_values() -> None:
    law = Cusum()
    law.push(noise(149))
    assert law.law() is None
    assert law.push(10 * [1e6]) is None
    middle, spread = Cusum(values=[*noise(550, 3)]).law() or (math.nan, math.nan)
    assert abs(middle) < 0.2
    assert abs(spread - 1) < 0.2


# What is seen.


def rows(count: int, first: int = 0, seed: int = 0, **figures: Any) -> list[dict[str, float]]:
    """Of a healthy run with a gap of about 5 nats; figures replace columns."""
    rng = np.random.default_rng(seed)
    return [
        {
            "iteration": float(first + k),
            "d": -5 + rng.normal(),
            "r": float(np.exp(0.1 * rng.normal())),
            "parameter_gradient": float(np.exp(0.3 * rng.normal())),
            "grad_scale": 0.9,
            **{name: v(first + k) if callable(v) else v for name, v in figures.items()},
        }
        for k in range(count)
    ]


def watched(
    all_rows: list[dict[str, float]], dimension: int = 2, taught: bool = False
) -> Alarm | None:
    watch = Watch(dimension, taught=taught)
    for k in range(0, len(all_rows), 10):
        watch.add(all_rows[k : k + 10])
        alarm = watch.look()
        if alarm is not None:
            return alarm
    return None


def test_a_healthy_run_raises_no_alarm() -> None:
    assert watched(rows(3000)) is None


@pytest.mark.parametrize(
    ("cause", "figures"),
    [
        ("gap", {"d": lambda t: -5.0 * math.exp(max(0, t - 400) / 5)}),
        ("gap", {"d": lambda t: 5.0 if t < 400 else 5e4}),
        ("gradient", {"parameter_gradient": lambda t: 1.0 if t < 400 else 1e6}),
        ("gradient", {"r": lambda t: 1.0 if t < 400 else 1e6}),
        ("starvation", {"grad_scale": lambda t: 0.9 if t < 400 else 1e-5}),
        ("saturation", {"bank_outside": lambda t: 0.0 if t < 400 else 0.5}),
        ("not_finite", {"u_data_std": lambda t: 1.0 if t < 400 else math.nan}),
        ("gap", {"d_1": lambda t: 1.0 if t < 400 else -1e5}),
    ],
)
def test_every_cause_is_seen_soon_and_dated(cause: str, figures: dict[str, Any]) -> None:
    alarm = watched(rows(600, **figures))
    assert alarm is not None
    assert alarm.cause == cause
    assert 400 <= alarm.iteration <= 440
    assert 380 <= alarm.since <= alarm.iteration
    assert str(alarm.since) in alarm.text


def test_a_gap_that_runs_away_is_seen_before_there_is_a_law() -> None:
    fast = watched(rows(140, d=lambda t: -math.exp(t / 10)))
    assert fast is not None
    assert fast.cause == "gap"
    assert fast.iteration < 100
    slow = watched(rows(400, d=lambda t: -50 * math.exp(t / 100)))
    assert slow is not None
    assert slow.cause == "gap"
    assert slow.iteration < 200


def test_a_gap_that_falls_from_a_bad_start_is_none() -> None:
    assert watched(rows(400, d=lambda t: -3000 * math.exp(-t / 60) - 1)) is None


def test_a_gap_has_the_size_of_the_data() -> None:
    """What runs away in two dimensions is a beginning in two thousand."""
    growing = rows(60, d=lambda t: -math.exp(t / 10))
    assert watched(growing) is not None
    assert watched(growing, dimension=2000) is None


def test_one_competitive_negative_in_a_while_is_enough() -> None:
    assert watched(rows(600, grad_scale=lambda t: 0.5 if t % RECENT == 3 else 0.0)) is None


def test_where_labels_teach_too_starvation_is_seen_by_its_effect() -> None:
    """No negative competes for 100 iterations, and the gap does not close."""
    starved = rows(900, grad_scale=lambda t: 0.9 if t < 400 else 1e-5)
    alarm = watched(starved, taught=True)
    assert alarm is not None
    assert (alarm.cause, alarm.since) == ("starvation", alarm.iteration - EFFECT + 1)
    assert 400 + EFFECT - 2 <= alarm.iteration <= 400 + EFFECT + 10


def test_negatives_that_fall_behind_for_a_while_are_no_starvation_where_labels_teach() -> None:
    behind = rows(900, grad_scale=lambda t: 1e-5 if 400 <= t < 480 else 0.9)
    assert watched(behind, taught=True) is None
    assert watched(behind) is not None
    closing = rows(
        700,
        grad_scale=lambda t: 0.9 if t < 400 else 1e-5,
        d=lambda t: -25.0 * math.exp(-max(0, t - 400) / 150),
    )
    assert watched(closing, taught=True) is None


def test_a_watch_goes_on_where_it_stopped() -> None:
    """Also with rows that it has not looked at."""
    series = rows(600, d=lambda t: -5.0 - 0.1 * (t % 7) if t < 480 else -5.0 * 1.3 ** (t - 480))
    whole, half = Watch(2), Watch(2)
    seen = []
    for k, row in enumerate(series):
        whole.add([row])
        half.add([row])
        if k == 483:
            state = json.loads(json.dumps(half.state_dict()))
            half = Watch(2)
            half.load_state_dict(state)
        if k % 10 == 9:
            seen.append((whole.look(), half.look()))
    assert any(a is not None for a, _ in seen)
    assert all(a == b for a, b in seen)


# What is done.


class Free:
    """A run in two dimensions with beta 0 whose negatives allow any beta."""

    def betas(self, relief: Relief) -> list[float]:
        return [relief.beta_of(0.0, 2)]

    def largest_beta(self) -> float:
        return 1.0


def strengthened(relief: Relief, *remedies: Remedy, run: Treated | None = None) -> Relief:
    for remedy in remedies:
        new = remedy.strengthen(relief, run or Free())
        assert new is not None
        relief = new
    return relief


def test_relief_changes_what_it_says() -> None:
    relief = strengthened(Relief(), LargerBeta(), LargerBeta())
    assert relief.beta_of(0.0, 2) == 0.75
    assert relief.beta_of(0.5, 2) == 0.875
    assert Relief().beta_of(0.3, 2) == 0.3
    # No further than where negatives count, in many dimensions: the doctor would warn of more.
    assert relief.beta_of(0.0, 768) == largest_beta(768) < 0.08
    assert relief.beta_of(0.2, 768) == 0.2
    relief = strengthened(relief, SmallerRate(factor=0.5), SmallerRate(factor=0.1))
    assert relief.rate == pytest.approx(0.05)
    assert relief.beta == 2
    source = Source(GaussianNoise(), Langevin(0.01), steps=3)
    longer = strengthened(Relief(), MoreSteps(), MoreSteps()).source_of(source)
    assert longer.steps == 12
    assert longer.start is source.start
    assert strengthened(Relief(), MoreSteps()).source_of(replace(source, steps=0)).steps == 10
    assert Relief().source_of(source) is source


def test_smaller_steps_have_less_noise_whatever_the_kernel() -> None:
    relief = strengthened(Relief(), SmallerSteps(factor=0.5))
    for kernel in (Langevin(0.02), HMC(0.02, 3)):
        scale = relief.step_scale(Source(GaussianNoise(), kernel))
        smaller = replace(kernel, step_size=kernel.step_size * scale)
        assert smaller.langevin_step == pytest.approx(kernel.langevin_step / 4)


def test_only_noise_starts_are_brought_nearer() -> None:
    relief = strengthened(Relief(), NearerStart())
    far = Source(GaussianNoise(9.0), Langevin(0.01))
    assert relief.source_of(far).start == LikeData(2.0)
    bank = Source(Bank(10), Langevin(0.01))
    assert relief.source_of(bank).start is bank.start


def test_a_start_like_the_data_has_its_means_and_scales() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.tensor([3.0, -1.0]) + torch.tensor([0.1, 5.0]) * torch.randn(
        1000, 2, generator=generator
    )
    y = LikeData(2.0).fresh(50_000, x, Coordinates(), generator)
    assert torch.allclose(y.mean(0), x.mean(0), atol=0.2)
    assert torch.allclose(y.std(0), 2 * x.std(0), rtol=0.02)


def test_a_start_like_the_data_has_its_covariance_in_full_coordinates() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5000, 2, generator=generator) @ torch.tensor([[1.0, 0.99], [0.0, 0.01]])
    at = Coordinates.estimate(x, "full")
    found = torch.cov(LikeData(2.0).fresh(50_000, x, at, generator).T)
    torch.testing.assert_close(found, 4 * torch.cov(x.T), rtol=0.05, atol=0)


@pytest.mark.parametrize("cause", ["not_finite", "gap", "gradient", "saturation", "starvation"])
def test_every_cause_has_a_remedy(cause: str) -> None:
    assert any(cause in remedy.treats for remedy in default_ladder())


def test_settings_that_make_no_sense_are_refused() -> None:
    wrongs: list[dict[str, Any]] = [
        {"every": 0},
        {"snapshot_every": 25},
        {"snapshots": 0},
        {"attempts": 0},
        {"ladder": []},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"guard\."):
            Guard(**wrong)
    for make in (
        lambda: SmallerRate(factor=2.0),
        lambda: MoreSteps(factor=1),
        lambda: MoreSteps(factor=9),
        lambda: SmallerSteps(factor=0.0),
        lambda: NoisyData(factor=0.0),
        lambda: NearerStart(width=0.0),
        lambda: NewSeed(cool_down=0),
        lambda: LikeData(0.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            make()


# A run.

NAN = "--terms=[{class_path: NaNGradient, init_args: {at: 33}}]"
LOOKS = ("--guard.every=5", "--guard.snapshot_every=10", "--iterations=60")


def events(folder: Path) -> list[dict[str, Any]]:
    return read_lines(folder / "events.jsonl")


def test_an_accident_is_rolled_back_and_the_run_completes(tmp_path: Path) -> None:
    training = trained(tmp_path, "mixture2d", NAN, *LOOKS)
    assert training.iteration == 60
    assert training.attempt == 1
    assert all(p.isfinite().all() for p in training.parameters)
    alarm, rollback = events(tmp_path)
    assert (alarm["event"], alarm["cause"], alarm["iteration"]) == ("alarm", "not_finite", 33)
    assert rollback["event"] == "rollback"
    assert rollback["action"] == "new seed"
    assert "from iteration 35 to 30" in rollback["text"]


def test_no_number_is_lost(tmp_path: Path) -> None:
    """What was rolled back stays in the file; what led to the model is read by default."""
    trained(tmp_path, "mixture2d", NAN, *LOOKS)
    made = read_metrics(tmp_path / "metrics.csv", abandoned=True)
    assert made["iteration"] == [*range(35), *range(30, 60)]
    assert made["attempt"] == 35 * [0] + 30 * [1]
    assert math.isnan(made["parameter_gradient"][33])
    kept = read_metrics(tmp_path / "metrics.csv")
    assert kept["iteration"] == [*range(60)]
    assert all(math.isfinite(v) for v in kept["parameter_gradient"])


def test_new_random_numbers_after_a_rollback(tmp_path: Path) -> None:
    trained(tmp_path / "a", "mixture2d", NAN, *LOOKS)
    made = read_metrics(tmp_path / "a" / "metrics.csv", abandoned=True)
    assert made["d"][30:33] != made["d"][35:38]


def test_without_an_alarm_the_guard_changes_nothing(tmp_path: Path) -> None:
    states = [
        weights(trained(tmp_path / policy, "mixture2d", f"--guard.policy={policy}"))
        for policy in ("rollback", "stop", "warn")
    ]
    assert same(states[0], states[1])
    assert same(states[0], states[2])
    assert not (tmp_path / "rollback" / "events.jsonl").exists()


def test_stop_ends_with_the_last_good_model(tmp_path: Path) -> None:
    given = settings("mixture2d", NAN, *LOOKS, "--guard.policy=stop")
    training = build(given)
    with pytest.raises(Diverged, match="last good model, of iteration 30") as caught:
        fit(training, tmp_path)
    assert caught.value.iteration == 33
    assert caught.value.kept == 30
    until = trained(tmp_path / "until", "mixture2d", NAN, *LOOKS[:2], "--iterations=30")
    assert not same(weights(training), weights(until))  # another schedule: 60 iterations
    again = build(settings("mixture2d", NAN, *LOOKS))
    for _ in range(30):
        again.iterate()
    assert same(weights(training), weights(again))
    assert events(tmp_path)[-1]["event"] == "stopped"
    saved = saved_state(tmp_path)
    assert saved["iteration"] == 30


def test_a_run_that_was_stopped_goes_on_without_what_was_seen_then(tmp_path: Path) -> None:
    """An alarm of its own at iteration 20, as the first one, and no longer given up."""
    far = ("mixture2d", "--sources.0.start.mean=[-400.0,0.0]", "--optimiser.lr=1e-9", *LOOKS)
    with pytest.raises(Diverged):
        trained(tmp_path, *far, "--guard.policy=stop")
    resumed = build(settings(*far))
    resumed.load_state_dict(saved_state(tmp_path))
    fit(resumed, tmp_path)
    told = [(e["event"], e["iteration"]) for e in events(tmp_path)]
    assert told == [("stopped", 19), ("resumed", 0), ("alarm", 19), ("rollback", 19)]


def test_warn_goes_on(tmp_path: Path) -> None:
    """Starved from the start: said once, and nothing is changed."""
    far = ("--sources.0.start.mean=[-400.0,0.0]", "--optimiser.lr=1e-9")
    training = trained(tmp_path, "mixture2d", *far, *LOOKS, "--guard.policy=warn")
    assert training.iteration == 60
    assert training.attempt == 0
    (only,) = events(tmp_path)
    assert (only["event"], only["cause"]) == ("warning", "starvation")


def test_warnings_do_not_outlive_a_number_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="became NaN or infinite"):
        trained(tmp_path, "mixture2d", NAN, *LOOKS, "--guard.policy=warn")


def test_starved_chains_are_brought_nearer(tmp_path: Path) -> None:
    far = ("--sources.0.start.mean=[-400.0,0.0]", "--optimiser.lr=1e-9")
    training = trained(tmp_path, "mixture2d", *far, *LOOKS)
    assert training.relief.near == 2.0
    assert read_metrics(tmp_path / "metrics.csv")["grad_scale"][-1] > 0.1


def test_relief_is_taken_away_comes_back_and_stays(tmp_path: Path) -> None:
    """Chains that always start too far away: relief, two relapses, relief to the end."""
    ladder = "--guard.ladder=[{class_path: NearerStart, init_args: {cool_down: 20}}]"
    far = ("--sources.0.start.mean=[-400.0,0.0]", "--optimiser.lr=1e-9")
    training = trained(tmp_path, "mixture2d", *far, *LOOKS[:2], ladder, "--iterations=300")
    told = [e["event"] for e in events(tmp_path)]
    assert told == [*2 * ["alarm", "rollback", "relaxed"], "alarm", "rollback"]
    texts = [e["text"] for e in events(tmp_path) if e["event"] == "rollback"]
    assert [t.partition(". Set ")[0].rpartition(", ")[2] for t in texts] == [
        "for 20 iterations",
        "for 40 iterations",
        "to the end of the run",
    ]
    advice = (
        "Set sources.0.start to LikeData(width=2.0) (it is GaussianNoise(mean=[-400.0, 0.0], "
        "std=1.0)) and least_grad_scale to 0.05 (it is 0): the run recovered only with these."
    )
    assert [advice in t for t in texts] == [False, True, True]
    assert training.relief.near == 2.0
    assert training.attempt == 3


def test_a_run_that_cannot_be_saved_is_given_up(tmp_path: Path) -> None:
    training = build(settings("mixture2d", "--optimiser.lr=1e30", "--guard.attempts=3"))
    with pytest.raises(Diverged, match="given up after 3 rollbacks") as caught:
        fit(training, tmp_path)
    assert caught.value.kept == 0
    assert all(p.isfinite().all() for p in training.parameters)


def test_rungs_are_climbed_in_order_and_skipped_at_the_end_of_their_range(tmp_path: Path) -> None:
    """Beta ends at 0.949 in two dimensions, and noise on data is in force already."""
    training = build(settings("mixture2d", "--optimiser.lr=1e30", "--guard.attempts=10"))
    with pytest.raises(Diverged):
        fit(training, tmp_path)
    suited = [r.description for r in default_ladder() if "not_finite" in r.treats]
    rollbacks = [e for e in events(tmp_path) if e["event"] == "rollback"]
    expected = [*suited, "new seed", "learning rate x 0.1", "steps x 2", "noise per step x 0.5"]
    assert [e["action"] for e in rollbacks] == expected
    kept = "keeps at least 2 effective negatives or 10% of them"
    assert f"(0.9 -> 0.949, {kept})" in rollbacks[2]["text"]
    assert "skipped, can go no further: larger beta" in rollbacks[8]["text"]
    assert "skipped, can go no further: noise on data" in rollbacks[9]["text"]
    assert not any("skipped" in e["text"] for e in rollbacks[:8])


@pytest.mark.parametrize("killed_at", [30, 35, 45])
def test_a_rescued_run_resumes_to_the_bit(killed_at: int, tmp_path: Path) -> None:
    """Killed before the accident, at the rollback, and after it."""
    run = ("mixture2d", "--sources.0.start.mean=[-400.0,0.0]", "--optimiser.lr=1e-9")
    more = (*LOOKS, "--checkpoint_every=15")
    whole = trained(tmp_path / "whole", *run, *more)
    half = build(settings(*run, *more))
    calls = 0
    iterate = half.iterate

    def dying() -> Any:
        nonlocal calls
        calls += 1
        if calls == killed_at:
            raise RuntimeError("killed")
        return iterate()

    half.iterate = dying  # type: ignore[method-assign]
    (tmp_path / "half").mkdir()
    with pytest.raises(RuntimeError, match="killed"):
        fit(half, tmp_path / "half")
    resumed = build(settings(*run, *more))
    resumed.load_state_dict(saved_state(tmp_path / "half"))
    fit(resumed, tmp_path / "half")
    assert whole.attempt == resumed.attempt == 1
    assert same(weights(whole), weights(resumed))
    for name in ("metrics.csv", "events.jsonl"):
        assert (tmp_path / "whole" / name).read_text() == (tmp_path / "half" / name).read_text()


def test_snapshots_on_disk_are_those_in_use(tmp_path: Path) -> None:
    trained(tmp_path, "mixture2d", *LOOKS, "--checkpoint_every=20")
    names = {path.name for path in (tmp_path / "checkpoints").glob("good-*")}
    assert names == {"good-0-40.ckpt", "good-0-50.ckpt", "good-0-60.ckpt"}


def test_events_of_a_run_that_was_cut_off_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"iteration": 1}\n{"iteration": 2}\n{"iter')
    assert read_lines(path) == [{"iteration": 1}, {"iteration": 2}]
    assert EventLog(path, keep=1).count == 1
    assert read_lines(path) == [{"iteration": 1}]
    EventLog(path)
    assert not path.exists()
    assert read_lines(path) == []


# Faults, and when they happened.


def test_a_poisoned_bank_is_one_from_its_iteration_on() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(100, 2, generator=generator)
    bank = PoisonedBank(100, at=2, share=0.5, value=7.0)
    bank.prepare(x, Coordinates(), generator)
    shares = []
    for _ in range(4):
        drawn, slots = bank.draw(100, x, Coordinates(), generator)
        shares.append(float((drawn == 7).all(1).float().mean()))
        bank.put(slots, drawn, 0)
    assert shares == [0.0, 0.0, 0.5, 0.5]


def test_chains_far_outside_of_the_data_are_counted() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1000, 2, generator=generator) * 2 - 1
    bank = Bank(10)
    bank.prepare(x, Coordinates(), generator)
    x_model = torch.zeros(10, 2)
    x_model[:3, 1] = 3.5
    x_model[3:5, 0] = 2.5
    bank.put(torch.arange(10), x_model, 1)
    assert float(bank.metrics()["bank_outside"]) == pytest.approx(0.3)


def test_a_lost_start_moves_away() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(100, 2)
    start = LostStart(at=1, mean=(50.0, 50.0), later_std=0.1)
    places = [float(start.draw(100, x, Coordinates(), generator)[0].mean()) for _ in range(3)]
    assert abs(places[0]) < 1
    assert places[1:] == pytest.approx([50, 50], abs=0.1)


def test_onset_is_where_the_series_leaves_for_good() -> None:
    rng = np.random.default_rng(0)
    healthy = 1 + rng.random(1000)
    assert onset(healthy, healthy) is None
    bad = healthy.copy()
    bad[100] = 1e9  # an outlier
    bad[300:310] = 50  # comes back
    bad[700:] = 50
    assert onset(bad, healthy) == 700
    assert onset(1 / bad, 1 / healthy, downwards=True) == 700
    dead = healthy[:500].copy()
    dead[-1] = np.nan
    assert onset(dead, healthy) == 499


@pytest.mark.parametrize(
    ("words", "says", "rollbacks"),
    [
        (["--guard.most_lost=25"], "took as long as 30 iterations (guard.most_lost)", 3),
        (["--guard.attempts=2"], "2 rollbacks, which is guard.attempts", 2),
        (
            ["--guard.ladder=[{class_path: NearerStart, init_args: {width: 2.0}}]"],
            "3 rollbacks, because no remedy was left",
            3,
        ),
    ],
)
def test_a_rescue_ends_after_counts_that_do_not_depend_on_the_machine(
    words: list[str], says: str, rollbacks: int, tmp_path: Path
) -> None:
    """A learning rate that no remedy can mend; the sentence names it."""
    given = ("--optimiser.lr=1e30", *words)
    said = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with pytest.raises(Diverged) as caught:
            fit(build(settings("mixture2d", *given)), tmp_path / name)
        said.append(str(caught.value))
        assert says in said[-1]
        assert "lower optimiser.lr (1e+30) first" in said[-1]
        told = [e["event"] for e in events(tmp_path / name)]
        assert told.count("rollback") == rollbacks
        assert told[-1] == "stopped"
    assert said[0] == said[1]


def test_longer_chains_count_as_more_lost_iterations(tmp_path: Path) -> None:
    ladder = "--guard.ladder=[{class_path: MoreSteps, init_args: {factor: 4}}]"
    training = build(settings("mixture2d", "--optimiser.lr=1e30", ladder, "--guard.attempts=2"))
    rescue = guard_of(training, None)
    for expected in (10, 50):
        training.iteration = 10
        rescue._roll_back(Alarm("not_finite", 3, 3, "d", float("nan")))
        assert rescue.lost == expected
    assert rescue.state_dict()["lost"] == 50
