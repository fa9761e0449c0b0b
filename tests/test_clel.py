"""Latent guidance in runs: resumption, what the model keeps, and samples under conditions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from coldness.cli.main import main
from coldness.data import Shapes
from coldness.evaluation import evaluate
from coldness.files import BadFile
from coldness.model import Model, load
from coldness.nets.spectral import SpectralConv2d
from coldness.objectives import Frozen
from coldness.training import build, fit
from coldness.training.result import model_of
from small import read, same, saved_state, settings, trained, weights

SMALL = (
    "digits-clel",
    "--energy.latent=4",
    "--energy.hidden=8",
    "--energy.guidance=0.5",
    "--terms.0.teacher.encoder.latent=4",
    "--terms.0.teacher.encoder.width=4",
    "--terms.0.teacher.encoder.hidden=8",
    "--terms.0.teacher.batch_size=20",
    "--sampler.steps=3",
    "--evaluation.class_samples=2",
    "--evaluation.features=none",
    "--evaluation.adjusted=false",
    "--evaluation.ais=null",
    "--iterations=4",
)
OTHERS = {
    "SimCLR": (),
    "BYOL": (
        "--terms.0.teacher={class_path: BYOL, init_args: {hidden: 8, batch_size: null, encoder: "
        "{class_path: SmallEncoder, init_args: {latent: 4, width: 4, hidden: 8}}}}",
    ),
    "Labels": ("--terms.0.teacher=Labels", "--energy.latent=12"),
    "with a contrast": ("--contrast.beta=0.0001", "--contrast.tempering=1"),
    "residual network": (
        "--energy.net={class_path: ResidualNet, init_args: {widths: [4, 4], hidden: 8}}",
        "--ema={decay: 0.9, begin: 1, first: true}",
    ),
    "multi-head": (
        "--energy={class_path: MultiHeadEnergy, init_args: {net: {class_path: MLP, init_args: "
        "{widths: [8]}}, latent: 4, hidden: 8, coldness: 800}}",
    ),
    "chains from data beside the bank": (
        "--sources=[{start: DataStart, kernel: {class_path: Langevin, init_args: {step_size: "
        "0.001}}, steps: 2}, {start: {class_path: Bank, init_args: {capacity: 100, initial: "
        "UniformNoise}}, kernel: {class_path: Langevin, init_args: {step_size: 0.001}}, steps: 2}]",
    ),
    "chains given latents": ("--sources.0.conditional=true", "--sources.0.start.capacity=80"),
    "whitened": ("--preconditioner=full", "--data_noise=0.1"),
}


@pytest.fixture(scope="module")
def model() -> Model:
    training = build(settings(*SMALL))
    fit(training)
    return model_of(training)


@pytest.mark.parametrize("more", OTHERS.values(), ids=OTHERS.keys())
def test_guided_runs_resume_to_the_bit(more: tuple[str, ...], tmp_path: Path) -> None:
    """Encoder, its optimiser, average and batch-norm buffers are in the checkpoint."""
    run = (*SMALL, *more)
    whole = trained(tmp_path / "whole", *run)
    half = build(settings(*run, "--checkpoint_every=2"))
    half.iterate()
    half.iterate()
    state = half.state_dict()
    resumed = build(settings(*run))
    resumed.load_state_dict(state)
    while resumed.iteration < 4:
        resumed.iterate()
    assert same(whole.state_dict()["terms"], resumed.state_dict()["terms"])
    assert same(weights(whole), weights(resumed))
    saved = saved_state(tmp_path / "whole")["terms"][0]
    if "average" in saved:
        assert any("running_mean" in name for name in saved["average"])
        assert saved["optimiser"]["state"]


def test_chains_keep_the_latent_that_they_began_with() -> None:
    """All 16 slots are drawn every time: they take latents of the first batch, and keep them."""
    run = (*SMALL, "--sources.0.conditional=true", "--sources.0.start.refresh=0")
    training = build(settings(*run, "--sources.0.start.capacity=16"))
    bank, seen = training.settings.sources[0].start, []
    read = training.energy.read

    def reading(outputs: Tensor, condition: Tensor | None = None) -> Tensor:
        if condition is not None and len(outputs) == 32:
            seen.append(condition)
        return read(outputs, condition)

    training.energy.read = reading
    training.iterate()
    training.iterate()
    (data, model), (data_later, model_later) = (z.split(16) for z in seen)
    torch.testing.assert_close(data, model)  # of the batch, in its order
    order, later = model[:, 0].argsort(), model_later[:, 0].argsort()
    torch.testing.assert_close(model_later[later], model[order])
    assert not torch.equal(data_later, data)
    own = bank.latents[:, 0].argsort()
    torch.testing.assert_close(bank.latents[own], model[order])


def test_chains_given_the_latents_of_their_own_examples_have_no_gap() -> None:
    """d = c (E(x, z) - E(x-, z)) is 0 where negatives are the data, each with its latent."""
    start = (
        "--sources=[{start: DataStart, kernel: {class_path: Langevin, init_args: {step_size: "
        "0.001}}, steps: 0, conditional: true}]"
    )
    training = build(settings(*SMALL, start, "--data_noise=0", "--energy.guidance=30"))
    assert float(training.iterate()["d"]) == pytest.approx(0.0, abs=1e-3)


def test_a_condition_leads_in_the_first_third_of_the_steps(model: Model) -> None:
    """Samples are those of 2 steps given 5 z and 4 given z, with the same random numbers."""
    source = replace(model.sampler, steps=6, transition=None, lead=5.0)
    z = normalize(torch.randn(3, 4, generator=torch.Generator().manual_seed(1)), dim=1)
    like, energy = torch.zeros(1, *model.domain.shape), model.energy
    found = source.sample(energy, like, 3, torch.Generator().manual_seed(0), given=z)
    generator = torch.Generator().manual_seed(0)
    x = source.noise(energy, like, 3, generator)
    for given, steps in ((5 * z, 2), (z, 4)):
        x = source.carry_on(energy.given(given), x, steps, generator).x
    torch.testing.assert_close(found.x, x, rtol=0, atol=0)
    plain = source.sample(energy, like, 3, torch.Generator().manual_seed(0))
    alone = replace(source, lead=1.0).sample(energy, like, 3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(plain.x, alone.x, rtol=0, atol=0)  # without a condition
    with pytest.raises(ValueError, match=r"lead must be >= 1, got 0\.5"):
        replace(source, lead=0.5)


def test_without_guidance_conditional_samples_are_refused_and_not_evaluated() -> None:
    """As in the studies' runs without guidance, whose evaluation asks for a guidance of 1."""
    run = settings(*SMALL, "--energy.guidance=0", "--evaluation.guidance=1")
    training = build(run)
    fit(training)
    model = model_of(training)
    with pytest.raises(ValueError, match="trained without guidance"):
        model.sample(2, label=3)
    metrics, _ = evaluate(model, run.data, run.evaluation)
    assert "alignment" in metrics
    assert not {"class_agreement", "like_agreement"} & set(metrics)


def test_chains_cannot_be_given_latents_that_no_term_has() -> None:
    with pytest.raises(ValueError, match="conditional sources need a term with latents"):
        build(settings(*SMALL, "--sources.0.conditional=true", "--terms=[EnergyL2]"))


def test_the_model_keeps_its_encoder_and_latents(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    x = np.random.default_rng(0).integers(0, 17, (5, 1, 8, 8)).astype(float)
    z = model.encode(x)
    assert z.shape == (5, 4)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(again.encode(x), z)
    latents = again.kept["class_latents"]
    assert latents.shape == (10, 4)
    torch.testing.assert_close(latents.norm(dim=1), torch.ones(10))
    for asked in (
        {"label": 3}, {"label": "all"}, {"like": x}, {"all_of": "3,-8"}, {"given": z[0]},
        {"given": z, "guidance": 2.0},
    ):  # fmt: skip
        a, b = (m.sample(5, seed=0, **asked) for m in (model, again))
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, model.sample(5, seed=0))


def test_conditions_are_what_the_paper_says(model: Model) -> None:
    x = np.random.default_rng(1).integers(0, 17, (3, 1, 8, 8)).astype(float)
    z = torch.from_numpy(model.encode(x)).float()
    condition, _ = model.condition(2, like=x)
    torch.testing.assert_close(condition, normalize(z.sum(0), dim=0).expand(2, 4))
    latents = model.kept["class_latents"]
    condition, labels = model.condition(2, label="7", guidance=1.0)
    torch.testing.assert_close(condition, 2 * latents[7].expand(2, 4))  # 1 instead of 0.5
    assert labels.tolist() == [7, 7]
    for asked in ("1, -2:3", ["1", "not 2:3"], {"1": 1.0, "2": -3.0}):
        condition, _ = model.condition(2, all_of=asked)
        torch.testing.assert_close(condition, (latents[1] - 3 * latents[2]).expand(2, 4))


BAD = {
    "two at once": ({"label": 1, "given": np.zeros(4)}, "give one of label and given"),
    "no such name": ({"all_of": "seven"}, "there is no attribute or class 'seven'"),
    "a bad weight": ({"all_of": "7:much"}, "must be an attribute, or attribute:weight"),
    "nothing": ({"all_of": ","}, "all_of names nothing"),
    "another shape": ({"given": np.zeros(3)}, r"given must have the shape \(4,\) or \(2, 4\)"),
    "guidance of p(x)": ({"guidance": 0.1}, "guidance needs a model with latents"),
    "another image": ({"like": np.zeros((1, 3, 8, 8))}, "examples must have the shape"),
}


@pytest.mark.parametrize(("asked", "reason"), BAD.values(), ids=BAD.keys())
def test_bad_conditions_are_refused(model: Model, asked: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        model.sample(2, **asked)


def test_plain_models_have_nothing_to_condition_on() -> None:
    training = build(settings("mixture2d"))
    plain = model_of(training)
    for asked, reason in (
        ({"label": 1}, "labels need a model with classes"),
        ({"like": np.zeros((1, 2))}, "has no encoder"),
        ({"all_of": "a"}, "no latents of classes or attributes"),
        ({"given": np.zeros(4)}, "nothing to condition on"),
    ):
        with pytest.raises(ValueError, match=reason):
            plain.sample(2, **asked)
    with pytest.raises(ValueError, match="has no encoder"):
        plain.encode(np.zeros((1, 2)))


def test_the_command_samples_under_conditions(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    for k, words in enumerate((["--label", "3"], ["--all-of", "3,-8", "--guidance", "1"])):
        out = tmp_path / f"{k}.npz"
        where = ["--n", "4", "--seed", "5", "--out", str(out)]
        assert main(["sample", str(tmp_path / "model"), *where, *words]) == 0
        with np.load(out) as found:
            asked = {"label": 3} if k == 0 else {"all_of": {"3": 1, "8": -1}, "guidance": 1}
            np.testing.assert_array_equal(found["x"], model.sample(4, seed=5, **asked))


def test_what_is_measured_of_latents(model: Model) -> None:
    s = settings(*SMALL)
    metrics, arrays = evaluate(model, s.data, s.evaluation)
    for key in ("alignment", "knn_accuracy", "probe_accuracy", "direction_accuracy"):
        assert -1 <= metrics[key] <= 1
    assert metrics["probe_accuracy"] > 0.3  # an encoder of 4 iterations; chance is 0.1
    assert {"class_agreement", "like_agreement"} <= metrics.keys()
    assert arrays["confusion"].shape == (10, 10)
    torch.testing.assert_close(arrays["confusion"].sum(1), torch.ones(10, dtype=torch.float64))
    assert len(arrays["x_like"]) == 2 * len(arrays["x_instance"]) == 20
    assert "auroc_joint_noise" in metrics
    # The score is minus Eq. 14, with a weight of its own.
    x = s.data.test[:5]
    h = torch.from_numpy(model.encode(model.domain.units.original(x).numpy())).float()
    f = model.energy.outputs(x).detach()
    expected = 0.1 * (model.energy.direction(f) * h).sum(1) - f.square().sum(1) / 2
    found = model.energy.scores(x, model.kept)["joint"].detach()
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-5)


def test_attributes_are_composed_and_judged() -> None:
    s = settings(*SMALL, "--iterations=2")
    recipe = read(*SMALL, "--energy.net.widths=[8]", "--iterations=2", "--batch_size=8",
                  "--terms.0.teacher.augmentation=null", "--compile=never")  # fmt: skip
    training = build(recipe.parts(data=Shapes(count=1200, size=8)))
    fit(training)
    model = model_of(training)
    assert model.kept["attribute_latents"].shape == (11, 4)
    metrics, arrays = evaluate(model, training.settings.data, s.evaluation)
    sizes = {"attribute_agreement", "attribute_agreement_2", "attribute_agreement_3"}
    assert {*sizes, "attribute_agreement_not", "attribute_judge_accuracy"} <= metrics.keys()
    rows = arrays["attribute_table"]
    assert rows.shape[1] == 22
    assert len(arrays["x_attributes"]) == 2 * len(rows)
    asked = rows[:, :11]
    assert set(asked.abs().sum(1).tolist()) == {1.0, 2.0, 3.0}
    x = model.sample(3, all_of="red,circle,-large", seed=0)
    assert x.shape == (3, 3, 8, 8)


def test_an_encoder_of_another_run_guides(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    word = f"--terms.0.teacher={{class_path: Frozen, init_args: {{path: {tmp_path / 'model'}}}}}"
    training = build(settings(*SMALL, word))
    before = [p.clone() for p in training.settings.terms[0].teacher.encoder.parameters()]
    row = training.iterate()
    assert "guidance_alignment" in row
    assert "guidance_teacher" not in row
    after = training.settings.terms[0].teacher.encoder.parameters()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    with pytest.raises(BadFile, match="holds no model with an encoder"):
        Frozen(str(tmp_path / "none"))


def test_spectral_norms_follow_the_weights_once_per_update() -> None:
    training = build(settings(*SMALL, *OTHERS["residual network"]))
    layer = next(m for m in training.energy.modules() if isinstance(m, SpectralConv2d))
    before, was = layer.u.clone(), float(layer.sigma().detach())
    training.iterate()
    assert not torch.equal(layer.u, before)
    assert float(layer.sigma().detach()) == pytest.approx(was, rel=0.2)
