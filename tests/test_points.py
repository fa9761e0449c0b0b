"""Your own points: reading, held-out likelihoods against closed forms, and the command line."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from coldness.checksums import load_json
from coldness.cli.main import main
from coldness.data import HeldOut, Mixture2D, Points
from coldness.data.points import BadPoints
from coldness.energies import Energy, Gaussian, ScalarEnergy, Sum
from coldness.evaluation import compare_on_grid
from coldness.evaluation.density import score_on_grid
from coldness.evaluation.likelihood import plain_models
from coldness.nets import MLP
from coldness.runs.log import read_metrics
from coldness.training import build
from coldness.training.recipe import find
from coldness.trust import verdict_on
from laws import assert_share, generator
from small import QUICK, measured, read

MEAN, COVARIANCE = np.array([3.0, -40.0]), np.array([[4.0, 6.0], [6.0, 25.0]])


def normal_points(count: int = 500, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).multivariate_normal(MEAN, COVARIANCE, count)


def saved(folder: Path, x: np.ndarray, name: str = "x.npy") -> str:
    np.save(folder / name, x)
    return str(folder / name)


# Reading.


def test_the_same_points_from_every_kind_of_file(tmp_path: Path) -> None:
    x = normal_points(50)
    np.savez(tmp_path / "one.npz", points=x)
    np.savez(tmp_path / "two.npz", other=np.ones(3), x=x)
    np.savetxt(tmp_path / "plain.csv", x, delimiter=",", fmt="%.17g")
    np.savetxt(tmp_path / "head.csv", x, delimiter=",", fmt="%.17g", header="a,b", comments="")
    np.savetxt(tmp_path / "semicolon.csv", x, delimiter=";", fmt="%.17g")
    np.savetxt(tmp_path / "plain.txt", x, fmt="%.17g", header="a comment")
    np.savetxt(tmp_path / "head.txt", x, fmt="%.17g", header="a\tb", comments="")
    expected = Points(saved(tmp_path, x))
    files = [path for path in tmp_path.iterdir() if path.name != "x.npy"]
    assert len(files) == 7
    for path in files:
        found = Points(str(path))
        assert torch.equal(found.train, expected.train), path.name
        assert torch.equal(found.test, expected.test), path.name


def test_a_plain_list_of_numbers_is_one_dimension(tmp_path: Path) -> None:
    data = Points(saved(tmp_path, np.arange(100)))
    assert data.shape == (1,)
    assert data.train.dtype == data.test.dtype == torch.float32


def test_the_split(tmp_path: Path) -> None:
    """Every point is in one part, the seed alone decides in which."""
    x = np.random.default_rng(0).normal(size=(200, 3))
    path = saved(tmp_path, x)
    data = Points(path, held_out=0.3, standardise=False)
    assert (len(data.train), len(data.test)) == (140, 60)
    together = torch.cat([data.train, data.test]).numpy()
    np.testing.assert_array_equal(np.sort(together, 0), np.sort(x.astype(np.float32), 0))
    assert torch.equal(data.test, Points(path, 0.3, standardise=False).test)
    assert not torch.equal(data.test, Points(path, 0.3, 1, standardise=False).test)


@pytest.mark.parametrize(
    ("count", "kept"), [(20, 0), (480, 0), (500, 20), (1000, 40), (20_000, 800), (40_000, 1000)]
)
def test_an_automatic_validation_part(count: int, kept: int) -> None:
    """A twentieth of what is not tested on, at most 1,000, and none where that is below 20."""
    x = normal_points(count)
    points, none = Points.of(x, validation="auto"), Points.of(x)
    assert len(points.validation) == kept
    assert len(points.train) + kept == len(none.train)
    assert len(points.test) == len(none.test)
    together = torch.cat([points.original(part) for part in (points.train, points.validation)])
    found, expected = (np.sort(part.numpy(), 0) for part in (together, none.original(none.train)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_standardised_by_the_training_part_and_back(tmp_path: Path) -> None:
    path = saved(tmp_path, normal_points())
    data, raw = Points(path), Points(path, standardise=False)
    torch.testing.assert_close(data.train.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(data.train.std(0), torch.ones(2), atol=1e-5, rtol=0)
    std = raw.train.double().std(0)
    assert data.log_scale == pytest.approx(float(std.log().sum()), abs=1e-5)
    assert raw.log_scale == 0
    own = data.mean + data.std * data.test.double()
    torch.testing.assert_close(own, raw.test.double(), atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(
        data.test.double(), (raw.test - raw.train.double().mean(0)) / std, atol=1e-5, rtol=1e-5
    )


def test_the_box_holds_all_points_with_a_margin(tmp_path: Path) -> None:
    data = Points(saved(tmp_path, normal_points()))
    farthest = float(torch.cat([data.train, data.test]).abs().max())
    assert 1.1 * farthest < data.box < 1.2 * farthest


def test_batches_are_training_points_with_equal_chances(tmp_path: Path) -> None:
    data = Points(saved(tmp_path, np.arange(20.0)), standardise=False)
    x = data.sample(20_000, generator(1))
    assert x.shape == (20_000, 1)
    assert x.dtype == torch.float32
    assert torch.equal(x, data.sample(20_000, generator(1)))
    assert set(x.flatten().tolist()) == set(data.train.flatten().tolist())
    for value in data.train[:3, 0]:
        assert_share(int((x == value).sum()), len(x), 1 / len(data.train))


def test_samples_are_compared_with_test_points_and_the_floor_with_both(tmp_path: Path) -> None:
    data = Points(saved(tmp_path, np.arange(100.0)), standardise=False)
    test, train = set(data.test.flatten().tolist()), set(data.train.flatten().tolist())
    assert set(data.reference(4000, generator(2)).flatten().tolist()) == test
    x, y = data.pair(4000, generator(3))
    assert len(x) == len(y) == 20
    assert len(x.unique()) == 20
    assert set(x.flatten().tolist()) <= train
    assert set(y.flatten().tolist()) == test
    assert [len(part) for part in data.pair(7, generator(3))] == [7, 7]


def with_value(value: float) -> np.ndarray:
    x = normal_points(50)
    x[[7, 9], 1] = value
    return x


ARRAYS = {
    "three dimensions": (np.zeros((30, 2, 2)), r"points \(N, D\), got the shape \(30, 2, 2\)"),
    "no columns": (np.zeros((30, 0)), "got the shape"),
    "text": (np.array([["a", "b"]] * 30), "real numbers"),
    "complex": (np.ones((30, 2), complex), "real numbers"),
    "objects": (np.array([[1, None]] * 30, dtype=object), "Python objects, which are not loaded"),
    "nan": (with_value(np.nan), "2 rows with NaN or infinite values, the first is row 7"),
    "infinite": (with_value(np.inf), "2 rows with NaN or infinite values, the first is row 7"),
    "few": (normal_points(19), "19 points; at least 20 are needed"),
    "constant": (np.stack([np.arange(30), np.full(30, 0.1)], 1), "column 1 of .* is constant"),
    "huge": (1e300 * normal_points(30), "column 0 .* too large"),
    "dependent": (np.stack([np.arange(30), 2 * np.arange(30)], 1), "plane of 1 dimensions"),
}


@pytest.mark.parametrize(("x", "message"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_are_refused(x: np.ndarray, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, x, allow_pickle=True)
    with pytest.raises(BadPoints, match=message) as caught:
        Points(str(path))
    assert "\n" not in str(caught.value)


FILES = {
    "empty.csv": (b"", "empty"),
    "head.csv": (b"a,b\n", "no points"),
    "words.csv": (b"1,2\n" * 30 + b"3,four\n", "cannot be read: could not convert string"),
    "ragged.txt": (b"1 2\n" * 30 + b"3\n", "cannot be read: "),
    "binary.csv": (bytes(range(128, 256)), "cannot be read: "),
    "broken.npy": (b"\x93NUMPY\x01\x00", "cannot be read: "),
    "other.npy": (b"not an array", "Python objects, which are not loaded"),
    "broken.npz": (b"PK\x03\x04 and so on", "cannot be read: "),
    "points.parquet": (b"", r"must end in \.npy, \.npz, \.csv or \.txt"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(name: str, tmp_path: Path) -> None:
    content, message = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadPoints, match=message) as caught:
        Points(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(BadPoints, match=r"no file nowhere\.npy in /"):
        Points("nowhere.npy")
    np.savez(tmp_path / "two.npz", a=np.ones(3), b=np.ones(3))
    with pytest.raises(BadPoints, match=r"one called x, got \['a', 'b'\]"):
        Points(str(tmp_path / "two.npz"))
    path = saved(tmp_path, normal_points(50))
    for share in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(BadPoints, match="held_out must be between 0 and 1"):
            Points(path, held_out=share)
    with pytest.raises(BadPoints, match="50 points into 49 for training and 1 for testing"):
        Points(path, held_out=0.02)


# Likelihoods.


class Exact(Energy):
    """-log of N(mean, covariance), left unnormalised by `shift`, in the coordinates of `data`."""

    def __init__(self, data: HeldOut, raw: HeldOut, shift: float) -> None:
        super().__init__()
        scale = raw.train.double().std(0) if data.log_scale else torch.ones(2).double()
        centre = raw.train.double().mean(0) if data.log_scale else torch.zeros(2).double()
        self.scale, self.centre, self.shift = scale, centre, shift

    def energy(self, x: torch.Tensor) -> torch.Tensor:
        own = (self.centre + self.scale * x.double()).numpy()
        log_p = stats.multivariate_normal(MEAN, COVARIANCE).logpdf(own)
        return self.shift - torch.as_tensor(np.atleast_1d(log_p))


@pytest.mark.parametrize("standardise", [True, False])
def test_log_likelihoods_of_the_true_density_are_the_closed_forms(
    standardise: bool, tmp_path: Path
) -> None:
    """In the data's own units, whatever the model's coordinates."""
    path = saved(tmp_path, normal_points())
    raw, data = Points(path, standardise=False), Points(path, standardise=standardise)
    figures, arrays = score_on_grid(Exact(data, raw, 7.0), data, points=400, widening=1.5)
    figures |= plain_models(data)
    truth = stats.multivariate_normal(MEAN, COVARIANCE)
    train, test = raw.train.double().numpy(), raw.test.double().numpy()
    fit = stats.multivariate_normal(train.mean(0), np.cov(train.T, bias=True))
    kernels = stats.gaussian_kde(train.T)
    expected = {
        "log_likelihood_test": truth.logpdf(test).mean(),
        "log_likelihood_train": truth.logpdf(train).mean(),
        "log_likelihood_gaussian": fit.logpdf(test).mean(),
        "log_likelihood_kde": kernels.logpdf(test.T).mean(),
    }
    assert {key: figures[key] for key in expected} == pytest.approx(expected, abs=1e-3)
    # exp(-U) dy integrates to exp(-shift) / the Jacobian of y.
    assert figures["log_z"] == pytest.approx(-7.0 - data.log_scale, abs=1e-3)
    assert figures["log_z_error"] < 1e-3
    assert figures["mass_outside"] < 0.01
    assert arrays["log_p_model"].shape == (400, 400)


def test_log_likelihood_on_the_line_is_the_closed_form(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(5.0, 0.2, 300)
    data = Points(saved(tmp_path, x))
    model = Gaussian([0.0], [[1.3**2]])
    figures, arrays = score_on_grid(model, data, points=100, widening=4.0)
    y = data.test.double().numpy()
    expected = stats.norm(0, 1.3).logpdf(y).mean() - data.log_scale
    assert figures["log_likelihood_test"] == pytest.approx(expected, abs=1e-3)
    assert figures["log_z"] == pytest.approx(math.log(1.3 * math.sqrt(2 * math.pi)), abs=1e-3)
    outside = 2 * stats.norm(0, 1.3).sf(data.box)
    assert figures["mass_outside"] == pytest.approx(outside, abs=1e-2)
    assert arrays["log_p_model"].shape == arrays["side"].shape == (1000,)


def test_a_grid_that_is_too_coarse_says_so(tmp_path: Path) -> None:
    data = Points(saved(tmp_path, normal_points()))
    needle = Gaussian([0.3, 0.1], [[1e-5, 0.0], [0.0, 1e-5]])
    figures, _ = score_on_grid(needle, data, points=100, widening=1.5)
    assert figures["log_z_error"] > 0.1
    assert verdict_on(figures).answers["density"].grade == "not measured"
    assert "too coarse" in verdict_on(figures).answers["density"].text


def test_a_gaussian_fit_to_one_gaussian_is_perfect() -> None:
    data = Mixture2D(radius=1e-3, std=0.5)
    figures, _ = compare_on_grid(data.energy, data, points=400, widening=2.0)
    assert figures["kl_gaussian"] == pytest.approx(0, abs=1e-5)


def test_kl_to_the_gaussian_fit_by_moments_in_closed_form() -> None:
    """Equal weights on a circle: covariance (std^2 + radius^2 / 2) I."""
    data = Mixture2D(equal_weights=True, radius=2.0, std=0.3)
    figures, _ = compare_on_grid(data.energy, data, points=400, widening=1.5)
    expected = math.log(2 * math.pi * math.e * (0.3**2 + 2.0)) - data.entropy
    assert figures["kl_gaussian"] == pytest.approx(expected, abs=1e-4)
    assert expected > 0.5


def test_kl_to_the_gaussian_fit_by_sampling() -> None:
    """Unequal weights: mean log p / q over exact samples, q fitted to as many others."""
    data = Mixture2D()
    figures, _ = compare_on_grid(data.energy, data, points=400, widening=1.5)
    fitted, x = (data.sample(200_000, generator(k)).double() for k in (4, 5))
    q = stats.multivariate_normal(fitted.mean(0).numpy(), np.cov(fitted.T.numpy()))
    terms = data.log_prob(x) - torch.as_tensor(q.logpdf(x.numpy()))
    error = float(terms.std()) / math.sqrt(len(x))
    assert figures["kl_gaussian"] == pytest.approx(float(terms.mean()), abs=5 * error + 1e-4)


# Verdict.


def likelihoods(test: float, gaussian: float, kde: float) -> dict[str, float]:
    names = ("test", "gaussian", "kde")
    found = {f"log_likelihood_{k}": v for k, v in zip(names, (test, gaussian, kde), strict=True)}
    return found | {"searched": 1.0}


@pytest.mark.parametrize(
    ("metrics", "answer", "words"),
    [
        (likelihoods(-1.0, -2.0, -1.5), "yes", "or more"),
        (likelihoods(-1.54, -2.0, -1.5), "yes", "or more"),
        (likelihoods(-1.56, -2.0, -1.5), "partly", "a kernel density estimate is better"),
        (likelihoods(-1.54, -1.5, -2.0), "yes", "or more"),
        (likelihoods(-1.56, -1.5, -2.0), "no", "A Gaussian"),
        (likelihoods(-3.0, -2.0, -1.5), "no", "A Gaussian"),
        (likelihoods(float("nan"), -2.0, -1.5), "no", "could not be normalised"),
        (likelihoods(-1.0, -2.0, -1.5) | {"mass_outside": 0.2}, "yes", "20% of its mass"),
        (likelihoods(-1.0, -2.0, -1.5) | {"searched": 0.0}, "partly", "inconclusive"),
    ],
)
def test_verdicts_on_held_out_points(metrics: dict[str, float], answer: str, words: str) -> None:
    density = verdict_on(metrics).answers["density"]
    assert density.grade == answer
    assert words in density.text
    assert "Gaussian -" in density.measured


# Networks that take their inputs from the data.


def test_a_network_takes_its_inputs_from_the_data() -> None:
    torch.manual_seed(0)
    given = MLP(3, (8, 4))
    torch.manual_seed(0)
    built = MLP(widths=(8, 4))
    with pytest.raises(ValueError, match="has no layers yet"):
        built(torch.zeros(1, 3))
    built.build((3,))
    assert given.state_dict().keys() == built.state_dict().keys()
    x = torch.ones(2, 3)
    assert torch.equal(given(x), built(x))
    built.build((3,))
    assert torch.equal(given(x), built(x))
    with pytest.raises(ValueError, match="the network has 3 inputs, but the data has 2"):
        built.build((2,))


def test_a_network_of_linear_layers_flattens_images_and_has_as_many_outputs_as_told() -> None:
    torch.manual_seed(0)
    net, vectors = MLP(widths=(8,)), MLP(64, (8,))
    net.build((1, 8, 8), 10)
    x = torch.randn(3, 1, 8, 8)
    assert net(x).shape == (3, 10)
    vectors.build((64,), 10)
    vectors.load_state_dict(net.state_dict())
    assert torch.equal(net(x), vectors(x.flatten(1)))


def test_settings_build_networks_and_refuse_those_that_do_not_fit(tmp_path: Path) -> None:
    recipe = tmp_path / "by_data.yaml"
    recipe.write_text(find("mixture2d").read_text().replace("inputs: 2", "inputs: null"))
    by_data = read(recipe).parts()
    as_given = read("mixture2d").parts()
    build(by_data)
    for a, b in zip(by_data.energy.parameters(), as_given.energy.parameters(), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="the network has 3 inputs, but the data has 2"):
        build(read("mixture2d", "--energy.net.inputs=3").parts())


def test_networks_in_composed_energies_are_built_too() -> None:
    settings = read("mixture2d").parts()
    settings = replace(settings, energy=Sum([ScalarEnergy(MLP()), ScalarEnergy(MLP())], [1.0, 1.0]))
    build(settings)
    assert settings.energy(torch.zeros(5, 2)).shape == (5,)


# The command line.

SMALL = [*QUICK, "--iterations=20", "--batch_size=16", "--sources.0.steps=3"]


def train(path: str, out: Path, *more: str) -> int:
    return main(["train", "points", "--data.path", path, "--out", str(out), *SMALL, *more])


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_from_file_to_report(dimension: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(300, dimension))
    path = saved(tmp_path, x)
    assert train(path, tmp_path / "run") == 0
    metrics = load_json(tmp_path / "run/metrics.json")
    known = {f"log_likelihood_{k}" for k in ("test", "train", "gaussian", "kde")}
    assert known <= metrics.keys()
    assert ("log_z_error" in metrics) == (dimension < 3)
    assert metrics["log_likelihood_low"] <= metrics["log_likelihood_high"]
    assert metrics["samples"] == 50
    assert metrics["energy_distance_floor"] > 0
    page = (tmp_path / "run/report.html").read_text()
    assert ("on the line" in page) == (dimension == 1)
    assert ("in the plane" in page) == (dimension > 1)
    assert main(["evaluate", str(tmp_path / "run")]) == 0
    assert load_json(tmp_path / "run/metrics.json") == pytest.approx(metrics)
    out = tmp_path / "samples.npz"
    assert main(["sample", str(tmp_path / "run"), "--n=7", "--out", str(out)]) == 0
    assert np.load(out)["x"].shape == (7, dimension)


def test_the_log_likelihood_is_measured_while_points_are_trained_on(tmp_path: Path) -> None:
    """Live on by default, and absent without an error where points are too few to validate."""
    live = ("--energy.coldness=1", "--live.chains=64", "--live.every=5", "--live.levels=10")
    columns = {}
    for count in (600, 30):
        out = tmp_path / str(count)
        assert train(saved(tmp_path, normal_points(count)), out, *live) == 0
        columns[count] = read_metrics(out / "metrics.csv")
    assert np.isfinite(columns[600]["live_log_likelihood"]).sum() == 4
    assert "live_log_likelihood" not in columns[30]
    assert np.isfinite(columns[30]["live_log_z"]).sum() == 4
    assert "validation points" in (tmp_path / "600/report.html").read_text()


def test_a_relative_path_holds_where_the_run_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, normal_points(100), "my.npy")
    monkeypatch.chdir(tmp_path)
    assert train("my.npy", Path("run")) == 0
    assert main(["evaluate", "run"]) == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    assert main(["evaluate", "../run"]) == 2
    lines = capsys.readouterr().err.splitlines()
    (line,) = lines
    assert f"there is no file my.npy in {tmp_path / 'elsewhere'}" in line
    assert "--data FILE" in line
    # Everything that needs no data works, and test points can be named.
    assert main(["sample", "../run", "--n", "3"]) == 0
    assert main(["evaluate", "../run", "--trust"]) == 0
    assert main(["evaluate", "../run", "--data", "../my.npy", "--samples", "50"]) == 0


def test_bad_points_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path, with_value(math.nan))
    assert train(path, tmp_path / "run") == 2
    assert capsys.readouterr().err == (
        f"coldness: {path} has 2 rows with NaN or infinite values, the first is row 7\n"
    )
    assert main(["train", "points", "--out", str(tmp_path / "run")]) == 2
    assert "path" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_evaluation_never_counts_more_points_than_there_are(tmp_path: Path) -> None:
    path = saved(tmp_path, normal_points(100))
    settings = read("points", f"--data.path={path}", *QUICK).parts()
    settings = replace(settings, evaluation=replace(settings.evaluation, samples=200))
    figures, arrays = measured(settings)
    assert figures["samples"] == len(arrays["x_data"]) == 20
    assert len(arrays["x_short"]) == 200
