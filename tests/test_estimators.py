"""Estimators: scikit-learn's and PyOD's own checks, exact scores, and what users do with them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from coldness.estimators import EnergyClassifier, EnergyDensity, EnergyDetector
from coldness.estimators.detector import AUTO
from coldness.estimators.pyod import EnergyDetector as OfPyod

TINY = {
    "energy.net.widths": [8],
    "sources.0.start.capacity": 64,
    "sources.0.steps": 2,
    "batch_size": 32,
    "live": None,
    "stop": None,
}
BARE = {**TINY, "evaluation.ais": None}
QUICK_TO_LEARN = {**BARE, "energy.net.widths": [32], "optimiser.lr": 0.03}

pytestmark = pytest.mark.filterwarnings("ignore:log Z is only known")


def rows(count: int = 300, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal([1.0, -2.0, 0.0], [1.0, 0.3, 5.0], (count, 3))


@pytest.fixture(scope="module")
def density() -> EnergyDensity:
    return EnergyDensity(iterations=30, overrides=TINY, random_state=0).fit(rows())


@pytest.fixture(scope="module")
def detector() -> EnergyDetector:
    return EnergyDetector(iterations=30, overrides=BARE, random_state=0).fit(rows())


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        EnergyDensity(iterations=1, overrides=BARE),
        EnergyDetector(iterations=1, overrides=BARE),
        EnergyClassifier(iterations=60, overrides=QUICK_TO_LEARN),
    ]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Scores.


def test_scores_are_log_p_of_the_model_in_float64(density: EnergyDensity) -> None:
    x = rows(50, 1)
    scores = density.score_samples(x)
    assert scores.dtype == np.float64
    expected = density.model_.log_prob(x)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    one_by_one = np.concatenate([density.score_samples(x[k : k + 1]) for k in range(50)])
    np.testing.assert_allclose(one_by_one, scores, rtol=1e-12)
    assert density.score(x) == pytest.approx(scores.mean())


def test_members_are_a_mixture_of_densities() -> None:
    """log mean exp of the members' own scores, in closed form."""
    x = rows()
    both = EnergyDensity(iterations=5, members=2, overrides=TINY, random_state=0).fit(x)
    each = []
    for model in both.models_:
        u = torch.from_numpy(model.potential(x)).double()
        assert model.log_z is not None
        each.append(-u - model.log_z.estimate)
    expected = torch.stack(each).logsumexp(0) - np.log(2)
    np.testing.assert_allclose(both.score_samples(x), expected, rtol=1e-4, atol=1e-4)
    assert not np.allclose(each[0], each[1])
    assert both.sample(20, random_state=0).shape == (20, 3)


def test_samples_and_what_is_known_of_the_training(density: EnergyDensity) -> None:
    x = density.sample(200, random_state=1)
    np.testing.assert_array_equal(x, density.sample(200, random_state=1))
    np.testing.assert_allclose(x.mean(0), [1, -2, 0], atol=1.5)
    assert len(density.loss_curve_) == density.n_iter_ == 30
    assert np.isfinite(density.loss_curve_).all()
    assert density.log_z_ is not None
    assert any("iterations" in note for note in density.notes_)


def test_the_judgement_is_of_held_out_rows(density: EnergyDensity) -> None:
    assert density.judgement_ is density.judgement_
    held_out = torch.from_numpy(density._held_out)
    expected = float(density._log_p(held_out).mean())
    found = density.judgement_.metrics["log_likelihood_test"]
    assert found == pytest.approx(expected, abs=1e-3)


# Detector.


def test_the_threshold_is_a_quantile_and_moves_with_contamination(detector: EnergyDetector) -> None:
    x, given = rows(), clone(detector)
    given.__dict__.update(detector.__dict__)
    scores = given.score_samples(x)
    assert given.offset_ == pytest.approx(np.quantile(given._unseen_scores, AUTO))
    assert len(given._unseen_scores) == 30
    np.testing.assert_array_equal(given.predict(x) == -1, scores < given.offset_)
    given.set_params(contamination=0.2)
    assert (given.predict(x) == -1).sum() == 60
    given.set_params(contamination=0.7)
    with pytest.raises(ValueError, match="contamination must be"):
        given.predict(x)


def test_explanations_are_the_gradient_of_u(detector: EnergyDetector) -> None:
    """By finite differences in standardised columns; the column that is off stands out."""
    x = np.tile(rows()[:1], (3, 1))
    x[0, 1], x[1, 2], x[2, 0] = 1.0, -40.0, 9.0
    found = detector.explain(x)
    assert np.abs(found).argmax(1).tolist() == [1, 2, 0]
    assert found[0, 1] > 0 > found[1, 2]
    scale = np.array(detector.model_.domain.units.scale)  # type: ignore[attr-defined]
    for j in range(3):
        step = np.zeros(3)
        step[j] = 1e-6 * scale[j]
        change = detector.score_samples(x - step) - detector.score_samples(x + step)
        np.testing.assert_allclose(found[:, j], change / 2e-6, rtol=1e-4, atol=1e-4)
    assert detector.percentile(x).tolist() == [0, 0, 0]


def test_frames_with_text_are_explained_by_column() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "c": rng.choice(["a", "b", "d"], 200)})
    frame["same"] = 1
    detector = EnergyDetector(iterations=5, overrides=BARE, random_state=0).fit(frame)
    assert detector.feature_names_in_.tolist() == ["x", "c", "same"]
    found = detector.explain(frame[:4])
    assert found.shape == (4, 3)
    assert (found[:, 2] == 0).all()
    assert (found[:, 1] != 0).all()
    assert "column same: constant, dropped" in detector.notes_


# Classifier.


def test_a_classifier_that_knows_unusual_rows() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-2, 1, (200, 2)), rng.normal(2, 1, (200, 2))])
    y = np.repeat(["no", "yes"], 200)
    given = EnergyClassifier(iterations=150, overrides=QUICK_TO_LEARN, random_state=0).fit(x, y)
    assert given.score(x, y) > 0.97
    p = given.predict_proba(x)
    np.testing.assert_allclose(p.sum(1), 1)
    assert given.classes_.tolist() == ["no", "yes"]
    assert 0.1 < given.temperature_ < 10
    # Calibrated: confidence and accuracy agree on new rows.
    new = np.concatenate([rng.normal(-2, 1, (2000, 2)), rng.normal(2, 1, (2000, 2))])
    confidence = given.predict_proba(new).max(1).mean()
    assert confidence == pytest.approx(given.score(new, np.repeat(["no", "yes"], 2000)), abs=0.03)
    assert given.score_samples([[40.0, -40.0]])[0] < given.score_samples(x).min()


@pytest.mark.parametrize(("load", "least"), [(load_wine, 0.95), (load_breast_cancer, 0.92)])
def test_a_classifier_learns_its_classes_by_default(load: Any, least: float) -> None:
    """As well as logistic regression, within a few rows, and better than chance in nats."""
    x, y = load(return_X_y=True)
    x, new, y, true = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
    given = EnergyClassifier(
        budget="fast", overrides={"evaluation.ais": None, "live": None}, random_state=0
    ).fit(x, y)
    assert given.score(new, true) > least
    assert log_loss(true, given.predict_proba(new)) < 0.25
    assert given.temperature_ > 0.3


# Tools around estimators.


def test_settings_of_numpy_and_settings_that_are_wrong() -> None:
    x = rows(60)
    given = {"data_noise": np.float32(0.5), "energy.net.widths": np.array([8])}
    plain = EnergyDetector(iterations=np.int64(2), overrides={**BARE, **given}, random_state=0)  # type: ignore[arg-type]
    assert plain.fit(x).n_iter_ == 2
    assert "given instead: iterations 2" in plain.notes_
    for wrong, message in (
        ({"budget": "slow"}, "budget must be one of fast, default, best, got 'slow'"),
        ({"contamination": "aut"}, r"contamination must be 'auto' or in \(0, 0.5\], got 'aut'"),
    ):
        with pytest.raises(ValueError, match=message):
            EnergyDetector(**wrong).fit(x)


def test_log_p_integrates_to_one() -> None:
    """In one and two dimensions, to the error of log Z, and with a bent axis of far values."""
    rng = np.random.default_rng(0)
    far = np.concatenate([rng.normal(size=(400, 1)), [[60.0]]])
    line = np.concatenate([np.arange(-400, -20, 0.05), np.arange(-20, 20, 2e-3)])
    line = np.concatenate([line, np.arange(20, 400, 0.05)])
    known = EnergyDensity(budget="fast", random_state=0).fit(far)
    assert any("compressed" in note for note in known.notes_)
    p = np.exp(known.score_samples(line[:, None]))
    assert np.trapezoid(p, line) == pytest.approx(1, abs=0.05)
    plane = rng.normal([3.0, -1.0], [2.0, 0.1], (400, 2))
    known = EnergyDensity(budget="fast", random_state=0).fit(plane)
    a, b = np.linspace(-15, 21, 300), np.linspace(-1.9, -0.1, 300)
    p = np.exp(known.score_samples(np.stack(np.meshgrid(a, b), -1).reshape(-1, 2)))
    assert p.sum() * (a[1] - a[0]) * (b[1] - b[0]) == pytest.approx(1, abs=0.05)


def test_pipelines_grids_folds_and_copies(tmp_path: Path) -> None:
    x = rows(60)
    plain = EnergyDensity(iterations=2, overrides=BARE, random_state=0)
    line = make_pipeline(StandardScaler(), clone(plain)).fit(x)
    assert line.score_samples(x).shape == (60,)
    scores = cross_val_score(plain, x, cv=2)
    assert np.isfinite(scores).all()
    search = GridSearchCV(plain, {"iterations": [1, 2]}, cv=2).fit(x)
    assert search.best_params_["iterations"] in (1, 2)
    plain.fit(x)
    joblib.dump(plain, tmp_path / "x.joblib")
    for again in (joblib.load(tmp_path / "x.joblib"), pickle.loads(pickle.dumps(plain))):
        np.testing.assert_array_equal(again.score_samples(x), plain.score_samples(x))
        np.testing.assert_array_equal(again.sample(3, 0), plain.sample(3, 0))
    same = clone(plain).fit(x)
    np.testing.assert_array_equal(same.score_samples(x), plain.score_samples(x))


def test_the_package_is_imported_only_when_it_is_used() -> None:
    code = "import coldness, sys; print({'torch', 'sklearn', 'pyod'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


@pytest.mark.parametrize(("count", "columns"), [(60, 40), (5, 2), (100, 3)])
def test_few_rows_have_a_threshold_that_holds_for_new_ones(count: int, columns: int) -> None:
    """Fitted rows are remembered: with their scores, all new rows of 40 columns were outliers."""
    x, new = (np.random.default_rng(k).normal(size=(count, columns)) for k in (0, 1))
    known = EnergyDetector(budget="fast", random_state=0).fit(x)
    flagged = np.mean([known.predict(new) == -1])
    assert known.percentile(x).min() >= 0
    if count > 5:
        assert flagged < 0.2
    if columns == 40:
        assert np.mean(known.score_samples(new) < np.quantile(known.score_samples(x), 0.05)) > 0.9


# PyOD: the checks of its base class's tests.


def test_pyods_conventions() -> None:
    x, new = rows(200), rows(50, 1)
    x[:10] += 20
    given = OfPyod(contamination=0.1, iterations=2, overrides=BARE, random_state=0)
    given.fit(x)
    assert given.decision_scores_.shape == (200,)
    assert given.labels_.sum() == 20
    assert given.threshold_ == pytest.approx(np.percentile(given.decision_scores_, 90))
    np.testing.assert_allclose(given.decision_function(x), given.decision_scores_)
    np.testing.assert_array_equal(given.decision_scores_, -given.detector_.score_samples(x))
    assert set(given.predict(new)) <= {0, 1}
    for method in ("linear", "unify"):
        p = given.predict_proba(new, method=method)
        np.testing.assert_allclose(p.sum(1), 1)
        assert (p >= 0).all()
    _, confidence = given.predict(new, return_confidence=True)
    np.testing.assert_array_equal(confidence, given.predict_confidence(new))
    assert ((confidence >= 0) & (confidence <= 1)).all()
    rank = given._predict_rank(new, normalized=True)
    assert ((rank >= 0) & (rank <= 1)).all()
    assert given._predict_rank(new).max() <= len(x)
    truth = np.r_[np.ones(10), np.zeros(190)]
    assert given.labels_[:10].all()
    assert roc_auc_score(truth, given.decision_scores_) == 1
    labels = given.predict_with_rejection(new, c_r=0.1)
    assert set(labels) <= {-2, 0, 1}
    with pytest.warns(FutureWarning, match="fit_predict is deprecated"):
        assert clone(given).fit_predict(x).sum() == 20
    with pytest.raises(ValueError, match="something"):
        given.predict_proba(new, method="something")
    assert clone(given).get_params()["contamination"] == 0.1
    with pytest.raises(NotFittedError):
        clone(given).decision_function(new)
