"""Pretraining of encoders: the command, resuming, what is refused, and energies guided by them."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

import coldness
from coldness.cli.main import main
from coldness.data import Digits
from coldness.files import BadFile
from coldness.objectives.frozen import load_encoder
from coldness.pretraining import Pretraining, PretrainingRecipe, run
from coldness.training.recipe import RecipeError, packaged

TOY = {
    "iterations": 4,
    "batch_size": 6,
    "checkpoint_every": 2,
    "method.encoder.latent": 4,
    "method.encoder.width": 8,
    "method.encoder.depth": 1,
    "method.encoder.heads": 2,
    "method.encoder.hidden": 8,
    "method.decoder_width": 8,
    "method.decoder_depth": 1,
    "method.decoder_heads": 2,
}
"""pretrain/digits-mae, at a size that takes a moment."""

SMALL = {"class_path": "SmallEncoder", "init_args": {"latent": 4, "width": 2, "hidden": 8}}
FEW = {name: TOY[name] for name in ("iterations", "batch_size", "checkpoint_every")}
DIGITS = "pretrain/digits-mae"


def command(out: Path, *more: str) -> list[str]:
    return ["pretrain", DIGITS, *(f"--{k}={v}" for k, v in TOY.items()), f"--out={out}", *more]


def weights(out: Path) -> dict[str, Tensor]:
    return load_encoder(out).state_dict()


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `coldness pretrain`, not to be changed."""
    out = tmp_path_factory.mktemp("pretrained") / "mae"
    assert main(command(out)) == 0
    return out


# The command


def test_the_command_from_end_to_end(
    tmp_path: Path, pretrained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mae"
    assert main(command(out)) == 0
    text = capsys.readouterr().out
    assert "k-NN accuracy 0." in text
    assert "on 359 held-out images in 10 classes (chance 0.1)" in text
    assert f"encoder: {out}/model" in text
    assert sorted(path.name for path in (out / "model").iterdir()) == [
        "model.yaml", "weights.safetensors",
    ]  # fmt: skip
    lines = (out / "metrics.csv").read_text().splitlines()
    assert lines[0] == "iteration,loss"
    assert [line.split(",")[0] for line in lines[1:]] == ["0", "1", "2", "3"]
    assert f"# recipe: {DIGITS}" in (out / "config.yaml").read_text()
    # The same seed gives the same bits, another seed others.
    assert same(weights(out), weights(pretrained))
    assert main(command(out, "--overwrite", "--seed=1")) == 0
    assert not same(weights(out), weights(pretrained))


def test_in_python_without_a_folder(pretrained: Path) -> None:
    state = torch.get_rng_state()
    encoder = coldness.pretrain(DIGITS, overrides=TOY)
    assert torch.equal(torch.get_rng_state(), state)
    assert not encoder.training
    assert same(encoder.state_dict(), weights(pretrained))
    other = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    on_other = coldness.pretrain(DIGITS, data=other, overrides=TOY)
    assert not same(on_other.state_dict(), weights(pretrained))


@pytest.mark.usefixtures("heeds_ctrl_c")
@pytest.mark.parametrize("how", ["ctrl-c", "crash"])
def test_a_resumed_run_has_the_same_bits(
    how: str,
    tmp_path: Path,
    pretrained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, iterate = tmp_path / "mae", run.Run.iterate

    def interrupted(self: run.Run) -> Tensor:
        if self.iteration == 2:
            if how == "crash":
                raise OSError("the disk is gone")
            os.kill(os.getpid(), signal.SIGINT)
        return iterate(self)

    monkeypatch.setattr(run.Run, "iterate", interrupted)
    assert main(command(out)) == (2 if how == "crash" else 130)
    said = "the disk is gone" if how == "crash" else "stopped at iteration 3 and saved"
    assert said in capsys.readouterr().err
    assert not (out / "model").exists()
    monkeypatch.setattr(run.Run, "iterate", iterate)
    assert main(["pretrain", DIGITS, f"--out={out}", "--resume"]) == 0
    assert f"from iteration {2 if how == 'crash' else 3}" in capsys.readouterr().err
    assert same(weights(out), weights(pretrained))
    for name in ("metrics.csv", "model/model.yaml"):
        assert (out / name).read_text() == (pretrained / name).read_text()


@pytest.mark.parametrize("method", ["SimCLR", "BYOL"])
def test_other_methods_pretrain_too(method: str, tmp_path: Path) -> None:
    """Without negatives of a model; any encoder serves."""
    given: dict[str, Any] = {"encoder": SMALL, "augmentation": {"class_path": "CropFlip"}}
    node = {"class_path": method, "init_args": given}
    text = {"data": "Digits", "method": node, **FEW}
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump(text))
    encoder = coldness.pretrain(recipe, overrides={"seed": 3}, out=tmp_path / "out")
    assert same(encoder.state_dict(), weights(tmp_path / "out"))
    assert encoder(Digits().test).shape == (359, 4)


def test_a_loss_that_is_not_finite_ends_the_run_with_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mae"
    wild = ["--method.optimiser.lr=1e30", "--method.learning_rate=1.0"]
    assert main(command(out, *wild)) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert "diverged at iteration 1: the loss is" in message
    assert "loss before" in message
    assert "largest |x| 0.99" in message
    assert not (out / "model").exists()


# What is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pretrain"], "name a recipe, such as pretrain/digits-mae"),
        (["pretrain", "pretrain/digit-mae"], "did you mean 'pretrain/digits-mae'?"),
        (["pretrain", "mixture2d"], "mixture2d is a recipe of `coldness train`"),
        (["train", DIGITS], f"{DIGITS} is a recipe of `coldness pretrain`"),
        (["pretrain", DIGITS, "--method.maks=0.5"], "did you mean '--method.mask'?"),
        (["pretrain", DIGITS, "--method.mask=1.5"], "mask must be between 0 and 1"),
        (["pretrain", DIGITS, "--batch_size=1"], "batch_size must be >= 2"),
        (["pretrain", DIGITS, "--method.encoder=SmallEncoder"], "with patches, such as ViTEnc"),
        (["pretrain", DIGITS, "--method.encoder.patch=3"], "sides are multiples of patch 3"),
        (["pretrain", DIGITS, "--data=Mixture2D"], "Masked needs images"),
        (["pretrain", DIGITS, "--temperature.drift=1"], "there is no field 'temperature'"),
        (["pretrain", DIGITS, "--resume"], "holds no run to resume"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error.splitlines()[0]
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_kept(
    pretrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (pretrained / "model" / "weights.safetensors").read_bytes()
    assert main(command(pretrained)) == 2
    assert "--resume continues it, --overwrite replaces it" in capsys.readouterr().err
    assert main(command(pretrained, "--resume", "--method.mask=0.5")) == 2
    assert "was trained with other settings (method)" in capsys.readouterr().err
    assert main(["train", "digits-clel", f"--out={pretrained}", "--resume"]) == 2
    assert f"holds a run of {DIGITS}, not of digits-clel" in capsys.readouterr().err
    assert (pretrained / "model" / "weights.safetensors").read_bytes() == before
    (tmp_path / "mine.txt").write_text("mine")
    assert main(command(tmp_path)) == 2
    assert "nothing was written" in capsys.readouterr().err


def test_a_method_has_no_batch_size_of_its_own() -> None:
    node = {"class_path": "SimCLR", "init_args": {"encoder": SMALL, "batch_size": 8}}
    with pytest.raises(RecipeError, match="set batch_size instead"):
        coldness.pretrain(DIGITS, overrides={"method": node})


def test_an_encoder_is_no_model(pretrained: Path) -> None:
    for path in (pretrained, pretrained / "model"):
        with pytest.raises(BadFile, match="holds an encoder without an energy: Frozen and MAE"):
            coldness.load(path)


# Recipes and help


@pytest.mark.parametrize("name", packaged("pretrain"))
def test_packaged_recipes_are_read_and_name_their_paper(name: str, tmp_path: Path) -> None:
    text = packaged("pretrain")[name].read_text()
    assert text.startswith(f"# {name}: ")
    assert "# Paper:" in text
    assert "# Deviations:" in text
    recipe = PretrainingRecipe.read(name)
    (tmp_path / "config.yaml").write_text(str(recipe))
    assert PretrainingRecipe.read(tmp_path / "config.yaml") == recipe
    images = np.zeros((40, *((8, 8) if "digits" in name else (32, 32, 3))), dtype=np.uint8)
    made = {"iterations": 1, "batch_size": 2, "threads": 1}
    masked = recipe.values["method"]["class_path"].endswith("Masked")
    made |= {"method.encoder.depth": 1} if masked else {}
    encoder = coldness.pretrain(recipe, data=images, overrides=made)
    assert (encoder.patched is not None) == masked


def test_recipes_and_help_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert not set(packaged()) & set(packaged("pretrain"))
    assert main(["recipes"]) == 0
    assert set(packaged("pretrain")) <= set(capsys.readouterr().out.split())
    assert main(["recipes", f"--show={DIGITS}"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["method"]["class_path"] == "Masked"
    assert main(["--help"]) == 0
    assert "coldness pretrain RECIPE" in capsys.readouterr().out
    assert main(["pretrain", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--method LearningTeacher" in text
    assert "--temperature" not in text
    assert main(["pretrain", "--method.help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("Masked", "SimCLR", "BYOL"))
    assert main(["pretrain", DIGITS, "--method.help", "BYOL"]) == 0
    assert "--method.momentum" in capsys.readouterr().out
    assert Pretraining.__doc__


# Energies that are guided by it

GUIDED = {
    "energy.net.widths": [8],
    "energy.latent": 4,
    "energy.hidden": 8,
    "sources.0.steps": 1,
    "sources.0.start.capacity": 20,
    "iterations": 2,
    "batch_size": 4,
    "compile": "never",
}


@pytest.mark.parametrize("teacher", ["MAE", "Frozen"])
def test_an_energy_is_guided_by_a_pretrained_encoder(
    teacher: str, pretrained: Path, tmp_path: Path
) -> None:
    here = shutil.copytree(pretrained, tmp_path / "mae")
    given = {"path": str(here), **({"latent": 4, "hidden": 8} if teacher == "MAE" else {})}
    guidance = {
        "class_path": "Guidance",
        "init_args": {"teacher": {"class_path": teacher, "init_args": given}},
    }
    overrides = {**GUIDED, "terms": [guidance]}
    model = coldness.train("digits-clel", overrides=overrides, out=tmp_path / "run")
    x = np.random.default_rng(0).uniform(0, 17, (5, 1, 8, 8))
    z = model.encode(x)
    assert z.shape == (5, 4)
    np.testing.assert_allclose((z**2).sum(1), 1, rtol=1e-5)
    # Elsewhere, without the folder of the encoder.
    moved = shutil.move(tmp_path / "run" / "model", tmp_path / "elsewhere")
    shutil.rmtree(here)
    again = coldness.load(moved)
    np.testing.assert_array_equal(again.encode(x), z)
    kept = again.kept["encoder"]
    features = weights(pretrained)
    prefix = "encoder." if teacher == "MAE" else ""
    assert all(torch.equal(kept.state_dict()[prefix + k], v) for k, v in features.items())


def test_a_masked_autoencoder_is_no_teacher_of_an_energy() -> None:
    encoder = {"class_path": "ViTEncoder", "init_args": {"latent": 4, "patch": 2, "depth": 1}}
    teacher = {"class_path": "Masked", "init_args": {"encoder": encoder}}
    guidance = {"class_path": "Guidance", "init_args": {"teacher": teacher}}
    with pytest.raises(RecipeError, match="Masked cannot guide an energy"):
        coldness.train("digits-clel", overrides={**GUIDED, "terms": [guidance]})
