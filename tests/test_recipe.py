"""Recipes: every one runs, resolves to itself, and says plainly what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from coldness.chains import Bank
from coldness.cli.options import OptionError
from coldness.data import Mixture2D
from coldness.energies import ScalarEnergy
from coldness.kernels import HMC, MALA
from coldness.nets import MLP
from coldness.schedules import Linear
from coldness.training import build
from coldness.training.recipe import Recipe, RecipeError, find, packaged
from small import QUICK, read, stand_in_images


@pytest.fixture
def needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What recipes that leave something to the user need; and images that stand for CIFAR-10."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(100, 2)))
    stand_in_images(tmp_path)
    monkeypatch.setenv("COLDNESS_DATA", str(tmp_path))
    pictures, listed = attributed_folder(tmp_path / "celeba")
    path = f"--data.path={tmp_path / 'x.npy'}"
    return {
        "points": [path],
        "table": [path, "--stop=null"],
        "imagenet32-clel-base": ["--data.path=cifar10"],
        "imagenet32-clel-large": ["--data.path=cifar10"],
        "celeba64-clel": [f"--data.path={pictures}", f"--data.attributes_path={listed}"],
    }


def attributed_folder(folder: Path) -> tuple[Path, Path]:
    """Images of two sizes in a folder, and their attributes in CelebA's form."""
    folder.mkdir()
    lines = ["10", "Young Smiling"]
    rng = np.random.default_rng(0)
    for k in range(10):
        pixels = rng.integers(0, 256, (70 + k % 2, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{k}.png")
        lines.append(f"{k}.png {1 - 2 * (k % 2)} {1 - 2 * (k // 5)}")
    listed = folder.parent / "list_attr_celeba.txt"
    listed.write_text("\n".join(lines) + "\n")
    return folder, listed


def toy(name: str, *given: str) -> list[str]:
    """Recipes of images at a size that runs anywhere: the parts are as they are, but smaller."""
    if not name.startswith(("cifar10", "imagenet32", "celeba64")):
        return []
    recipe = read(name, *given)  # not its parts: networks of full size take seconds to make
    of_sources = [f"--sources.{k}.steps=2" for k in range(len(recipe["sources"]))]
    starts = [source["start"] for source in recipe["sources"]]
    banks = [k for k, start in enumerate(starts) if "capacity" in (start.get("init_args") or {})]
    of_sources += [f"--sources.{k}.start.capacity=20" for k in banks]
    if "clel" in name:
        net = ["--energy.net.widths=[2, 2]", "--energy.net.hidden=4", "--energy.hidden=4"]
        latents = ["--energy.latent=3", "--terms.0.teacher.encoder.latent=3"]
        encoder = ["--terms.0.teacher.encoder.width=2", "--terms.0.teacher.encoder.hidden=4"]
        return ["--batch_size=4", *net, *latents, *encoder, *of_sources]
    depth = ["--energy.net.depth=10"] if "jem" in name else []
    # A covariance needs more images than there are dimensions.
    size = ["--data.size=8"] if recipe["preconditioner"] == "full" else []
    size += ["--energy.net.attention=4"] if name == "cifar10-white" else []
    return ["--batch_size=4", "--energy.net.width=1", *of_sources, *depth, *size]


@pytest.mark.parametrize("name", packaged())
def test_every_recipe_runs_for_two_iterations(name: str, needed: dict[str, list[str]]) -> None:
    own = needed.get(name, [])
    given = ["--compile=never", *toy(name, *own), *own]
    training = build(read(name, *given).parts())
    for _ in range(2):
        figures = training.iterate()
    assert float(figures["parameter_gradient"]) > 0


@pytest.mark.parametrize("name", packaged())
def test_a_resolved_recipe_resolves_to_itself(
    name: str, tmp_path: Path, needed: dict[str, list[str]]
) -> None:
    recipe = read(name, *needed.get(name, []))
    path = tmp_path / "config.yaml"
    path.write_text(str(recipe))
    again = read(path)
    assert again.text == recipe.text == str(again)
    assert again == recipe
    assert hash(again) == hash(recipe)
    assert recipe.replace({"seed": 8}) != recipe
    assert recipe.replace({"seed": 8}).seed == 8


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
    settings = read("mixture2d").parts()
    assert settings.energy.coldness == 800.0
    assert settings.sources[0].kernel.step_size == 0.00125
    leapfrog = read("mixture2d", "--sources.0.kernel=HMC", "--temperature.noise=5e-2")
    kernel = leapfrog.parts().sources[0].kernel
    assert kernel.step_size == 0.05
    assert kernel.langevin_step == pytest.approx(0.00125)


def test_overrides() -> None:
    settings = read(
        "mixture2d-convergent",
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
    ).parts()
    source = settings.sources[0]
    assert settings.contrast.beta == Linear(0.0, 0.5)
    assert source.kernel == HMC(step_size=0.1, leapfrog_steps=3)
    assert isinstance(source.start, Bank)
    assert source.start.capacity == 50
    assert isinstance(settings.energy, ScalarEnergy)
    assert settings.energy.reference_std == 3.0
    assert settings.energy.coldness == pytest.approx(200)
    assert settings.seed == 9
    kernel = read("mixture2d", "--sources.0.kernel=MALA").parts().sources[0].kernel
    assert isinstance(kernel, MALA)


BAD = {
    "unknown key": (["--contrast.betta=1"], "did you mean 'contrast.beta'"),
    "unknown field": (["--iteratons=1"], "did you mean 'iterations'"),
    "unknown class": (["--data=Mixtur2D"], "did you mean 'Mixture2D'"),
    "unknown key in a list": (["--sources.0.kernell=MALA"], "did you mean 'sources.0.kernel'"),
    "unknown argument": (["--sources.0.start.stdd=1"], "did you mean 'sources.0.start.std'"),
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
    "another file": (["--config=other.yaml"], "no field 'config'"),
    "class in other letters": (
        ["--sources.0.kernel=Hmc"],
        "sources.0.kernel: there is no Kernel 'Hmc'; did you mean 'HMC'?",
    ),
    "field of another part": (
        ["--beta=0.5"],
        "there is no field 'beta'; did you mean 'contrast.beta'?",
    ),
    "letters for numbers": (
        ["--energy.net.widths=a,b"],
        "energy.net.widths must be a list of int, got 'a,b'",
    ),
    "nothing": (["--tensorboard=null"], "tensorboard must be bool, got None"),
    "part of a union": (
        ["--evaluation.ais.kernel=Langevin"],
        "evaluation.ais: kernel of AIS must have a Metropolis test",
    ),
    "unreadable": (["--sources.0.steps={"], "cannot be read"),
    "odd grid": (["--evaluation.grid=41"], "even"),
    "radius": (["--data.radius=-1"], "radius must be > 0"),
    "step scale": (["--sources.0.step_scale=0"], "step_scale must be > 0"),
    "learning rate": (["--learning_rate=-1"], "learning_rate must be >= 0"),
    "data noise": (["--data_noise=-1"], "data_noise must be >= 0"),
}


@pytest.mark.parametrize(("overrides", "says"), BAD.values(), ids=BAD.keys())
def test_bad_overrides_get_one_line(overrides: list[str], says: str) -> None:
    with pytest.raises((RecipeError, OptionError)) as caught:
        read("mixture2d", *overrides).parts()
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
    "config key": ("{config: /tmp/evil.yaml}", "no field 'config'"),
    "letters of other alphabets": ("{data: évil.Evil}", "--allow-imports"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), FILES.values(), ids=FILES.keys())
def test_bad_files_get_one_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        read(path)
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
    mine = {"energy.net": "my_parts.MyNet", "energy.net.inputs": 2, "compile": "never"}
    with pytest.raises(RecipeError, match="allow-imports"):
        Recipe.read("mixture2d", mine)
    recipe = Recipe.read("mixture2d", mine, allow_imports=True)
    for settings in (recipe.parts(), recipe.replace({"seed": 1}).parts()):
        assert type(settings.energy.net).__name__ == "MyNet"  # type: ignore[attr-defined]


def test_quick_overrides_are_valid() -> None:
    assert read("mixture2d", *QUICK).parts().evaluation.samples == 50


@pytest.mark.parametrize(
    "word", ["--conf={optimiser: os.path.join}", "--co={data: a.b}", "--conf=other.yaml"]
)
def test_abbreviated_options_do_not_get_past_the_check_of_imports(word: str) -> None:
    with pytest.raises(RecipeError):
        read("mixture2d", word)
    with pytest.raises(RecipeError, match="conf"):
        read("mixture2d", "--conf=1")


def test_a_recipe_may_name_another_and_set_fields_of_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: mixture2d\nset: {sources.0.steps: 7, temperature.noise: 0.1}\n")
    settings = read(path).parts()
    assert settings.sources[0].steps == 7
    assert settings.sources[0].kernel.step_size == pytest.approx(0.005)
    beside = tmp_path / "other.yaml"
    beside.write_text("base: mine.yaml\nset: {batch_size: 3}\n")
    settings = read(beside, "--iterations=5").parts()
    assert (settings.sources[0].steps, settings.batch_size, settings.iterations) == (7, 3, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: mixture2d\nbatch_size: 3\n", "must hold only `base: RECIPE`"),
        ("base: mixture3d\n", "did you mean 'mixture2d'"),
        ("base: mine.yaml\n", "no recipe 'mine.yaml'"),
        ("base: mixture2d\nset: {sources.4.steps: 7}\n", "there is no entry 4"),
        ("base: [mixture2d]\n", "must hold only `base: RECIPE`"),
        ("base: mixture2d\nset: {energy: os.system}\n", "outside coldness"),
    ],
)
def test_a_base_that_cannot_be_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        read(path)


def test_values_by_path() -> None:
    recipe = Recipe.read("rings10d", {"sources.0.steps": 7, "seed": 3, "iterations": 11})
    assert (recipe.seed, recipe.iterations, recipe.name) == (3, 11, "rings10d")
    assert recipe["sources.0.steps"] == 7
    assert recipe["sources.1.kernel.step_size"] == 0.002
    assert recipe["energy.net.class_path"] == "coldness.nets.MLP"
    assert recipe["energy.net"]["init_args"]["activation"] == "silu"
    with pytest.raises(KeyError, match=r"sources\.9\.steps"):
        recipe["sources.9.steps"]
    recipe.values["seed"] = 5
    assert recipe.seed == 3


def test_overrides_keep_what_both_classes_have_and_lists_keep_nothing() -> None:
    recipe = Recipe.read("rings10d", {"optimiser": "SGD", "learning_rate": {"end": 0.5}})
    assert recipe["optimiser.class_path"] == "torch.optim.SGD"
    assert recipe["optimiser.lr"] == 0.002
    assert recipe["learning_rate"]["class_path"] == "coldness.schedules.Cosine"
    assert recipe["learning_rate.end"] == 0.5
    merged = Recipe.read("mixture2d", {"evaluation": {"samples": 9}, "evaluation.grid": 40})
    assert (merged["evaluation.samples"], merged["evaluation.grid"]) == (9, 40)
    with pytest.raises(RecipeError, match=r"sources.0.kernel: HMC needs step_size"):
        Recipe.read("rings10d", {"sources.0.kernel": "HMC"})


def test_replacing_is_reading_with_overrides() -> None:
    """Also of what is gone from the resolved text: the temperature as a pair."""
    overrides = {"temperature.noise": 0.1, "sources.0.kernel": "HMC", "data_noise": np.float64(1)}
    replaced = Recipe.read("mixture2d", {"seed": 2}).replace(overrides)
    assert replaced == Recipe.read("mixture2d", {"seed": 2, **overrides})
    assert replaced["sources.0.kernel.step_size"] == 0.1
    assert Recipe.read(replaced) == replaced
    colder = Recipe.read("mixture2d", {"energy.coldness": 3})  # in place of the temperature's
    assert (colder["energy.coldness"], colder["sources.0.kernel.step_size"]) == (3.0, 0.00125)
    assert Recipe(colder.text).replace({"seed": 5}) == colder.replace({"seed": 5})


def test_reading_neither_reads_data_nor_draws_numbers() -> None:
    before = torch.get_rng_state()
    recipe = Recipe.read("points", {"data.path": Path("nowhere.npy")})
    assert recipe["data.path"] == "nowhere.npy"
    with pytest.raises(RecipeError, match=r"there is no file nowhere.npy"):
        recipe.parts()
    data = Mixture2D()
    assert recipe.parts(data=data).data is data
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_draws_the_network() -> None:
    def first(seed: int) -> torch.Tensor:
        energy = Recipe.read("mixture2d", {"seed": seed}).parts().energy
        return next(energy.parameters())

    assert torch.equal(first(3), first(3))
    assert not torch.equal(first(3), first(4))
    torch.manual_seed(3)
    assert torch.equal(first(3), next(MLP(2).parameters()))


def test_names_are_written_in_one_way(tmp_path: Path) -> None:
    """Short and full names, and whole numbers for floats, are the same recipe."""
    a = Recipe.read("mixture2d", {"data": "Rings2D", "terms": ["EnergyL2"]})
    part = {"class_path": "coldness.objectives.energy_l2.EnergyL2", "init_args": {"strength": 1}}
    b = Recipe.read("mixture2d", {"data": "coldness.data.synthetic.Rings2D", "terms": [part]})
    assert a == b
