"""The command line as people and scripts use it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import coldness
from coldness.cards import MARK
from coldness.checksums import headed, load_json
from coldness.cli import demo, doctor
from coldness.cli.main import COMMANDS, main
from coldness.cli.options import overrides_of, read_recipe
from coldness.runs.checkpoints import iteration_of, saved
from coldness.training.recipe import Recipe, find, packaged
from small import QUICK

SMALL = [
    *QUICK,
    "--batch_size=16",
    "--sources.0.steps=3",
    "--checkpoint_every=100",
    "--learning_rate=1",  # no schedule, so that a shorter run is the beginning of a longer one
]
KEYS = {
    "kl",
    "reverse_kl",
    "tv",
    "energy_distance_short",
    "energy_distance_long",
    "energy_distance_floor",
    "log_z",
}


def train(out: Path, *more: str, iterations: int = 30) -> int:
    return main(
        ["train", "mixture2d", "--out", str(out), f"--iterations={iterations}", *SMALL, *more]
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trained run; tests must not change it."""
    out = tmp_path_factory.mktemp("runs") / "a"
    assert train(out) == 0
    return out


def refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    """Runs a command that must be refused: exit code 2 and one line on stderr, which is given."""
    capsys.readouterr()
    assert main(words) == 2
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("coldness: ")
    assert captured.out == ""
    return lines[0]


def test_a_run_leaves_everything(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names == {
        "config.yaml",
        "metrics.csv",
        "checkpoints",
        "model",
        "metrics.json",
        "evaluation.npz",
        "report.html",
    }
    metrics = load_json(run / "metrics.json")
    assert KEYS | {"seconds", "iterations"} <= metrics.keys()
    config = (run / "config.yaml").read_text()
    assert "# command: coldness train mixture2d --out" in config
    assert yaml.safe_load(config)["contrast"]["beta"] == 0.9


def test_evaluate_prints_the_figures_that_training_left(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_json(run / "metrics.json")
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == pytest.approx(before)
    assert main(["evaluate", str(run)]) == 0
    assert "report:" in capsys.readouterr().out


def test_sample_writes_x_and_its_potential(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.npz"
    assert main(["sample", str(run), "--n=7", "--steps=4", "--out", str(out)]) == 0
    with np.load(out) as arrays:
        assert arrays["x"].shape == (7, 2)
        assert arrays["potential"].shape == (7,)
        assert np.isfinite(arrays["potential"]).all()
    again = tmp_path / "again.npz"
    assert main(["sample", str(run), "--n=7", "--steps=4", "--out", str(again)]) == 0
    assert np.array_equal(np.load(out)["x"], np.load(again)["x"])


def test_report_of_several_runs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "both.html"
    assert main(["report", str(run), str(run), "--out", str(out)]) == 0
    assert out.read_text().count('class="summary"') == 2
    assert "exists" in refused(capsys, ["report", str(run), "--out", str(out)])
    assert "--out" in refused(capsys, ["report", str(run), str(run)])
    assert main(["report", str(run)]) == 0


def test_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(Recipe):
        @classmethod
        def read(cls, recipe: Any, overrides: Any = None, **options: Any) -> Recipe:
            return Recipe.read(recipe, {**overrides, **overrides_of(SMALL)}, **options)

    monkeypatch.setattr(demo, "Recipe", Small)
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--iterations=3"]) == 0
    assert (out / "report.html").is_file()
    assert {"beta-0", "beta-0.9"} <= {path.name for path in out.iterdir()}
    assert "--overwrite" in refused(capsys, ["demo", "--out", str(out)])


def test_doctor_states_the_temperature(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "mixture2d", *SMALL]) == 0
    text = capsys.readouterr().out
    for wanted in (
        "coldness 800",
        "h = 0.00125",
        "drift 1 on E",
        "noise 0.05",
        "0.333 times the narrowest",
        "no problems found",
    ):
        assert wanted in text
    assert main(["doctor", "rings10d-data", "--sources.0.kernel.step_size=0.001", *SMALL]) == 1
    assert "exceeds the narrowest scale of the data" in capsys.readouterr().out.replace("\n", " ")


def test_doctor_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object, and an exit code that says whether there are warnings."""
    assert main(["doctor", "mixture2d", "--json", *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recipe"] == "mixture2d"
    assert found["warnings"] == []
    assert found["metrics"]["narrowest_scale"] == pytest.approx(0.15, rel=0.1)
    assert main(["doctor", "mixture2d", "--contrast.tempering=-1", "--json", *SMALL]) == 1
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning["cause"] == "uphill"
    assert "climb" in warning["line"]
    assert main(["doctor", "mixture2d", "--sources.0.start.mean=[0.0, 0.0, 0.0]"]) == 2
    assert "these settings do not run" in capsys.readouterr().err


def test_recipes_can_be_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    words = capsys.readouterr().out.split()
    assert {name for name in packaged() if not name.endswith("-small")} <= set(words)
    assert main(["recipes", "--show=rings2d"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["data"] == "Rings2D"
    assert "`coldness recipes` lists them" in refused(capsys, ["recipes", "--show=nothing"])


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "coldness", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"coldness {coldness.__version__}\n"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"]):
        assert main(words) == 0
        text = capsys.readouterr().out
        assert all(f"coldness {command}" in text for command in COMMANDS)
    assert main(["--version"]) == 0
    assert coldness.__version__ in capsys.readouterr().out
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert f"coldness {command}" in text
        assert "Traceback" not in text
    assert main(["train", "--help"]) == 0
    assert "--contrast.beta" in capsys.readouterr().out


def test_bad_words_get_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new"
    words = ["train", "mixture2d", "--out", str(out)]
    assert "no command" in refused(capsys, ["trian"])
    assert "did you mean '--contrast.beta'" in refused(capsys, [*words, "--contrast.betta=1"])
    assert "step_size must be > 0" in refused(capsys, [*words, "--sources.0.kernel.step_size=-1"])
    assert "did you mean" in refused(capsys, ["train", "mixture3d", "--out", str(out)])
    assert "name a recipe" in refused(capsys, ["train", "--out", str(out)])
    assert not out.exists()
    assert "holds no run" in refused(capsys, ["evaluate", str(tmp_path)])
    assert "holds no run" in refused(capsys, ["report", str(tmp_path)])
    assert "holds no model" in refused(
        capsys, ["sample", str(tmp_path), "--out", str(tmp_path / "x.npz")]
    )
    assert "--n must be" in refused(capsys, ["sample", str(run), "--n=0"])
    assert "no folder" in refused(capsys, ["sample", str(run), "--out", "no/such/x.npz"])
    assert "samples >= 2" in refused(capsys, ["evaluate", str(run), "--samples=1"])
    assert "batch" in refused(capsys, [*words, "--sources.0.start=Bank", "--batch_size=0"])


OPTIONS = {
    "class in other letters": ("--sources.0.kernel Hmc", "did you mean 'HMC'?"),
    "last name of a field": ("--beta 0.5", "no option --beta; did you mean '--contrast.beta'?"),
    "in a list": ("--steps=5", "did you mean '--sources.0.steps'?"),
    "abbreviated config": ("--conf x", "no option --conf"),
    "config": ("--config x.yaml", "no option --config"),
    "config in a mapping": ("--conf={optimiser: os.path.join}", "--allow-imports"),
    "letters for numbers": ("--energy.net.widths a,b", "must be a list of int, got 'a,b'"),
    "code": ("--energy.net.widths 64,os.path", "--allow-imports"),
    "no value": ("--sources.0.steps", "--sources.0.steps needs a value"),
    "no value before an option": ("--sources.0.steps --seed=1", "--sources.0.steps needs a value"),
    "two recipes": ("rings2d", "one recipe at a time, not 'mixture2d' and 'rings2d'"),
    "one dash": ("-x", "no option -x"),
    "bad YAML": ("--seed {", "cannot be read"),
    "help on a number": ("--seed.help", "--seed has no fields: it is int"),
    "help on nothing": ("--dta.help", "no option --dta; did you mean 'data'?"),
    "help on no class": ("--data.help Ring2D", "did you mean 'Rings2D'?"),
}


@pytest.mark.parametrize(("given", "says"), OPTIONS.values(), ids=OPTIONS.keys())
def test_bad_options_get_one_line(
    given: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [given] if "{optimiser" in given else given.split()
    for command in ("train", "doctor"):
        out = ["--out", str(tmp_path / "new")] if command == "train" else []
        assert says in refused(capsys, [command, "mixture2d", *out, *words])
    assert not (tmp_path / "new").exists()


def test_unknown_fields_of_files_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(find("mixture2d").read_text() + "bta: 1\n")
    assert "there is no field 'bta'" in refused(capsys, ["train", str(path)])
    path.write_text(find("mixture2d").read_text().replace("{beta:", "{beat:"))
    line = refused(capsys, ["train", str(path)])
    assert "there is no field 'contrast.beat'; did you mean 'contrast.beta'?" in line


def test_a_command_without_its_argument_says_what_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs = {
        "train": "name a recipe, such as mixture2d; see `coldness recipes`",
        "doctor": "name a recipe, such as mixture2d; see `coldness recipes`",
        "sample": "name the folder of a run",
        "evaluate": "name the folder of a run",
        "report": "name the folders of one or several runs",
        "compare": "name the folders of two runs or more",
        "reproduce": "name a study",
    }
    for command, says in needs.items():
        assert main([command]) == 2
        captured = capsys.readouterr()
        line, usage = captured.err.splitlines()
        assert line.startswith(f"coldness: {says}")
        assert usage.startswith(f"usage: coldness {command} ")
        assert captured.out == ""


def test_recipes_and_options_come_in_any_order() -> None:
    words = ["--contrast.beta", "-0.5", "--json", "mixture2d", "--energy.net.widths", "64,32"]
    given, recipe = read_recipe(doctor.parser(), [*words, "--contrast.beta=0.25"])
    assert given.json
    assert recipe.name == "mixture2d"
    assert list(given.overrides) == ["energy.net.widths", "contrast.beta"]
    assert given.overrides["contrast.beta"] == 0.25
    assert recipe["energy.net.widths"] == [64, 32]


def test_values_are_yaml_and_paths_are_not() -> None:
    words = ["--data.path=1.5", "--data.test_path=null", "--evaluation.ood=a.npy", "--seed", "-3"]
    assert overrides_of([*words, "--ema=1e-3", "--threads=null", "--terms=[EnergyL2]"]) == {
        "data.path": "1.5",
        "data.test_path": None,
        "evaluation.ood": ["a.npy"],
        "seed": -3,
        "ema": "1e-3",
        "threads": None,
        "terms": ["EnergyL2"],
    }


@pytest.mark.parametrize("recipe", [[], ["mixture2d"]], ids=["alone", "with a recipe"])
def test_help_on_fields(recipe: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def shown(*words: str) -> str:
        assert main(["train", *recipe, *words]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "Rings2D Rings with radial noise" in shown("--data.help")
    text = shown("--data.help", "Rings2D")
    assert "--data.radii [float, ...]" in text
    assert "(default [1.0, 2.0, 3.0, 4.0])" in text
    assert shown("--data.help=Rings2D") == text
    text = shown("--sources.0.kernel.help")
    assert "HMC Leapfrog trajectory with a Metropolis test." in text
    assert ("--sources.0.kernel.clip_gradient" in text) == bool(recipe)  # its kernel is Langevin
    text = shown("--sources.0.kernel.help", "HMC")
    assert (
        "--sources.0.kernel.leapfrog_steps int n >= 1, the number of gradients per "
        "transition (default 10)" in text
    )
    assert "--sources.0.kernel.step_size float leapfrog step e > 0 (required)" in text
    assert "--energy.net.widths [int, ...] hidden widths" in shown("--energy.net.help", "MLP")
    assert "--optimiser.momentum" in shown("--optimiser.help", "SGD")
    assert "--sources.0.weight" in shown("--sources.help")
    assert "--evaluation.ais.levels" in shown("--evaluation.ais.help")


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "mixture2d", "--help"]) == 0
    text = capsys.readouterr().out
    parts = ["usage: coldness train", "examples:", "\noptions:", "\n  --resume ", "recipe fields"]
    places = [text.index(part) for part in [*parts, "\n  --contrast.beta "]]
    assert places == sorted(places)
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.index("usage:") < text.index("examples:") < text.index("\noptions:")


def test_resume_finds_the_folder_of_the_seed_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("base: mixture2d\nset: {seed: 3}\n")
    assert main(["train", "mine.yaml", "--iterations=3", *SMALL]) == 0
    assert [path.name for path in Path("runs").iterdir()] == ["mine-3"]
    assert main(["train", "mine.yaml", "--resume", "--iterations=5"]) == 0
    assert "resuming at iteration 3" in capsys.readouterr().err
    assert yaml.safe_load(Path("runs/mine-3/config.yaml").read_text())["iterations"] == 5


def test_names_with_brackets_are_printed_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "mixture2d", "--out", "a[/]b", "--iterations=2", *SMALL]) == 0
    assert "mixture2d into a[/]b, seed 0" in capsys.readouterr().err
    assert main(["evaluate", "a[/]b"]) == 0
    assert "report: a[/]b/report.html" in capsys.readouterr().out
    assert main(["sample", "a[/]b", "--n=2", "--steps=1", "--out=[x].npz"]) == 0
    assert "[x].npz" in capsys.readouterr().out
    assert main(["report", "a[/]b", "--out=[bold].html"]) == 0
    assert "report: [bold].html" in capsys.readouterr().out
    assert main(["compare", "a[/]b", "a[/]b", "--out=[red].html"]) == 0
    assert "report: [red].html" in capsys.readouterr().out


def test_folders_that_are_not_ours_are_left_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "model" / "weights.safetensors").read_bytes()
    words = ["train", "mixture2d", "--iterations=1", *QUICK]
    assert "already holds a run" in refused(capsys, [*words, "--out", str(run)])
    assert (run / "model" / "weights.safetensors").read_bytes() == before
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "config.yaml").write_text("mine: 1\n")
    for flag in ((), ("--overwrite",), ("--resume",)):
        line = refused(capsys, [*words, "--out", str(foreign), *flag])
        assert "files that are not of a run" in line
    assert (foreign / "config.yaml").read_text() == "mine: 1\n"
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(capsys, [*words, "--out", str(tmp_path / "file")])
    assert "no run to resume" in refused(capsys, [*words, "--out", str(tmp_path / "e"), "--resume"])
    both = [*words, "--out", str(run), "--resume", "--overwrite"]
    assert "cannot be combined" in refused(capsys, both)


UNFIT = [
    ["--energy.net.inputs=3"],
    ["--sources.0.start.mean=[1,2,3]"],
    ["--sources.0.start=Bank", "--sources.0.start.capacity=10"],
    ["--optimiser=LBFGS", "--optimiser.lr=1"],
    ["--optimiser.lr=-1"],
    ["--contrast.variant=true_objective", "--batch_size=1"],
    ["--sources.0.step_scale=Linear", "--sources.0.step_scale={start: -1, end: 1}"],
    ["--energy={class_path: Sum, init_args: {parts: []}}"],
]


@pytest.mark.parametrize("overrides", UNFIT, ids=lambda words: words[0])
def test_settings_that_cannot_run_cost_nothing(
    overrides: list[str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are found out before anything is written or deleted."""
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    words = ["train", "mixture2d", "--compile=never", *overrides]
    refused(capsys, [*words, "--out", str(run), "--overwrite"])
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    refused(capsys, [*words, "--out", str(tmp_path / "new")])
    assert not (tmp_path / "new").exists()


def test_chains_that_leave_the_finite_numbers_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference this narrow makes long chains unstable: no figure, no NaN, the verdict no."""
    out = tmp_path / "a"
    assert train(out, "--energy.reference_std=0.01", "--evaluation.long_steps=400") == 0
    metrics = load_json(out / "metrics.json")
    assert metrics["lost_chains_long"] == 50
    assert "energy_distance_long" not in metrics
    assert "50 chains became NaN or infinite" in capsys.readouterr().err


def test_files_that_are_not_ours_are_left_alone(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = run / "model" / "weights.safetensors"
    before = weights.read_bytes()
    line = refused(capsys, ["sample", str(run), "--out", str(weights), "--overwrite"])
    assert ".npz" in line
    assert weights.read_bytes() == before
    page = tmp_path / "report.html"
    page.write_text("mine")
    assert "nothing was written" in refused(capsys, ["demo", "--out", str(tmp_path)])
    assert page.read_text() == "mine"


def test_resuming_with_more_iterations_is_recorded(tmp_path: Path) -> None:
    out = tmp_path / "a"
    assert train(out, iterations=5) == 0
    assert train(out, "--resume", iterations=8) == 0
    assert yaml.safe_load((out / "config.yaml").read_text())["iterations"] == 8


def test_broken_runs_get_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    weights = broken / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert "truncated" in refused(capsys, ["evaluate", str(broken)])
    shutil.rmtree(broken / "model")
    assert "--resume" in refused(capsys, ["sample", str(broken), "--out", str(tmp_path / "s.npz")])
    for checkpoint in (broken / "checkpoints").glob("iteration-*.ckpt"):
        checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    capsys.readouterr()
    assert train(broken, "--resume") == 2
    assert "truncated" in capsys.readouterr().err.splitlines()[-1]
    config = broken / "config.yaml"
    shutil.copytree(run / "model", broken / "model")
    for file in (broken / "model" / "model.yaml", config):
        text = re.sub(r"coldness\.nets\.[\w.]*MLP", "os.path.MLP", file.read_text())
        body = text.partition("\n")[2].encode()
        file.write_bytes(text.encode() if file == config else headed(MARK, body))
        assert "os.path.MLP" in file.read_text()
        assert "--allow-imports" in refused(capsys, ["evaluate", str(broken)])
        shutil.copy(run / "model" / "model.yaml", broken / "model" / "model.yaml")


def test_overwrite_replaces_and_resume_continues(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a"
    assert train(out, iterations=20) == 0
    assert train(out, "--resume") == 0  # ten more
    assert "resuming at iteration 20" in capsys.readouterr().err
    assert (out / "model" / "weights.safetensors").read_bytes() == (
        run / "model" / "weights.safetensors"
    ).read_bytes()
    capsys.readouterr()
    line = refused(
        capsys, ["train", "mixture2d", "--out", str(out), "--resume", "--contrast.beta=0"]
    )
    assert "contrast" in line
    assert "of mixture2d, not of rings2d" in refused(
        capsys, ["train", "rings2d", "--out", str(out), "--resume"]
    )
    # The run's own settings are used where nothing is said.
    assert main(["train", "mixture2d", "--out", str(out), "--resume"]) == 0
    assert train(out, "--overwrite", "--contrast.beta=0", iterations=2) == 0
    assert load_json(out / "metrics.json")["iterations"] == 2


def test_divergence_has_its_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "a", "--optimiser.lr=1e30", "--guard.attempts=2") == 3
    told = capsys.readouterr().err
    assert "diverged at iteration" in told
    assert "given up after 2 rollbacks" in told
    assert "Traceback" not in told
    # The last good model is there, judged, with a report that says what happened.
    assert (tmp_path / "a" / "model" / "weights.safetensors").is_file()
    assert "rolled back" in (tmp_path / "a" / "report.html").read_text()


def start(out: Path, *more: str) -> subprocess.Popen[bytes]:
    words = ["train", "mixture2d", "--out", str(out), "--iterations=1500", *SMALL, *more]
    command = [sys.executable, "-m", "coldness.cli.main", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "COLUMNS": "100"})


def wait_for_checkpoint(out: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the run has saved an iteration that it made."""
    for _ in range(1200):
        if any(iteration_of(path) for path in saved(out / "checkpoints")):
            return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"no checkpoint in {out}")


def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """kill -9 in the middle of training, then --resume: the same weights to the bit."""
    assert train(tmp_path / "whole", iterations=1500) == 0
    cut = tmp_path / "cut"
    process = start(cut)
    wait_for_checkpoint(cut, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (cut / "model" / "weights.safetensors").exists()
    assert train(cut, "--resume", iterations=1500) == 0
    files = [tmp_path / name / "model" / "weights.safetensors" for name in ("whole", "cut")]
    assert files[0].read_bytes() == files[1].read_bytes()
    logs = [(tmp_path / name / "metrics.csv").read_text() for name in ("whole", "cut")]
    assert logs[0] == logs[1]


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_saves(tmp_path: Path) -> None:
    out = tmp_path / "a"
    process = start(out, "--iterations=1000000")
    wait_for_checkpoint(out, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"--resume" in err
    assert b"Traceback" not in err
