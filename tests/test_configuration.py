"""Parts as plain data: every part is described and made again, and nothing else is."""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from coldness import chains, data, faults, kernels, nets, objectives, schedules, signatures
from coldness.chains import (
    Adaptation,
    Bank,
    DataStart,
    FittedNoise,
    GaussianNoise,
    InverseNormSteps,
    LikeData,
    ReferenceStart,
    Source,
    Start,
    StepAdaptation,
    StepNoise,
    UniformNoise,
    WeightedBank,
)
from coldness.configuration import (
    ConfigurationError,
    UnknownField,
    complete,
    construct,
    describe,
)
from coldness.data import (
    Affine,
    Augmentation,
    Blur,
    ColourJitter,
    Compose,
    CropFlip,
    Flip,
    Grey,
    ResizedCrop,
)
from coldness.energies import (
    ClassifierEnergy,
    Energy,
    MultiHeadEnergy,
    ScalarEnergy,
    SphericalEnergy,
    Sum,
)
from coldness.guard.policy import Guard
from coldness.guard.remedies import MoreSteps, default_ladder
from coldness.kernels import (
    HMC,
    MALA,
    ConstantSteps,
    DualAveraging,
    GeometricSteps,
    Kernel,
    Langevin,
    StepSchedule,
)
from coldness.nets import (
    MLP,
    ConvNet,
    Headed,
    NonLocalNet,
    ResidualNet,
    ResNet18Encoder,
    SmallEncoder,
    ViTEncoder,
    WideResNet,
)
from coldness.objectives import (
    BYOL,
    Contrast,
    CrossEntropy,
    EnergyL2,
    Guidance,
    Labels,
    SimCLR,
    Teacher,
    Term,
)
from coldness.schedules import Cosine, Geometric, Linear, Schedule, Stairs, WarmUp
from coldness.training.settings import Evaluation

PARTS: list[tuple[type, Any]] = [
    (Kernel, Langevin(0.1, clamp=(-1.0, 1.0), clip_gradient=2.0, clip_drift=0.5)),
    (Kernel, MALA(0.25)),
    (Kernel, HMC(0.1, leapfrog_steps=3)),
    (DualAveraging, DualAveraging(0.6, per_chain=True)),
    (StepSchedule, ConstantSteps()),
    (StepSchedule, GeometricSteps(10.0, 0.5)),
    (Start, GaussianNoise((1.0, -2.0), 0.5)),
    (Start, GaussianNoise(np.array([1.0, -2.0]), 0.5)),  # type: ignore[arg-type]
    (Start, UniformNoise(-2.0, 3.0)),
    (Start, FittedNoise(2.0)),
    (Start, LikeData(2.0)),
    (Start, DataStart()),
    (Start, ReferenceStart()),
    (Start, Bank(7, LikeData(2.0), 0.05, 0.1, "uint8", "host")),
    (Start, WeightedBank(Bank(7, LikeData(2.0)), 0.25)),
    (Start, faults.PoisonedBank(9, DataStart(), at=3, share=0.25, value=2.0)),
    (Start, faults.LostStart(2.0, 5, (1.0, 2.0), 0.3)),
    (Adaptation, StepAdaptation(0.3, 0.1, 10.0)),
    (Adaptation, InverseNormSteps("energy", 20.0)),
    (StepNoise, StepNoise(2.0, 1)),
    (Source, Source(Bank(), Langevin(0.1), adaptation=StepAdaptation())),
    (Source, Source(Bank(5, DataStart()), MALA(0.1), 3, 4, 25.0, adaptation=InverseNormSteps())),
    (Source, Source(Bank(9), Langevin(0.1), transition=Compose([Flip()]), transition_every=5)),
    (Source, Source(DataStart(), HMC(0.1), step_schedule=GeometricSteps(2.0), beta=Linear(0, 1))),
    (Schedule, Geometric(0.5, 0.9, 0.1)),
    (Schedule, Linear(0.0, 1.0, 0.5)),
    (Schedule, Cosine(2.0, 0.1)),
    (Schedule, Stairs(1.0, 0.1, (0.25, 0.5))),
    (Schedule, WarmUp(5, Cosine())),
    (torch.nn.Module, MLP(3, [4, 5], "silu", frequencies=2)),
    (torch.nn.Module, MLP()),
    (torch.nn.Module, ConvNet(4, "silu", attention=16)),
    (torch.nn.Module, NonLocalNet(4, slope=0.1)),
    (torch.nn.Module, WideResNet(16, 2)),
    (torch.nn.Module, ResidualNet((8, 16), 2, 32, 3, False, "silu", 0.1, 0.2, 0.3, None)),
    (torch.nn.Module, ResNet18Encoder(6, 4, 16, 0.1, 0.2)),
    (torch.nn.Module, SmallEncoder(6, 4, 16, 0.1, 0.2, (1, 8, 8))),
    (torch.nn.Module, ViTEncoder(6, 2, 8, 3, 2, 16, 0.1, 0.2, (3, 8, 6))),
    (torch.nn.Module, Headed(SmallEncoder(6, 4, 16, shape=(1, 8, 8)), 5, 12)),
    (Energy, ScalarEnergy(MLP(2, (8,)), 20.0, 2.0)),
    (Energy, ClassifierEnergy(WideResNet(10, 1), 20_000.0, 10)),
    (Energy, ClassifierEnergy(MLP())),
    (Energy, Sum([ScalarEnergy(MLP(2)), ScalarEnergy(MLP(2), 3.0)], [0.5, 2.0])),
    (Energy, SphericalEnergy(MLP(), 800.0, 6, 0.1, 0.2, "linear", 32)),
    (Energy, MultiHeadEnergy(MLP(), 800.0, 6, 0.1, 0.2, 32)),
    (Term, CrossEntropy(2.0)),
    (Term, Guidance(SimCLR(SmallEncoder(6, 4, 16), Flip(), 0.3, False, ema=0.9), 5)),
    (Teacher, BYOL(SmallEncoder(6, 4, 16), None, 8, 0.9, learning_rate=0.5, batch_size=9)),
    (Teacher, Labels()),
    (Term, EnergyL2(0.1)),
    (Term, faults.NaNGradient(3)),
    (Contrast, Contrast(WarmUp(10, 0.9), "batch_corrected", 1.0)),
    (Guard, Guard("stop", ladder=[*default_ladder(), MoreSteps(3)])),
    (Evaluation, Evaluation(ais=None, ood=["a.npy", "svhn"])),
    (Augmentation, CropFlip(2, flip=False)),
    (Augmentation, Flip(0.3)),
    (Augmentation, ResizedCrop((0.2, 1.0), (0.5, 2.0), "bilinear")),
    (Augmentation, ColourJitter(0.3, 0.2, 0.1, 0.05, 0.5)),
    (Augmentation, Grey(0.3)),
    (Augmentation, Blur(5, (0.2, 1.0), 0.3)),
    (Augmentation, Affine((-5.0, 5.0), (0.0, 0.1), (0.5, 1.0), (-1.0, 1.0), 0.5)),
    (Augmentation, Compose([ResizedCrop(), Compose([Flip(), Grey()])])),
]


def name_of(value: Any) -> str:
    return value.__name__ if inspect.isclass(value) else type(value).__name__


@pytest.mark.parametrize(("base", "part"), PARTS, ids=name_of)
def test_every_part_is_described_and_made_again(base: type, part: Any) -> None:
    node = describe(part)
    assert yaml.safe_load(yaml.safe_dump(node)) == node
    for signature in (base, type(part)):
        again = construct(signature, node)
        assert type(again) is type(part)
        assert describe(again) == node
    if hasattr(part, "__dataclass_fields__") and type(part).__eq__ is not object.__eq__:
        assert node == describe(replace(part))


@pytest.mark.parametrize("package", [chains, data, faults, kernels, nets, objectives, schedules])
def test_no_exported_part_is_left_out(package: Any) -> None:
    bases = (
        Kernel, Start, Adaptation, Schedule, StepSchedule, Term, Augmentation, torch.nn.Module,
    )  # fmt: skip
    exported = {
        cls
        for cls in vars(package).values()
        if inspect.isclass(cls) and issubclass(cls, bases) and not inspect.isabstract(cls)
        if cls.__module__.startswith(package.__name__)
    }
    assert exported <= {type(part) for _, part in PARTS}


def test_a_built_network_is_described_with_its_size() -> None:
    net = MLP(widths=[4])
    net.build((3,))
    again = construct(MLP, describe(net))
    again.load_state_dict(net.state_dict())
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(net(x), again(x))


def test_only_constructors_draw_random_numbers() -> None:
    node = {"class_path": "Bank", "init_args": {"initial": "LikeData"}}
    before = torch.get_rng_state()
    construct(Start, node)
    complete(
        Source, {"start": node, "kernel": {"class_path": "MALA", "init_args": {"step_size": 1}}}
    )
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(3)
    wanted = MLP(2)
    torch.manual_seed(3)
    made = construct(torch.nn.Module, {"class_path": "MLP", "init_args": {"inputs": 2}})
    for a, b in zip(wanted.parameters(), made.parameters(), strict=True):
        assert torch.equal(a, b)


def test_values_are_converted() -> None:
    kernel = construct(Langevin, {"step_size": "1e-3", "clamp": [0, 1]})
    assert kernel == Langevin(0.001, (0.0, 1.0))
    assert construct(Stairs, {"at_parts": [0.5]}) == Stairs(at_parts=(0.5,))
    source = construct(Source, {"start": "DataStart", "kernel": describe(kernel), "beta": 1})
    assert source == Source(DataStart(), kernel, beta=1.0)
    assert construct(Source, {**describe(source)["init_args"], "adaptation": None}) == source


class Forgetful(Start):
    """Does not keep its argument."""

    def __init__(self, width: float) -> None:
        self.twice = 2 * width

    def fresh(self, *arguments: Any) -> torch.Tensor:
        raise NotImplementedError


def test_a_default_part_may_be_given_by_its_arguments_alone() -> None:
    assert construct(Bank, {"initial": {"std": 2}}).initial == GaussianNoise(std=2.0)


def test_live_arguments_take_the_place_of_described_ones() -> None:
    bank = Bank(3)
    node = {"start": "DataStart", "kernel": {"class_path": "MALA", "init_args": {"step_size": 1}}}
    assert construct(Source, node, live={"start": bank}).start is bank


def test_what_cannot_be_described_is_said() -> None:
    with pytest.raises(ConfigurationError, match="Forgetful does not keep its argument 'width'"):
        describe(Bank(initial=Forgetful(1.0)))
    with pytest.raises(ConfigurationError, match="method in place of its argument 'fresh'"):
        describe(type("Odd", (GaussianNoise,), {"__init__": lambda self, fresh=1: None})())
    for function in (max, MLP, lambda x: x, functools.reduce):
        with pytest.raises(ConfigurationError, match="cannot be described"):
            describe([function])


STEP = {"class_path": "MALA", "init_args": {"step_size": 0.1}}
BAD: dict[str, tuple[type, Any, str]] = {
    "case": (Source, {"start": "Bank", "kernel": "Hmc"},
             "kernel: there is no Kernel 'Hmc'; did you mean 'HMC'?"),
    "class": (Kernel, "Langvin", "there is no Kernel 'Langvin'; did you mean 'Langevin'?"),
    "field": (Source, {"start": "Bank", "kernel": STEP, "step": 1},
              "there is no field 'step'; did you mean 'steps'?"),
    "nested field": (Source, {"start": {"class_path": "Bank", "init_args": {"capacty": 1}},
                              "kernel": STEP},
                     "there is no field 'start.capacty'; did you mean 'start.capacity'?"),
    "field elsewhere": (Source, {"start": "Bank", "kernel": STEP, "refresh": 1},
                        "there is no field 'refresh'; did you mean 'start.refresh'?"),
    "missing": (Source, {"start": "Bank", "kernel": "MALA"}, "kernel: MALA needs step_size"),
    "missing at the top": (Source, {"start": "Bank"}, "Source needs kernel"),
    "type": (Source, {"start": "Bank", "kernel": STEP, "steps": "many"},
             "steps must be int, got 'many'"),
    "number or part": (Contrast, {"beta": "warm"},
                       "beta must be float or Schedule, got 'warm'; did you mean 'WarmUp'?"),
    "letters": (MLP, {"widths": "a,b"}, "widths must be a list of int, got 'a,b'"),
    "digits": (MLP, {"widths": "64, 64"}, "widths must be a list of int, got '64, 64'"),
    "choice": (MLP, {"activation": "relu6"},
               "activation must be 'leaky_relu' or 'silu' or 'softplus', got 'relu6'"),
    "no class": (Source, {"start": {"std": 1}, "kernel": STEP}, "start must name a class, one of"),
    "nested type": (Bank, {"initial": {"class_path": "LikeData", "init_args": {"width": "big"}}},
                    "initial.width must be float, got 'big'"),
    "no class at the top": (Kernel, {"step_size": 1}, "must name a class, one of HMC, Langevin"),
    "another kind": (Bank, {"initial": "coldness.kernels.MALA"},
                     "initial: there is no Start 'coldness.kernels.MALA'"),
    "no such path": (Bank, {"initial": "coldness.nowhere.X"}, "there is no Start"),
    "no arguments": (Bank, 3, "Bank must hold fields, got 3"),
    "beside init_args": (Kernel, {"class_path": "MALA", "step_size": 1}, "go under init_args"),
}  # fmt: skip


@pytest.mark.parametrize(("signature", "node", "says"), BAD.values(), ids=BAD.keys())
def test_mistakes_get_one_line(signature: type, node: Any, says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        construct(signature, node)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_field_says_which_is_meant() -> None:
    with pytest.raises(UnknownField) as caught:
        construct(MLP, {"width": [8]})
    assert (caught.value.path, caught.value.near) == ("width", "widths")
    assert caught.value.hint("--energy.net.") == "; did you mean '--energy.net.widths'?"


FOREIGN: list[tuple[type, Any]] = [
    (torch.nn.Module, "torch.nn.Linear"),
    (torch.nn.Module, {"class_path": "os.path.join"}),
    (Bank, {"initial": "evil.Evil"}),
    (Bank, {"initial": "{class_path: evil.Evil}"}),
    (Bank, {"initial": {"class_path": "GaussianNoise", "init_args": {"mean": "/tmp/x.yaml"}}}),
    (Bank, {"storage": "a.b,c"}),
    (Bank, {"initial": "évil.Evil"}),
    (Guard, {"ladder": [{"class_path": "NewSeed"}, "http.server.HTTPServer"]}),
]


@pytest.mark.parametrize(("signature", "node"), FOREIGN)
def test_code_from_elsewhere_is_refused(signature: type, node: Any) -> None:
    with pytest.raises(ConfigurationError, match="--allow-imports"):
        construct(signature, node)


def test_short_names_are_those_of_coldness() -> None:
    """torch.nn is imported, and its classes are still not to be had by their names alone."""
    with pytest.raises(ConfigurationError, match="no Module 'Flatten'"):
        construct(torch.nn.Module, "Flatten")


def test_imports_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from coldness.nets import MLP\nclass Mine(MLP):\n    pass\n"
    (tmp_path / "parts_of_mine.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    node = {"class_path": "parts_of_mine.Mine", "init_args": {"inputs": 2}}
    with pytest.raises(ConfigurationError, match="--allow-imports"):
        construct(torch.nn.Module, node)
    made = construct(torch.nn.Module, node, allow_imports=True)
    assert type(made).__name__ == "Mine"
    assert describe(made)["class_path"] == "parts_of_mine.Mine"


def test_types_are_written_as_people_say_them() -> None:
    hints = {name: a.hint for name, a in signatures.arguments(Source).items()}
    assert signatures.type_text(hints["count"]) == "int or None"
    assert signatures.type_text(hints["beta"]) == "float or Schedule or None"
    widths = signatures.arguments(MLP)["widths"].hint
    assert signatures.type_text(widths) == "a list of int"
