"""Recipes: every one runs, resolves to itself, and says plainly what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coldness.chains import Bank
from coldness.energies import ScalarEnergy
from coldness.kernels import HMC, MALA
from coldness.schedules import Linear
from coldness.training import build
from coldness.training.recipe import RecipeError, find, packaged, resolve
from small import QUICK, stand_in_images


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What recipes that leave something to the user need; and images that stand for CIFAR-10."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(100, 2)))
    stand_in_images(tmp_path)
    monkeypatch.setenv("COLDNESS_DATA", str(tmp_path))
    return {"points": [f"--data.path={tmp_path / 'x.npy'}"]}


def toy(name: str) -> list[str]:
    """Recipes of images at a size that runs anywhere: the parts are as they are, but smaller."""
    if not name.startswith("cifar10"):
        return []
    settings = resolve(find(name))[0].settings
    of_sources = [f"--sources.{k}.steps=2" for k in range(len(settings.sources))]
    banks = [k for k, source in enumerate(settings.sources) if source.start.has_state]
    of_sources += [f"--sources.{k}.start.capacity=20" for k in banks]
    depth = ["--energy.net.depth=10"] if "jem" in name else []
    # A covariance needs more images than there are dimensions.
    size = ["--data.size=8"] if settings.preconditioner == "full" else []
    size += ["--energy.net.attention=4"] if name == "cifar10-white" else []
    return ["--batch_size=4", "--energy.net.width=1", *of_sources, *depth, *size]


@pytest.mark.parametrize("name", packaged())
def test_every_recipe_runs_for_two_iterations(name: str, needed: dict[str, list[str]]) -> None:
    given = ["--compile=never", *toy(name), *needed.get(name, [])]
    training = build(resolve(find(name), given)[0].settings)
    for _ in range(2):
        figures = training.iterate()
    assert float(figures["parameter_gradient"]) > 0


@pytest.mark.parametrize("name", packaged())
def test_a_resolved_recipe_resolves_to_itself(
    name: str, tmp_path: Path, needed: dict[str, list[str]]
) -> None:
    text = resolve(find(name), needed.get(name, []))[0].text
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert resolve(path)[0].text == text


@pytest.mark.parametrize("name", packaged())
def test_every_recipe_names_its_paper_and_its_deviations(name: str) -> None:
    text = find(name).read_text()
    assert text.startswith(f"# {name}: ")
    if name.startswith("failures/"):
        assert "# Healthy: --" in text
    else:
        assert "# Paper:" in text
        assert "# Deviations:" in text


def test_drift_and_noise_become_coldness_and_step() -> None:
    settings = resolve(find("mixture2d"))[0].settings
    assert settings.energy.coldness == 800.0
    assert settings.sources[0].kernel.step_size == 0.00125
    leapfrog = resolve(find("mixture2d"), ["--sources.0.kernel=HMC", "--temperature.noise=5e-2"])
    kernel = leapfrog[0].settings.sources[0].kernel
    assert kernel.step_size == 0.05
    assert kernel.langevin_step == pytest.approx(0.00125)


def test_overrides() -> None:
    settings = resolve(
        find("mixture2d-convergent"),
        [
            "--contrast.beta=Linear",
            "--contrast.beta.start=0",
            "--contrast.beta.end=0.5",
            "--sources.0.kernel",
            "HMC",
            "--sources.0.kernel.leapfrog_steps",
            "3",
            "--sources.0.start.capacity=50",
            "--energy.reference_std=3",
            "--temperature.noise=0.1",
            "--seed=9",
        ],
    )[0].settings
    source = settings.sources[0]
    assert settings.contrast.beta == Linear(0.0, 0.5)
    assert source.kernel == HMC(step_size=0.1, leapfrog_steps=3)
    assert isinstance(source.start, Bank)
    assert source.start.capacity == 50
    assert isinstance(settings.energy, ScalarEnergy)
    assert settings.energy.reference_std == 3.0
    assert settings.energy.coldness == pytest.approx(200)
    assert settings.seed == 9
    assert isinstance(
        resolve(find("mixture2d"), ["--sources.0.kernel=MALA"])[0].settings.sources[0].kernel, MALA
    )


BAD = {
    "unknown key": (["--contrast.betta=1"], "did you mean 'beta'"),
    "unknown field": (["--iteratons=1"], "did you mean 'iterations'"),
    "unknown class": (["--data=Mixtur2D"], "did you mean 'Mixture2D'"),
    "unknown key in a list": (["--sources.0.kernell=MALA"], "did you mean 'kernel'"),
    "unknown argument": (["--sources.0.start.stdd=1"], "did you mean 'std'"),
    "wrong type": (["--iterations=many"], "iterations"),
    "wrong number": (["--contrast.beta=warm"], "contrast.beta"),
    "step": (["--sources.0.kernel.step_size=0"], "step_size must be > 0"),
    "negative steps": (["--sources.0.steps=-1"], "steps must be >= 0"),
    "count": (["--sources.0.count=0"], "count must be >= 1"),
    "weight": (["--sources.0.weight=0"], "weight must be > 0"),
    "weights": (["--data.weights=[.5,.4,.02,.02,.02,.02,.02,.02]"], "sum to 1"),
    "number of weights": (["--data.weights=[.5,.5]"], "2 weights for 8"),
    "no such entry": (["--sources.4.steps=1"], "no entry 4"),
    "no value": (["--sources.0.steps"], "needs a value"),
    "variant": (["--contrast.variant=best"], "batch_corrected"),
    "coldness": (["--energy.coldness=-1"], "coldness must be > 0"),
    "noise": (["--temperature.noise=0"], "temperature"),
    "temperature keys": (["--temperature.nois=1"], "temperature"),
    "no sources": (["--sources=[]"], "at least one"),
    "iterations": (["--iterations=0"], "iterations must be >= 1"),
    "ema": (["--ema=1"], "ema must be between"),
    "clip": (["--clip_gradient=-1"], "clip_gradient must be > 0"),
    "threads": (["--threads=0"], "threads must be >= 1"),
    "evaluation": (["--evaluation.samples=1"], "samples >= 2"),
    "code from elsewhere": (["--energy.net=os.path"], "--allow-imports"),
    "code in a list": (["--terms=[{class_path: os.path}]"], "--allow-imports"),
    "another file": (["--config=other.yaml"], "no option --config"),
    "unreadable": (["--sources.0.steps={"], "cannot be read"),
    "odd grid": (["--evaluation.grid=41"], "even"),
    "radius": (["--data.radius=-1"], "radius must be > 0"),
    "step scale": (["--sources.0.step_scale=0"], "step_scale must be > 0"),
    "learning rate": (["--learning_rate=-1"], "learning_rate must be >= 0"),
    "data noise": (["--data_noise=-1"], "data_noise must be >= 0"),
}


@pytest.mark.parametrize(("overrides", "says"), BAD.values(), ids=BAD.keys())
def test_bad_overrides_get_one_line(overrides: list[str], says: str) -> None:
    with pytest.raises(RecipeError) as caught:
        resolve(find("mixture2d"), overrides)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert "<class" not in message


FILES = {
    "not YAML": (": : :\n- [", "not a YAML file"),
    "a list": ("- a\n- b\n", "not a recipe"),
    "empty": ("", "not a recipe"),
    "key": ("{data: Mixture2D, optimizer: Adam}", "did you mean 'optimiser'"),
    "both": ("{temperature: {drift: 1, noise: 1}, energy: {class_path: ScalarEnergy, init_args: "
             "{coldness: 1}}}", "not both"),
    "no class": ("{temperature: {drift: 1, noise: 1}, energy: 3}", "must name a class"),
    "import": ("{data: subprocess.Popen}", "--allow-imports"),
    "hidden import": ("{terms: [{class_path: http.server.HTTPServer}]}", "--allow-imports"),
    "mapping in quotes": ("{data: '{class_path: evil.Evil}'}", "--allow-imports"),
    "JSON in quotes": ("""{data: '{"class_path": "evil.Evil"}'}""", "--allow-imports"),
    "list in quotes": ("{sources: '[{start: evil.Evil}]'}", "--allow-imports"),
    "nested in quotes": ('{contrast: "{beta: {class_path: evil.X}}"}', "--allow-imports"),
    "another file": ("{contrast: /tmp/sub.yaml}", "--allow-imports"),
    "config key": ("{config: /tmp/evil.yaml}", "no key 'config'"),
    "letters of other alphabets": ("{data: évil.Evil}", "--allow-imports"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), FILES.values(), ids=FILES.keys())
def test_bad_files_get_one_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        resolve(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_recipes_get_the_nearest_name() -> None:
    with pytest.raises(RecipeError, match="did you mean 'mixture2d'"):
        find("mixtur2d")


def test_imports_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_parts.py").write_text(
        "from coldness.nets import MLP\nclass MyNet(MLP):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = ["--energy.net=my_parts.MyNet", "--energy.net.inputs=2", "--compile=never"]
    with pytest.raises(RecipeError, match="allow-imports"):
        resolve(find("mixture2d"), mine)
    settings = resolve(find("mixture2d"), mine, allow_imports=True)[0].settings
    assert type(settings.energy.net).__name__ == "MyNet"  # type: ignore[attr-defined]


def test_quick_overrides_are_valid() -> None:
    assert resolve(find("mixture2d"), QUICK)[0].settings.evaluation.samples == 50


@pytest.mark.parametrize(
    "word", ["--conf={optimiser: os.path.join}", "--co={data: a.b}", "--conf=other.yaml"]
)
def test_abbreviated_options_do_not_get_past_the_check_of_imports(word: str) -> None:
    with pytest.raises(RecipeError):
        resolve(find("mixture2d"), [word])
    with pytest.raises(RecipeError, match="conf"):
        resolve(find("mixture2d"), ["--conf=1"])


def test_a_recipe_may_name_another_and_set_fields_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: mixture2d\nset: {sources.0.steps: 7, temperature.noise: 0.1}\n")
    settings = resolve(path)[0].settings
    assert settings.sources[0].steps == 7
    assert settings.sources[0].kernel.step_size == pytest.approx(0.005)
    beside = tmp_path / "other.yaml"
    beside.write_text("base: mine.yaml\nset: {batch_size: 3}\n")
    settings = resolve(beside, ["--iterations=5"])[0].settings
    assert (settings.sources[0].steps, settings.batch_size, settings.iterations) == (7, 3, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: mixture2d\nbatch_size: 3\n", "must hold `base: RECIPE`"),
        ("base: mixture3d\n", "did you mean 'mixture2d'"),
        ("base: mine.yaml\n", "no recipe 'mine.yaml'"),
        ("base: mixture2d\nset: {sources.4.steps: 7}\n", "there is no entry 4"),
        ("base: [mixture2d]\n", "must hold `base: RECIPE`"),
        ("base: mixture2d\nset: {energy: os.system}\n", "outside coldness"),
    ],
)
def test_a_base_that_cannot_be_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        resolve(path)
