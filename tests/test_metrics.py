"""The registry of metrics: every key of metrics.json has one entry, and a source is a field."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coldness.checksums import load_json
from coldness.cli.main import main
from coldness.diagnostics.health import health_metrics
from coldness.metrics import (
    COMPARED,
    FAMILIES,
    REGISTRY,
    STUDIED,
    STUDY_PAGE,
    Metric,
    find,
    in_order,
    metric,
    of_sources,
    reference,
    set_names,
    source_key,
    title,
)
from coldness.report import figures
from coldness.report.figures import sources
from coldness.report.loss_noise import with_noise
from coldness.trust import verdict_on
from coldness.trust.answers import Noted
from small import QUICK

ROOT = Path(__file__).parent.parent
MANY = 13
"""Sources: more than line styles, and more than one digit counts."""


# Entries.


@pytest.mark.parametrize("key", [*REGISTRY, "auroc_logp_uniform", "fpr95_grad_own_set", "d_lag_7"])
def test_every_entry_is_whole(key: str) -> None:
    entry = metric(key)
    assert entry.key == entry.name == key
    assert entry.label[0].isupper() or entry.label.startswith(("beta", "log Z", "1-NN"))
    assert entry.better in ("lower", "higher", "nearest", "none")
    assert entry.title.startswith(entry.label)
    assert not entry.floor or entry.floor in REGISTRY
    assert not entry.bracket or {f"{entry.bracket}_{end}" for end in ("low", "high")} <= set(
        REGISTRY
    )
    assert sum(x not in (0, "") for x in (entry.tolerance, entry.relative, entry.floor)) <= 1
    assert entry.better == "nearest" or entry.target == 0


def test_titles_are_unique_and_a_key_without_an_entry_is_its_own() -> None:
    titles = [entry.title for entry in REGISTRY.values()]
    assert len(set(titles)) == len(titles)
    assert title("kl") == "KL(data || model), nats"
    assert title("of_another_version") == "of_another_version"
    with pytest.raises(KeyError, match="of_another_version"):
        metric("of_another_version")


def test_families() -> None:
    entry = metric("auroc_maxp_my_own_set_best")
    assert (
        entry.label == "AUROC of the largest class probability against my_own_set, the true density"
    )
    assert entry.better == "none"
    assert (metric("fpr95_logp_noise").better, metric("aupr_logp_noise").better) == (
        "lower",
        "higher",
    )
    assert metric("r_lag_12").label == "Autocorrelation of r, lag 12"
    assert [find(key) for key in ("d_lag_0", "auroc_logp_", "auroc_other_a", "kid_effnet_x")] == (
        4 * [None]
    )
    keys = ["auroc_logp_a", "auroc_logp_a_best", "auroc_grad_b", "aupr_logp_c", "auroc_logp_d_e"]
    assert set_names(keys) == ["a", "d_e"]
    assert set_names(keys, "grad") == ["b"]


def test_losses_and_slack() -> None:
    assert Metric("a", "A", better="higher").loss(2.0) == -2
    assert Metric("a", "A", better="nearest", target=0.5).loss(0.1) == pytest.approx(0.4)
    assert metric("kid_effnet_short").slack(1.0, {"kid_effnet_floor": -0.2}) == 0.2
    assert metric("fid_effnet_short").slack(-50.0, {}) == pytest.approx(1.0)
    assert metric("kl").slack(9.0, {}) == 0.005
    with pytest.raises(ValueError, match="no better direction"):
        metric("coldness").loss(1.0)


def test_groups_have_entries() -> None:
    for group in (COMPARED, STUDIED, STUDY_PAGE):
        assert len(set(group)) == len(group)
        assert all(map(find, group))
    assert all(metric(key).better != "none" for key in COMPARED)
    assert len({metric(key).short_title for key in STUDY_PAGE}) == len(STUDY_PAGE)


def test_the_registry_needs_nothing_else() -> None:
    """It lies at the bottom: neither torch nor other modules of coldness."""
    code = (
        "import sys, coldness.metrics; "
        "print([m for m in sys.modules if m == 'torch' or m.startswith('coldness.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['coldness.version', 'coldness.metrics']"


def test_the_reference_is_what_the_registry_says() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == reference()
    rows = [line for line in reference().splitlines() if line.startswith("| `")]
    assert len(rows) == len(REGISTRY) + len(FAMILIES)
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)
    assert "metrics.md" in (ROOT / "mkdocs.yml").read_text()


# Sources.


def test_source_keys_go_there_and_back() -> None:
    keys = [source_key("bank_age", k) for k in range(MANY)]
    assert keys[:2] == ["bank_age", "bank_age_1"]
    shuffled = random.Random(0).sample(keys, MANY)
    assert list(of_sources([*shuffled, "bank"], "bank_age").items()) == list(enumerate(keys))
    for k, key in enumerate(keys):
        assert (metric(key).source, metric(key).key, metric(key).name) == (k, "bank_age", key)
    assert metric("bank_age_12").title.endswith(", source 12")
    assert in_order(["bank_lost", *shuffled])[:MANY] == keys


def test_what_is_not_a_source() -> None:
    columns = ["d_lag_1", "d_0", "d_01", "d_x", "d_\u00b2", "d_1_2", "1", "d_std_1", "d_-1"]
    assert of_sources(columns, "d") == {}
    assert (metric("d_lag_1").source, metric("d_lag_1").key) == (0, "d_lag_1")
    assert find("kl_1") is None  # there is one density, whatever the sources


def test_many_sources_are_drawn_and_measured() -> None:
    rng = np.random.default_rng(0)
    columns = {"iteration": np.arange(200.0), "u_data_std": np.ones(200)}
    for k in range(MANY):
        for name in ("d", "d_std", "u_model_std", "grad_scale", "weight_ess", "largest_weight"):
            columns[source_key(name, k)] = rng.uniform(0.1, 1, 200)
        columns[source_key("beta", k)] = np.full(200, 0.5)
    drawn = sources(columns, "d")
    assert [column for column, _ in drawn] == [source_key("d", k) for k in range(MANY)]
    assert drawn[4][1] == drawn[0][1] != drawn[1][1]
    assert len(of_sources(with_noise(columns), "d_pairing")) == MANY
    found = health_metrics(columns)
    for name in ("loss_snr", "weight_ess_least"):
        assert len(of_sources(found, name)) == MANY
    assert not [key for key in found if find(key) is None]


# Keys of real runs.


@pytest.fixture(autouse=True)
def _coarse_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "KDE_POINTS", 24)


SMALL = ["--iterations=30", "--batch_size=16", "--sources.0.steps=3"]
OF_IMAGES = [
    "--compile=never", "--iterations=4", "--batch_size=20", "--sources.0.steps=2",
    "--sampler.steps=2", "--sources.0.start.capacity=60", "--energy.net.widths=[16]",
    "--evaluation.samples=60", "--evaluation.long_steps=4",
]  # fmt: skip


@pytest.mark.parametrize("recipe", ["mixture2d", "points", "digits-jem"])
def test_every_key_of_a_run_has_an_entry(recipe: str, tmp_path: Path) -> None:
    words = OF_IMAGES if recipe == "digits-jem" else [*QUICK, *SMALL]
    if recipe == "points":
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 2)))
        words = [*words, f"--data.path={tmp_path / 'x.npy'}"]
    assert main(["train", recipe, "--out", str(tmp_path / "run"), *words]) == 0
    metrics = load_json(tmp_path / "run" / "metrics.json")
    assert not [key for key in metrics if find(key) is None]
    wanted = {"mixture2d": "kl", "points": "log_likelihood_kde", "digits-jem": "class_agreement"}
    assert {wanted[recipe], "auroc_logp_gaussian", "health_window", "seconds"} <= metrics.keys()


# What answers are drawn from.


def test_an_answer_follows_from_its_own_metrics_alone() -> None:
    rng = random.Random(0)
    keys = [*REGISTRY, *(f"auroc_logp_{s}{e}" for s in ("a", "b") for e in ("", "_best"))]
    for _ in range(300):
        left_out = rng.choice((0.0, 0.3, 0.7))
        metrics = {
            key: rng.choice((0.0, 0.01, 0.6, 5.0)) for key in keys if rng.random() > left_out
        }
        metrics["variance_ratio_limit"] = metrics["log_likelihood_high"] = 0.5
        metrics |= {"log_z_ess_forward": 0.5, "log_z_ess_reverse": 0.5}
        for topic, answer in verdict_on(metrics).answers.items():
            assert answer.metrics.items() <= metrics.items()
            assert verdict_on(answer.metrics).answers[topic] == answer


def test_what_was_looked_up_is_noted() -> None:
    noted = Noted({"a": 1.0, "b": math.inf, "c": 3.0})
    assert noted.get("d", 2.0) == 2
    assert [key for key in noted if key == "a"] == ["a"]
    assert noted.noted == {}
    assert noted["a"] == 1
    assert "b" in noted
    assert "d" not in noted
    assert noted.noted == {"a": 1.0, "b": math.inf}
    answer = verdict_on({"kl": 0.05, "tv": 0.1, "seconds": 3.0}).answers["density"]
    assert answer.metrics == {"kl": 0.05, "tv": 0.1}
