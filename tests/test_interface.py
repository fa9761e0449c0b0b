"""The public interface, line by line, as a user writes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import coldness
from coldness.cards import MARK
from coldness.chains import GaussianNoise, Source
from coldness.cli.main import main
from coldness.data import Mixture2D, Points
from coldness.energies import Gaussian
from coldness.files import BadFile
from coldness.kernels import Langevin
from coldness.runs.folder import FolderError
from coldness.training.recipe import Recipe, RecipeError
from coldness.training.settings import Evaluation

QUICK = {
    "iterations": 30,
    "batch_size": 16,
    "sources.0.steps": 3,
    "energy.net.widths": [8],
    "compile": "never",
    "evaluation.ais.chains": 20,
    "evaluation.ais.levels": 8,
}
FEW = Evaluation(samples=60, long_steps=5, grid=40)


@pytest.fixture(scope="module")
def array() -> NDArray[np.float64]:
    """Points in units of their own: neither centred nor of unit scale."""
    rng = np.random.default_rng(0)
    return rng.normal([100.0, -3.0, 0.02], [20.0, 0.5, 0.001], (400, 3))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, array: NDArray[np.float64]) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mine"
    coldness.train("points", data=array, out=out, overrides=QUICK)
    return out


@pytest.fixture(scope="module")
def model(run: Path) -> coldness.Model:
    return coldness.load(run)


@pytest.fixture
def quiet() -> Iterator[None]:
    """Models of a few iterations have a loose log Z, and say so."""
    with pytest.warns(UserWarning, match="log Z is only known"):
        yield


def test_a_packaged_recipe_with_seed_and_overrides() -> None:
    overrides = {**QUICK, "contrast.beta": 0.5}
    model = coldness.train("mixture2d", seed=3, overrides=overrides)
    again = coldness.train(Recipe.read("mixture2d", {**overrides, "seed": 3}))
    other = coldness.train("mixture2d", seed=4, overrides=overrides)
    x = np.zeros((4, 2)) + np.arange(4)[:, None]
    np.testing.assert_array_equal(model.potential(x), again.potential(x))
    assert not np.array_equal(model.potential(x), other.potential(x))


def test_a_folder_is_written_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: NDArray[np.float64]
) -> None:
    monkeypatch.chdir(tmp_path)
    coldness.train("points", data=array, overrides=QUICK)
    assert not list(tmp_path.iterdir())
    coldness.train("points", data=array, out="runs/mine", overrides=QUICK)
    found = {path.name for path in (tmp_path / "runs" / "mine").iterdir()}
    assert found == {"config.yaml", "metrics.csv", "checkpoints", "model"}


def test_a_folder_and_memory_give_the_same_model(
    model: coldness.Model, array: NDArray[np.float64]
) -> None:
    in_memory = coldness.train("points", data=torch.from_numpy(array), overrides=QUICK)
    np.testing.assert_array_equal(in_memory.potential(array), model.potential(array))
    np.testing.assert_array_equal(in_memory.sample(5, seed=0), model.sample(5, seed=0))
    assert in_memory.log_z == model.log_z
    # metrics.csv has seven digits.
    logged = {k: v for k, v in model.training.items() if k != "seconds"}
    kept = {k: v for k, v in in_memory.training.items() if k != "seconds"}
    assert kept == pytest.approx(logged, rel=1e-4)


@pytest.mark.usefixtures("quiet")
def test_a_run_that_was_moved_needs_neither_its_data_nor_its_config(
    run: Path, tmp_path: Path, array: NDArray[np.float64]
) -> None:
    path = tmp_path / "points.npy"
    np.save(path, array)
    first = tmp_path / "first"
    overrides = {**QUICK, "data.path": str(path)}
    before = coldness.train("points", out=first, overrides=overrides)
    x, log_p = before.sample(5, seed=0), before.log_prob(array)
    moved = tmp_path / "elsewhere" / "run"
    moved.parent.mkdir()
    shutil.move(first, moved)
    path.unlink()
    (moved / "config.yaml").unlink()
    after = coldness.load(moved)
    np.testing.assert_array_equal(after.sample(5, seed=0), x)
    np.testing.assert_array_equal(after.log_prob(array), log_p)
    # In the data's units: near the points, which are far from standard ones.
    assert x.shape == (5, 3)
    assert np.all(np.abs(x.mean(0) - array.mean(0)) < 3 * array.std(0))


def test_samples_have_the_units_of_the_data_and_follow_the_seed(
    model: coldness.Model, array: NDArray[np.float64]
) -> None:
    x = model.sample(200, steps=20, seed=1)
    assert isinstance(x, np.ndarray)
    assert x.shape == (200, 3)
    np.testing.assert_array_equal(x, model.sample(200, steps=20, seed=1))
    assert not np.array_equal(x, model.sample(200, steps=20, seed=2))
    # Without a seed every call draws afresh.
    assert not np.array_equal(model.sample(5), model.sample(5))
    scale = x.std(0) / array.std(0)
    assert np.all((scale > 0.3) & (scale < 6))


@pytest.mark.usefixtures("quiet")
def test_log_prob_is_minus_potential_minus_log_z(
    model: coldness.Model, array: NDArray[np.float64]
) -> None:
    z = model.log_z
    assert z is not None
    assert z.low <= z.estimate <= z.high
    np.testing.assert_array_equal(model.log_prob(array), -model.potential(array) - z.estimate)


def test_log_prob_is_a_density_in_the_units_of_the_data() -> None:
    """Its integral over a plane in own units is 1, whatever these are."""
    rng = np.random.default_rng(0)
    x = rng.normal([1000.0, 0.5], [50.0, 0.01], (500, 2))
    ais = {"evaluation.ais.chains": 400, "evaluation.ais.levels": 200}
    soft = {"energy.reference_std": 1.0, "temperature.noise": 1.0}
    # A Gaussian reference makes the density integrable, however little it was trained.
    model = coldness.train("points", data=x, overrides={**QUICK, **ais, **soft})
    assert model.log_z is not None
    assert model.log_z.tight
    sides = [np.linspace(m - 8 * s, m + 8 * s, 300) for m, s in ((1000, 50), (0.5, 0.01))]
    grid = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2)
    cell = (sides[0][1] - sides[0][0]) * (sides[1][1] - sides[1][0])
    mass = float(np.exp(model.log_prob(grid)).sum() * cell)
    assert mass == pytest.approx(1, abs=0.1)


def test_log_likelihood_while_training_and_log_prob_after_it_with_an_array(
    array: NDArray[np.float64],
) -> None:
    """Without any option: `points` has a confining term, a validation part and walkers."""
    overrides = {**QUICK, "iterations": 40, "temperature.noise": 1.0}
    overrides |= {"evaluation.ais.levels": 100, "evaluation.ais.chains": 400}
    enough = np.concatenate([array, array.mean(0) + 1.1 * (array - array.mean(0))])
    model = coldness.train("points", data=enough, overrides=overrides)
    assert np.isfinite(model.training["live_log_likelihood"])
    assert model.energy.confined
    assert model.log_z is not None
    assert model.log_z.tight
    assert np.isfinite(model.log_prob(array)).all()


def test_the_score_is_the_gradient_of_log_p(model: coldness.Model) -> None:
    x = model.sample(4, seed=0).astype(np.float64)
    slope = model.score(x)
    assert slope.shape == x.shape
    step = 1e-2 * np.array([20.0, 0.5, 0.001])
    for k in range(3):
        h = np.zeros(3)
        h[k] = step[k]
        numeric = -(model.potential(x + h) - model.potential(x - h)) / (2 * step[k])
        assert np.allclose(slope[:, k] * step[k], numeric * step[k], atol=2e-2)


def test_numpy_in_numpy_out_tensors_in_tensors_out(
    model: coldness.Model, array: NDArray[np.float64]
) -> None:
    for x in (array, array.astype(np.float32), torch.from_numpy(array)):
        u = model.potential(x)
        assert type(u) is type(x)
        assert u.shape == (400,)
        np.testing.assert_allclose(np.asarray(u), model.potential(array), rtol=1e-3, atol=1e-2)
    assert isinstance(model.potential(torch.from_numpy(array).float()), torch.Tensor)


@pytest.mark.parametrize("x", [np.zeros((5, 2)), np.zeros((5, 4)), np.zeros(5)])
def test_a_wrong_number_of_columns_is_a_value_error(
    model: coldness.Model, x: NDArray[np.float64]
) -> None:
    for method in (model.potential, model.log_prob, model.score):
        with pytest.raises(ValueError, match="points must have 3 columns"):
            method(x)


def test_without_log_z_it_says_how_to_get_one(array: NDArray[np.float64]) -> None:
    model = coldness.train("points", data=array, overrides={**QUICK, "evaluation.ais": None})
    assert model.log_z is None
    with pytest.raises(ValueError, match=r"coldness\.judge"):
        model.log_prob(array)
    model.estimate_log_z(array, levels=8, chains=20)
    assert model.log_z is not None


def test_a_model_is_saved_and_loaded_whole(
    model: coldness.Model, tmp_path: Path, array: NDArray[np.float64]
) -> None:
    path = model.save(tmp_path / "my-model")
    assert {p.name for p in path.iterdir()} == {"model.yaml", "weights.safetensors"}
    again = coldness.load(path)
    np.testing.assert_array_equal(again.potential(array), model.potential(array))
    np.testing.assert_array_equal(again.sample(3, seed=5), model.sample(3, seed=5))
    assert again.training == model.training
    assert again.domain == model.domain
    with pytest.raises(FileExistsError):
        model.save(path)
    model.save(path, overwrite=True)
    with pytest.raises(FileExistsError):
        model.save(tmp_path, overwrite=True)  # not a model, but something


def test_a_model_moves_between_devices(run: Path) -> None:
    model = coldness.load(run)
    assert model.to("cpu") is model
    assert model.to("meta").device.type == "meta"


def test_the_hub_is_a_folder_away(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: NDArray[np.float64]
) -> None:
    """The calls to huggingface_hub, against a local folder."""
    store = tmp_path / "hub"

    class Api:
        def __init__(self, token: str | None = None) -> None:
            assert token == "secret"

        def create_repo(self, name: str, private: bool, exist_ok: bool) -> None:
            assert exist_ok
            (store / name).mkdir(parents=True, exist_ok=True)

        def upload_folder(self, repo_id: str, folder_path: str) -> None:
            shutil.copytree(folder_path, store / repo_id, dirs_exist_ok=True)

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name: str(store / name))
    model = coldness.load(run)
    model.push_to_hub("me/mine", token="secret")
    again = coldness.load("hub:me/mine")
    np.testing.assert_array_equal(again.potential(array), model.potential(array))


def test_a_judgement_of_a_model_on_test_points(run: Path, array: NDArray[np.float64]) -> None:
    model = coldness.load(run)
    judgement = coldness.judge(model, array, evaluation=FEW)
    assert set(judgement.answers) == {"generation", "long_chains", "density", "ood", "training"}
    for answer in judgement.answers.values():
        assert answer.grade in ("yes", "partly", "no", "not measured")
        assert answer.text
        assert set(answer.metrics) <= set(judgement.metrics)
    assert "log_likelihood_test" in judgement.metrics
    assert "log_likelihood_train" not in judgement.metrics  # none of these is known to be
    assert judgement.metrics == coldness.judge(model, array, evaluation=FEW).metrics
    assert judgement.metrics != coldness.judge(model, array, evaluation=FEW, seed=1).metrics
    assert judgement.summary in str(judgement)


def test_a_judgement_on_data_that_is_scaled_otherwise(array: NDArray[np.float64]) -> None:
    """Other points have other means and scales; the model's units count."""
    model = coldness.train("points", data=array, overrides=QUICK)
    moved = Points.of(array + 20 * array.std(0))
    near = coldness.judge(model, Points.of(array), evaluation=FEW)
    far = coldness.judge(model, moved, evaluation=FEW)
    key = "energy_distance_short"
    assert far.metrics[key] > 2 * near.metrics[key]


def test_a_judgement_of_an_analytic_energy() -> None:
    data = Mixture2D()
    source = Source(GaussianNoise(), Langevin(0.01), steps=50)
    alone = coldness.judge(data.energy.float(), data, evaluation=FEW)
    assert alone.metrics["kl"] == pytest.approx(0, abs=1e-3)
    assert alone.answers["generation"].grade == "not measured"
    assert alone.answers["training"].grade == "not measured"
    sampled = coldness.judge(data.energy, data, sampler=source, evaluation=FEW)
    assert "energy_distance_short" in sampled.metrics
    points = np.random.default_rng(0).normal(size=(200, 2))
    gaussian = Gaussian([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    on_points = coldness.judge(gaussian, points, evaluation=FEW)
    truth = -np.log(2 * np.pi) - (points**2).sum(1).mean() / 2
    assert on_points.metrics["log_likelihood_test"] == pytest.approx(truth, abs=0.02)


def test_a_run_that_diverges_raises_with_its_last_good_model() -> None:
    overrides = {**QUICK, "optimiser.lr": 1e30, "guard.policy": "stop"}
    with pytest.raises(coldness.Diverged) as caught:
        coldness.train("mixture2d", overrides=overrides)
    model = caught.value.model
    assert model is not None
    assert np.isfinite(model.potential(np.zeros((1, 2)))).all()


@pytest.mark.parametrize(
    ("recipe", "overrides", "message"),
    [
        ("mixture3d", {}, "mixture2d"),
        ("mixture2d", {"contrast.bet": 1}, "contrast.beta"),
        ("mixture2d", {"iterations": -1}, "iterations must be >= 1"),
        ("mixture2d", {"energy.net.inputs": 3}, "the network has 3 inputs"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(
    tmp_path: Path, recipe: str, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        coldness.train(recipe, overrides=overrides, out=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_training_leaves_threads_and_environment_as_they_were() -> None:
    torch.set_num_threads(2)
    before = dict(os.environ)
    coldness.train("mixture2d", overrides=QUICK)
    assert torch.get_num_threads() == 2
    assert dict(os.environ) == before


def test_importing_is_cheap_and_without_side_effects() -> None:
    script = """
import os, sys, time
before = dict(os.environ)
begin = time.perf_counter()
import coldness
seconds = time.perf_counter() - begin
assert "torch" not in sys.modules, "torch was imported"
assert dict(os.environ) == before, "the environment was changed"
assert seconds < 0.3, seconds
assert {"train", "load", "judge", "Model"} <= set(dir(coldness))
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_run_knows_the_data_that_it_was_given(
    tmp_path: Path, array: NDArray[np.float64], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    coldness.train("points", data=array, out=out, overrides=QUICK)
    before = (out / "model" / "model.yaml").read_text()
    with pytest.raises(FolderError, match="was trained on other data"):
        coldness.train("points", data=array + 1, out=out, overrides=QUICK, resume=True)
    assert (out / "model" / "model.yaml").read_text() == before
    longer = {**QUICK, "iterations": 40}
    coldness.train("points", data=array, out=out, overrides=longer, resume=True)
    assert main(["evaluate", str(out)]) == 2
    assert "--data FILE" in capsys.readouterr().err


def test_images_as_arrays() -> None:
    """The array that a model was trained on is one that it takes."""
    bytes_of = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    overrides = {k: v for k, v in QUICK.items() if "ais" not in k}
    model = coldness.train("digits", data=bytes_of, overrides=overrides)
    assert model.domain.shape == (1, 8, 8)
    u = model.potential(bytes_of)
    np.testing.assert_array_equal(model.potential(bytes_of[..., None]), u)
    np.testing.assert_array_equal(model.potential(bytes_of.reshape(60, 64)), u)
    with pytest.raises(ValueError, match="images must be bytes"):
        coldness.train("digits", data=bytes_of / 255, overrides=overrides)
    with pytest.raises(RecipeError, match="two classes or more"):
        coldness.train("digits-jem", data=bytes_of, overrides=overrides)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: np.ma.masked_array(x, x > 100), "masked"),
        (lambda x: x.astype(str), "real numbers"),
        (lambda x: x + 1j, "real numbers"),
        (lambda x: np.full_like(x, np.nan), "not finite|NaN"),
    ],
)
def test_data_that_is_no_numbers_is_a_value_error(
    array: NDArray[np.float64], change: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        coldness.train("points", data=change(array), overrides=QUICK)


@pytest.mark.parametrize(
    "change",
    [lambda x: x.tolist(), lambda x: x.astype(">f8"), lambda x: x.astype(object)],
    ids=["list", "byte order", "objects"],
)
def test_other_kinds_of_arrays(array: NDArray[np.float64], change: Any) -> None:
    overrides = {**QUICK, "iterations": 1, "evaluation.ais": None}
    model = coldness.train("points", data=change(array), overrides=overrides)
    same = coldness.train("points", data=array, overrides=overrides)
    np.testing.assert_array_equal(model.potential(array), same.potential(array))


def test_interrupting_the_estimate_of_log_z_loses_nothing(
    tmp_path: Path, array: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("coldness.trainer.normalise", interrupt)
    with pytest.raises(coldness.Interrupted) as caught:
        coldness.train("points", data=array, out=tmp_path / "run", overrides=QUICK)
    assert np.isfinite(caught.value.model.potential(array)).all()
    np.testing.assert_array_equal(
        coldness.load(tmp_path / "run").potential(array), caught.value.model.potential(array)
    )


def unsealed(card: str) -> str:
    """A card without its checksum, which may be edited."""
    return "\n".join([MARK, *card.splitlines()[1:]])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("precision: float32", "precision: banana", "precision must be one of"),
        ("at_once: null", "at_once: -3", "at_once must be"),
        ("version:", "version: [", "not a YAML file"),
        ("coordinates: none", "coordinates: none\nweights: 1", "does not belong"),
    ],
)
def test_a_damaged_model_is_refused(
    model: coldness.Model, tmp_path: Path, old: str, new: str, message: str
) -> None:
    card = model.save(tmp_path / "m") / "model.yaml"
    assert old in card.read_text()
    text = unsealed(card.read_text()).replace(old, new)
    if "weights: 1" in new:
        text = "\n".join(
            line for line in text.splitlines() if "weights: " not in line or ": 1" in line
        )
    card.write_text(text)
    with pytest.raises(BadFile, match=message):
        coldness.load(card.parent)
