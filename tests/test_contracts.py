"""What every part of a kind must do. Parts are found by what their package exports.

A new part needs one line in the table of its kind below; without it, these tests fail and say so.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import coldness.chains
import coldness.data
import coldness.energies
import coldness.kernels
import coldness.nets
import coldness.objectives
import coldness.schedules
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
    UniformNoise,
    WeightedBank,
)
from coldness.configuration import construct, describe
from coldness.data import (
    Affine,
    Attributed,
    Augmentation,
    Blur,
    ColourJitter,
    Compose,
    CropFlip,
    Digits,
    EmbeddedRings,
    Flip,
    Grey,
    ImageData,
    Images,
    KnownDensity,
    Labelled,
    Mixture2D,
    Pictures,
    ResizedCrop,
    Rings2D,
    Rings10D,
    SeparatedModes,
    Shapes,
    Table,
)
from coldness.energies import (
    ClassifierEnergy,
    Coordinates,
    Energy,
    FittedMixture,
    Gaussian,
    GaussianMixture,
    Given,
    Mixture,
    MultiHeadEnergy,
    PlanarRings,
    RadialRings,
    ScalarEnergy,
    SphericalEnergy,
    Sum,
    Tempered,
    check_uncoupled,
)
from coldness.kernels import (
    HMC,
    MALA,
    ConstantSteps,
    GeometricSteps,
    Kernel,
    Langevin,
    StepSchedule,
    run,
)
from coldness.nets import (
    MLP,
    ConvNet,
    Encoder,
    Headed,
    NonLocalNet,
    ResidualNet,
    ResNet18Encoder,
    SmallEncoder,
    ViTEncoder,
    WideResNet,
)
from coldness.objectives import Batch, CrossEntropy, EnergyL2, Guidance, Labels, Term
from coldness.schedules import Cosine, Geometric, Linear, Schedule, Stairs, WarmUp
from kernel_contract import (
    LIMIT,
    acceptance_in_the_law,
    largest_deviation,
    moves_in_y_as_in_x,
)
from laws import (
    KINDS,
    assert_mean,
    banana,
    coordinates,
    field_of,
    generator,
    normal,
)

GAUSSIAN = Gaussian([0.3, -0.2], [[0.5, 0.2], [0.2, 0.4]], coldness=2.0)

# One example of every part, with no argument at its default where that can be. Kernels must accept
# between 30% and 99% of moves on a Gumbel law if they refuse any; energies take vectors (B, 2)
# unless SHAPES says otherwise.

KERNELS: dict[type[Kernel], Callable[[], Kernel]] = {
    Langevin: lambda: Langevin(0.05, (-50.0, 50.0), clip_gradient=100.0, clip_drift=50.0),
    MALA: lambda: MALA(0.8),
    HMC: lambda: HMC(0.9, leapfrog_steps=3),
}

STARTS: dict[type[Start], Callable[[], Start]] = {
    GaussianNoise: lambda: GaussianNoise(0.5, 2.0),
    LikeData: lambda: LikeData(2.0),
    UniformNoise: lambda: UniformNoise(-2.0, 1.0),
    DataStart: lambda: DataStart(),
    FittedNoise: lambda: FittedNoise(2.0),
    Bank: lambda: Bank(30, GaussianNoise(0.5, 2.0), refresh=0.3, refresh_batch=0.1),
    WeightedBank: lambda: WeightedBank(Bank(30, GaussianNoise(0.5, 2.0)), 0.8),
    ReferenceStart: lambda: ReferenceStart(),
}

ADAPTATIONS: dict[type[Adaptation], Callable[[], Adaptation]] = {
    StepAdaptation: lambda: StepAdaptation(0.3, 0.1, 50.0),
    InverseNormSteps: lambda: InverseNormSteps("energy", 50.0),
}

ENERGIES: dict[type[Energy], Callable[[], Energy]] = {
    Gaussian: lambda: copy.deepcopy(GAUSSIAN),
    GaussianMixture: lambda: GaussianMixture([[0.0, 1.0], [1.0, -1.0]], 0.4, [0.3, 0.7]),
    RadialRings: lambda: RadialRings([1.0, 2.0], 0.3, [0.3, 0.7]),
    PlanarRings: lambda: PlanarRings([1.0, 2.0], 0.3, weights=[0.3, 0.7]),
    ScalarEnergy: lambda: ScalarEnergy(MLP(2, (8, 8), "silu"), 5.0, reference_std=2.0),
    Sum: lambda: Sum([copy.deepcopy(GAUSSIAN), ScalarEnergy(MLP(2, (8,)))], [0.5, 2.0]),
    Mixture: lambda: Mixture([copy.deepcopy(GAUSSIAN), RadialRings([1.0], 0.3)], [0.3, 0.7]),
    Tempered: lambda: Tempered(copy.deepcopy(GAUSSIAN), 0.5),
    ClassifierEnergy: lambda: ClassifierEnergy(of_classes(), 5.0, 3),
    Given: lambda: Given(ClassifierEnergy(of_classes(), 5.0, 3), torch.tensor([1])),
    SphericalEnergy: lambda: SphericalEnergy(of_classes(12), 5.0, 12, 0.3, 0.2, "linear", 6),
    MultiHeadEnergy: lambda: MultiHeadEnergy(of_classes(12), 5.0, 12, 0.3, 0.2, 6),
}


def of_classes(outputs: int = 3) -> MLP:
    net = MLP(2, (8, 8), "silu")
    net.build((2,), outputs)
    return net


SHAPES: dict[type[Energy], tuple[int, ...]] = {}

NETS: dict[type[nn.Module], Callable[[], Any]] = {
    MLP: lambda: MLP(widths=(8, 8), activation="silu"),
    ConvNet: lambda: ConvNet(4, "silu", attention=4),
    NonLocalNet: lambda: NonLocalNet(4, "silu"),
    WideResNet: lambda: WideResNet(10, 1, "silu"),
    ResidualNet: lambda: ResidualNet((4, 6), 2, 8, 2, True, "silu", 0.1, 0.1, 0.7, 0.5),
}

ENCODERS: dict[type[Encoder], Callable[[], Encoder]] = {
    Headed: lambda: Headed(SmallEncoder(3, 4, 8, 0.1, 0.7), 5, 8),
    ResNet18Encoder: lambda: ResNet18Encoder(5, 4, 8, 0.1, 0.7),
    SmallEncoder: lambda: SmallEncoder(5, 4, 8, 0.1, 0.7),
    ViTEncoder: lambda: ViTEncoder(5, 2, 8, 2, 2, 8, 0.1, 0.7),
}

DENSITIES: dict[type[KnownDensity], Callable[[], KnownDensity]] = {
    Mixture2D: lambda: Mixture2D(radius=1.5, std=0.2),
    Rings2D: lambda: Rings2D((1.0, 2.5), 0.2),
    EmbeddedRings: lambda: EmbeddedRings(5, (1.0, 2.5), 0.2, 0.03),
    Rings10D: lambda: Rings10D((1.0, 2.5), 0.2, 0.03),
    SeparatedModes: lambda: SeparatedModes(3, (0.5, 0.2, 0.3), 3.0, 0.4),
}


def pictures(count: int = 60) -> Pictures:
    """Of three classes, 3 x 5 x 6."""
    pixels = torch.randint(256, (count, 3, 5, 6), generator=generator(20), dtype=torch.uint8)
    return Pictures(pixels, torch.arange(count) % 3, ("a", "b", "c"))


@cache
def saved_pictures() -> Images:
    with tempfile.TemporaryDirectory() as folder:
        path, of = Path(folder) / "images.npz", pictures()
        np.savez(path, images=of.images.numpy(), labels=of.labels.numpy())
        return Images(str(path), held_out=0.3, size=4, dequantise=True)


LABELLED: dict[type[Labelled], Callable[[], Labelled]] = {
    Digits: lambda: Digits(0.3, 1, 0.1, CropFlip(1, flip=False), dequantise=True),
    ImageData: lambda: ImageData(pictures(), augmentation=CropFlip(2)),
    Images: saved_pictures,
    Shapes: lambda: Shapes(300, 10, 0.05, 3, 0.3, 1, 0.2, CropFlip(1, flip=False), dequantise=True),
    Table: lambda: Table.of(normal(200, 3).double().numpy(), np.arange(200) % 3, 0.3, 1, 0.1),
}

AUGMENTATIONS: dict[type[Augmentation], Callable[[], Augmentation]] = {
    Affine: lambda: Affine((-90.0, 80.0), (-0.3, 0.2), (0.5, 1.5), (-20.0, 10.0), 0.7),
    Blur: lambda: Blur(5, (0.5, 3.0), 0.7),
    ColourJitter: lambda: ColourJitter(0.3, 0.5, 0.6, 0.2, 0.7),
    Compose: lambda: Compose([Flip(0.3), ResizedCrop((0.3, 0.9)), Grey(0.6)]),
    CropFlip: lambda: CropFlip(2, flip=True),
    Flip: lambda: Flip(0.3),
    Grey: lambda: Grey(0.6),
    ResizedCrop: lambda: ResizedCrop((0.1, 0.9), (0.5, 1.5), "bilinear"),
}

STEP_SCHEDULES: dict[type[StepSchedule], Callable[[], StepSchedule]] = {
    ConstantSteps: lambda: ConstantSteps(),
    GeometricSteps: lambda: GeometricSteps(4.0, 0.5),
}

SCHEDULES: dict[type[Schedule], Callable[[], Schedule]] = {
    Geometric: lambda: Geometric(2.0, 0.9, 0.5),
    Linear: lambda: Linear(2.0, 1.0, 0.5),
    Cosine: lambda: Cosine(2.0, 1.0),
    Stairs: lambda: Stairs(2.0, 0.5, (0.2, 0.7)),
    WarmUp: lambda: WarmUp(3, Linear(2.0, 1.0)),
}

TERMS: dict[type[Term], Callable[[], Term]] = {
    CrossEntropy: lambda: CrossEntropy(0.3),
    EnergyL2: lambda: EnergyL2(0.3),
    Guidance: lambda: Guidance(Labels(), 0),
}
ENERGY_OF_TERM: dict[type[Term], type[Energy]] = {
    CrossEntropy: ClassifierEnergy,
    Guidance: SphericalEnergy,
}
"""The energies of terms that do not work with every energy."""


def parts(package: ModuleType, base: type) -> list[type]:
    """Concrete subclasses that the package exports."""
    names = getattr(package, "__all__", None) or [n for n in vars(package) if n[0] != "_"]
    found = [getattr(package, name) for name in names]
    return [
        part
        for part in found
        if isinstance(part, type) and issubclass(part, base) and not inspect.isabstract(part)
    ]


def every(
    package: ModuleType, base: type, but: type | tuple[type, ...] = ()
) -> pytest.MarkDecorator:
    found = [part for part in parts(package, base) if not issubclass(part, but)]
    assert found, f"{package.__name__} exports no {base.__name__}"
    return pytest.mark.parametrize("part", found, ids=lambda part: part.__name__)


def example(part: type, table: dict[Any, Callable[[], Any]]) -> Any:
    if part not in table:
        pytest.fail(
            f"{part.__module__}.{part.__name__} has no example: add one line to the tables of "
            "tests/test_contracts.py",
            pytrace=False,
        )
    torch.manual_seed(0)
    return table[part]()


def test_a_part_without_an_example_fails_with_a_word_on_what_to_do() -> None:
    class New(Kernel):
        pass

    with pytest.raises(pytest.fail.Exception, match=r"New has no example: add one line"):
        example(New, KERNELS)


# Kernels

every_kernel = every(coldness.kernels, Kernel)


@every_kernel
def test_kernels_are_values(part: type) -> None:
    """They print, compare, pickle and cannot be changed."""
    kernel, same = example(part, KERNELS), example(part, KERNELS)
    assert kernel == same
    assert hash(kernel) == hash(same)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert repr(kernel).startswith(part.__name__)
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.step_size = 1.0
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="step_size"):
            dataclasses.replace(kernel, step_size=wrong)


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_a_pure_function_of_tensors(part: type, dtype: torch.dtype, kind: str) -> None:
    kernel, at = example(part, KERNELS), coordinates(kind).to(dtype)
    x = normal(6, 2).to(dtype)
    calls = []

    def field(x: Tensor) -> tuple[Tensor, Tensor]:
        calls.append(1)
        return field_of(banana)(x)

    noise = kernel.draw(4, x, generator(1))
    again = kernel.draw(4, x, generator(1))
    assert all(torch.equal(a, b) for a, b in zip(noise, again, strict=True))
    assert all(n.shape[:2] == (4, 6) and n.dtype == dtype for n in noise)
    state = kernel.init(field, x)
    assert torch.equal(state[0], x)
    before = [s.clone() for s in state]
    first = tuple(n[0] for n in noise)
    calls.clear()
    h = torch.full((6, 1), kernel.step_size, dtype=dtype)
    moved, info = kernel.step(field, state, first, h, at)
    assert len(calls) == kernel.gradients_per_step
    twin, _ = kernel.step(field, state, first, h, at)
    for old, kept, new, same in zip(state, before, moved, twin, strict=True):
        assert torch.equal(old, kept)
        assert torch.equal(new, same)
        assert (new.shape, new.dtype) == (old.shape, dtype)
    assert info.potential.shape == info.acceptance.shape == (6,)
    assert info.gradient.shape == x.shape
    torch.testing.assert_close(info.potential, banana(x))
    assert bool(((info.acceptance >= 0) & (info.acceptance <= 1)).all())
    assert kernel.adjusted or bool((info.acceptance == 1).all())


@every_kernel
def test_chains_are_independent_of_each_other(part: type) -> None:
    """A chain's move depends on its own state and noise alone."""
    kernel, field, at = example(part, KERNELS), field_of(banana), coordinates("full")
    x = normal(6, 2)
    noise = tuple(n[0] for n in kernel.draw(1, x, generator(2)))
    h = torch.tensor(kernel.step_size, dtype=torch.float64)
    together, _ = kernel.step(field, kernel.init(field, x), noise, h, at)
    for k in range(6):
        rows = tuple(n[k : k + 1] for n in noise)
        alone, _ = kernel.step(field, kernel.init(field, x[k : k + 1]), rows, h, at)
        torch.testing.assert_close(alone[0][0], together[0][k])


@every_kernel
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_have_the_law_that_they_should(part: type, kind: str) -> None:
    """Weak order of small steps; where moves are refused, exact invariance and few refusals.

    Catches a wrong sign, noise or gradient that is missing or of the wrong scale, in any kernel:
    tests/test_kernel_contract.py.
    """
    kernel = example(part, KERNELS)
    assert largest_deviation(kernel, kind) < LIMIT
    assert not kernel.adjusted or 0.3 < acceptance_in_the_law(kernel, kind) < 0.99


@every_kernel
def test_kernels_derive_from_the_base_class_alone(part: type) -> None:
    """A subclass of a kernel would inherit what that says of its own step, such as `affine`."""
    assert part.__bases__ == (Kernel,)


@every_kernel
def test_kernels_that_claim_to_be_affine_move_in_y_as_in_x(part: type) -> None:
    """Both ways: with every argument set, and with nothing but a step size."""
    whole = example(part, KERNELS)
    for kernel in (whole, part(whole.step_size)):
        assert moves_in_y_as_in_x(kernel) or not kernel.affine


@every_kernel
def test_sampling_leaves_the_network_as_it_was(part: type) -> None:
    kernel, energy = example(part, KERNELS), ENERGIES[ScalarEnergy]()
    energy.train()
    ends = [
        run(kernel, energy, torch.ones(3, 2), steps=2, generator=generator(4)).x for _ in range(2)
    ]
    assert torch.equal(*ends)
    assert all(p.grad is None and p.requires_grad for p in energy.parameters())
    assert all(m.training for m in energy.modules())


# Starts

every_start = every(coldness.chains, Start)


def bound(part: type, shape: tuple[int, ...] = (2,)) -> Start:
    start, rows = example(part, STARTS), normal(50, math.prod(shape))
    reference = FittedMixture([1], [0.5], background=0.0)
    reference.fit(rows, 0)
    start.bind(ScalarEnergy(MLP(), reference=reference))
    return start


def prepared(part: type, x_data: Tensor, at: Coordinates) -> Start:
    start = bound(part, tuple(x_data.shape[1:]))
    start.prepare(x_data, at, generator(5))
    return start


@every_start
@pytest.mark.parametrize("shape", [(7, 2), (7, 1, 3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_starts_have_the_shape_and_dtype_of_the_data(
    part: type, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x_data = normal(*shape).to(dtype)
    at = Coordinates("diagonal", x_data.mean(0), x_data.std(0))
    start = prepared(part, x_data, at)
    for count in (1, 7, 20):
        fresh = start.fresh(count, x_data, at, generator(6))
        drawn, slots = start.draw(count, x_data, at, generator(6))
        for x in (fresh, drawn):
            assert x.shape == (count, *shape[1:])
            assert x.dtype == dtype
        assert slots is None or slots.shape == (count,)
        assert torch.equal(fresh, start.fresh(count, x_data, at, generator(6)))


@every_start
def test_starts_leave_the_data_and_the_global_generator_alone(part: type) -> None:
    x_data, start = normal(7, 2), bound(part)
    kept, state = x_data.clone(), torch.get_rng_state()
    start.prepare(x_data, coordinates("full"), generator(5))
    x, slots = start.draw(4, x_data, coordinates("full"), generator(7))
    start.put(slots, x + 1, 3)
    assert torch.equal(x_data, kept)
    assert torch.equal(torch.get_rng_state(), state)


@every_start
def test_starts_say_whether_they_begin_at_data(part: type) -> None:
    x_data, at = normal(7, 2), coordinates("full")
    start = prepared(part, x_data, at)
    here, there = (start.fresh(7, x, at, generator(6)) for x in (x_data, x_data + 5))
    if part is LikeData:  # knows the data's moments and no example
        assert torch.allclose(here + 5, there)
        assert not (here[:, None] == x_data).all(2).any()
    else:
        assert torch.equal(here, there) is start.from_noise


@every_start
def test_a_restored_start_draws_what_the_saved_one_would(part: type) -> None:
    x_data, at = normal(7, 2), coordinates("full")
    saved = prepared(part, x_data, at)
    x, slots = saved.draw(5, x_data, at, generator(8))
    saved.put(slots, x + 1, 3)
    other = bound(part)
    other.load_state_dict({k: v.clone() for k, v in saved.state_dict().items()})
    for _ in range(2):
        (x, slots), (y, same) = (s.draw(5, x_data, at, generator(9)) for s in (saved, other))
        assert torch.equal(x, y)
        saved.put(slots, x - 1, 2)
        other.put(same, y - 1, 2)
    assert saved.metrics() == other.metrics()
    assert all(torch.is_tensor(v) and v.shape == () for v in saved.metrics().values())


# Adaptations of the step


@every(coldness.chains, Adaptation)
def test_adaptations_begin_at_one_and_are_saved_with_their_source(part: type) -> None:
    def source() -> Source:
        return Source(DataStart(), MALA(0.1), steps=2, adaptation=example(part, ADAPTATIONS))

    saved, other, x_data = source(), source(), normal(7, 2)
    adaptation = saved.adaptation
    assert adaptation is not None
    assert float(adaptation.scale) == 1.0
    assert adaptation.description
    saved.draw(GAUSSIAN, x_data, generator(8), tempering=0.5)
    assert float(adaptation.scale) != 1.0
    assert list(saved.step_state()) == ["log_scale"]
    other.load_state_dict(saved.state_dict())
    assert torch.equal(saved.metrics()["step_scale"], other.metrics()["step_scale"])
    ends = [s.sample(GAUSSIAN, x_data, 5, generator(9)).x for s in (saved, other)]
    assert torch.equal(*ends)


# Energies

every_energy = every(coldness.energies, Energy)


def points(part: type, count: int) -> Tensor:
    return normal(count, *SHAPES.get(part, (2,)), seed=10)


@every_energy
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_energies_give_one_number_an_example(part: type, dtype: torch.dtype) -> None:
    energy = example(part, ENERGIES).to(dtype).eval()
    x = points(part, 5).to(dtype)
    with torch.no_grad():
        e, u = energy.energy(x), energy(x)
        assert e.shape == u.shape == (5,)
        assert e.dtype == u.dtype == dtype
        torch.testing.assert_close(u, energy.coldness * e)
        alone = torch.cat([energy(x[k : k + 1]) for k in range(5)])
    torch.testing.assert_close(alone, u, rtol=1e-4, atol=1e-5)
    assert energy(x[:0]).shape == (0,)
    assert u.std() > 0


@every_energy
def test_gradients_of_energies_are_exact(part: type) -> None:
    energy = example(part, ENERGIES).double().eval()
    x = points(part, 3).requires_grad_(True)
    assert torch.autograd.gradcheck(energy, (x,))


@every_energy
def test_energies_are_saved_and_loaded(part: type) -> None:
    energy = example(part, ENERGIES).double().eval()
    other = copy.deepcopy(energy)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(energy.state_dict())
    x = points(part, 4)
    assert torch.equal(energy(x), other(x))
    assert isinstance(energy.coordinates, Coordinates)


@every_energy
def test_energies_can_be_sampled(part: type) -> None:
    energy = example(part, ENERGIES)
    x = points(part, 6)
    energy.double()
    chains = run(MALA(1e-3), energy, x, steps=3, generator=generator(11))
    assert chains.x.isfinite().all()
    assert not torch.equal(chains.x, x)
    assert float(chains.acceptance) > 0.5
    assert all(p.grad is None for p in energy.parameters())


@every_energy
def test_a_known_log_z_is_the_integral(part: type) -> None:
    """On a grid, for examples in the plane: to 1e-3, for densities may be infinite at a point."""
    energy = example(part, ENERGIES).double().eval()
    if energy.log_z is None or SHAPES.get(part, (2,)) != (2,):
        pytest.skip("no log Z known, or not in the plane")
    side = torch.linspace(-6, 6, 600, dtype=torch.float64)
    with torch.no_grad():
        total = torch.logsumexp(-energy(torch.cartesian_prod(side, side)), 0)
    assert float(total + 2 * (side[1] - side[0]).log()) == pytest.approx(energy.log_z, abs=1e-3)


# Networks

every_net = every(coldness.nets, nn.Module, but=Encoder)


def built(part: type, outputs: int = 3) -> Any:
    """For images of 8 x 8 with two channels; weights that begin at zero do not stay there."""
    net = example(part, NETS)
    net.build((2, 8, 8), outputs)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return net


@every_net
def test_networks_are_made_for_the_data_and_repeatable(part: type) -> None:
    x = normal(5, 2, 8, 8).float()
    with pytest.raises(ValueError, match="has no layers yet"):
        example(part, NETS)(x)
    net, same = built(part), built(part)
    assert net(x).shape == (5, 3)
    assert net(x).dtype == torch.float32
    assert torch.equal(net(x), same(x))
    before = net(x)
    net.build((2, 8, 8), 3)
    assert torch.equal(net(x), before)
    net.build((2, 8, 8))
    assert net(x).shape == (5, 1)
    with pytest.raises(ValueError, match="but the data has"):
        net.build((1, 8, 8))


@every_net
def test_networks_take_examples_one_by_one(part: type) -> None:
    net, x = built(part).double(), normal(5, 2, 8, 8)
    alone = torch.cat([net(x[k : k + 1]) for k in range(5)])
    torch.testing.assert_close(alone, net(x))
    assert net(x[:0]).shape == (0, 3)
    check_uncoupled(ScalarEnergy(built(part, 1)), x.float())


@every_net
def test_gradients_of_networks_are_exact(part: type) -> None:
    net = built(part, 1).double().requires_grad_(False)
    assert torch.autograd.gradcheck(net, (normal(1, 2, 8, 8).requires_grad_(True),))


@every_net
def test_networks_are_saved_and_loaded(part: type) -> None:
    net, other, x = built(part), built(part), normal(4, 2, 8, 8).float()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(x), other(x))
    assert torch.equal(net(x), copy.deepcopy(net)(x))


# Encoders

every_encoder = every(coldness.nets, Encoder)


@every_encoder
def test_encoders_are_made_for_the_data_and_repeatable(part: type) -> None:
    x = normal(5, 2, 8, 8).float()
    with pytest.raises(ValueError, match="has no layers yet"):
        example(part, ENCODERS)(x)
    encoder, same = example(part, ENCODERS), example(part, ENCODERS)
    for of in (encoder, same):
        torch.manual_seed(0)
        of.build((2, 8, 8))
        of.eval()
    before = encoder(x)
    assert before.shape == (5, encoder.latent) == (5, 5)
    assert encoder.features(x).dim() == 2
    assert before.dtype == encoder.features(x).dtype == torch.float32
    assert torch.equal(before, same(x))
    encoder.build((2, 8, 8), 5)
    assert torch.equal(encoder(x), before)
    assert encoder(x[:0]).shape == (0, 5)
    with pytest.raises(ValueError, match="but the data has"):
        encoder.build((1, 8, 8))
    with pytest.raises(ValueError, match="has latent 5, but 1 outputs are needed"):
        encoder.build((2, 8, 8), 1)


@every_encoder
def test_encoders_are_made_again_from_their_description(part: type) -> None:
    encoder, x = example(part, ENCODERS), normal(5, 2, 8, 8).float()
    encoder.build((2, 8, 8))
    encoder(x)
    again = construct(nn.Module, describe(encoder))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(encoder.eval()(x), again.eval()(x))
    assert torch.equal(encoder(x), copy.deepcopy(encoder)(x))


# Data whose law is known

every_density = every(coldness.data, KnownDensity)


@every_density
def test_samples_are_single_precision_and_repeatable(part: type) -> None:
    data = example(part, DENSITIES)
    x = data.sample(50, generator(12))
    assert x.shape == (50, *data.shape)
    assert x.dtype == torch.float32
    assert torch.equal(x, data.sample(50, generator(12)))
    assert not torch.equal(x, data.sample(50, generator(13)))
    assert data.local_scales.shape == data.shape
    assert data.narrowest_scale == float(data.local_scales.min()) > 0


@every_density
def test_density_entropy_and_sampler_are_of_one_law(part: type) -> None:
    data = example(part, DENSITIES)
    x = data.sample(20_000, generator(14))
    log_p = data.log_prob(x)
    assert log_p.shape == (20_000,)
    assert log_p.dtype == torch.float64
    assert not log_p.requires_grad
    assert_mean(-log_p, data.entropy)
    assert data.energy.log_z is not None
    assert float((x.abs() > data.box).any(1).double().mean()) < 1e-3
    # The score has mean zero under the law that it belongs to, by parts.
    leaf = x.double().requires_grad_(True)
    (score,) = torch.autograd.grad(data.energy(leaf).sum(), leaf)
    for k in range(score.shape[1]):
        assert_mean(score[:, k], 0.0)


# Data with classes

every_labelled = every(coldness.data, Labelled)


@every_labelled
def test_batches_depend_on_the_generator_alone(part: type) -> None:
    data, state = example(part, LABELLED), torch.get_rng_state()
    x, labels = data.sample_labelled(50, generator(16))
    assert x.shape == (50, *data.shape)
    assert (x.dtype, labels.dtype, labels.shape) == (torch.float32, torch.int64, (50,))
    assert float(x.abs().max()) <= data.box
    assert set(labels.tolist()) <= set(range(len(data.classes)))
    assert torch.equal(x, data.sample(50, generator(16)))
    assert torch.equal(x, copy.deepcopy(data).sample(50, generator(16)))
    assert not torch.equal(x, data.sample(50, generator(17)))
    assert torch.equal(torch.get_rng_state(), state)


@every_labelled
def test_parts_have_labels_and_every_class(part: type) -> None:
    data = example(part, LABELLED)
    for x, labels in ((data.train, data.train_labels), (data.test, data.test_labels)):
        assert x.shape == (len(labels), *data.shape)
        assert (x.dtype, labels.dtype) == (torch.float32, torch.int64)
        assert labels.unique().tolist() == list(range(len(data.classes)))
    assert torch.equal(data.test, data.test)
    assert len(data.reference(10_000, generator(18))) == len(data.test)
    assert [len(x) for x in data.pair(5, generator(18))] == [5, 5]


@every_labelled
def test_own_units_are_invertible_and_log_scale_is_their_jacobian(part: type) -> None:
    data = example(part, LABELLED)
    x = data.test[:3].double()
    torch.testing.assert_close(data.into_model(data.original(x)), x)
    one = x[:1].requires_grad_(True)
    (slopes,) = torch.autograd.grad(data.original(one).sum(), one)
    assert float(slopes.log().sum()) == pytest.approx(data.log_scale)


@every(coldness.data, Attributed)
def test_parts_have_their_attributes(part: type) -> None:
    data = example(part, LABELLED)
    attributed, names = data.attributed, data.domain.attributes
    assert (attributed is None) is (not names)
    assert attributed is None or attributed is data
    parts = {"train": data.train, "test": data.test, "validation": data.validation}
    for name, x in parts.items():
        values = getattr(data, f"{name}_attributes")
        assert (values.dtype, values.shape) == (torch.bool, (len(x), len(names)))
        for of in data.attribute_groups.values():
            columns = [names.index(one) for one in of]
            assert bool((values[:, columns].sum(1) == 1).all())


every_augmentation = every(coldness.data, Augmentation)


def images(dtype: torch.dtype, shape: tuple[int, ...] = (8, 3, 5, 6)) -> Tensor:
    """In [-1, 1], or bytes."""
    if dtype == torch.uint8:
        return torch.randint(256, shape, generator=generator(20), dtype=dtype)
    return 2 * torch.rand(shape, generator=generator(20)).to(dtype) - 1


@every_augmentation
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_augmentations_are_values_and_pure_functions(part: type, dtype: torch.dtype) -> None:
    augmentation, state = example(part, AUGMENTATIONS), torch.get_rng_state()
    assert augmentation == example(part, AUGMENTATIONS)
    assert hash(augmentation) == hash(example(part, AUGMENTATIONS))
    assert pickle.loads(pickle.dumps(augmentation)) == augmentation
    x = images(dtype)
    if dtype == torch.uint8 and not augmentation.moves_pixels:
        with pytest.raises(
            ValueError, match=r"needs images as floats in \[-1, 1\], got torch.uint8"
        ):
            augmentation(x, generator(19))
        return
    kept = x.clone()
    y = augmentation(x, generator(19))
    assert (y.shape, y.dtype) == (x.shape, dtype)
    assert torch.equal(y, augmentation(x, generator(19)))
    assert not torch.equal(y, augmentation(x, generator(20)))
    assert torch.equal(x, kept)
    assert torch.equal(torch.get_rng_state(), state)
    assert augmentation(x[:0], generator(19)).shape == (0, 3, 5, 6)


@every_augmentation
def test_augmentations_treat_every_image_for_itself(part: type) -> None:
    """With the same numbers, an image becomes the same whatever the others are; all stay in range.

    Nothing depends on the layout in memory or on autocast.
    """
    augmentation, x = example(part, AUGMENTATIONS), images(torch.float32, (40, 3, 5, 6))
    y = augmentation(x, generator(21))
    assert float(y.abs().max()) <= 1 + 1e-6
    assert len({tuple(row) for row in (y - x).flatten(1).tolist()}) > 10
    for k in (0, 17, 39):
        others = torch.zeros_like(x)
        others[k] = x[k]
        torch.testing.assert_close(augmentation(others, generator(21))[k], y[k])
    last = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(augmentation(last, generator(21)), y)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(augmentation(x, generator(21)), y)


@every_augmentation
def test_augmentations_read_nothing_back_from_the_device(
    part: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that would wait for a device: no number, and no shape, depends on values."""
    augmentation, x = example(part, AUGMENTATIONS), images(torch.float32)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a value was read")

    for name in ("item", "tolist", "nonzero", "__bool__", "__float__", "__int__", "__index__"):
        monkeypatch.setattr(Tensor, name, refused)
    augmentation(x, generator(19))


@every_augmentation
def test_augmentations_take_images_alone_and_say_so(part: type) -> None:
    augmentation = example(part, AUGMENTATIONS)
    with pytest.raises(ValueError, match=r"needs images \(B, C, H, W\), got shape \(4, 2\)"):
        augmentation(normal(4, 2), generator())
    grey = images(torch.float32, (40, 1, 5, 6))
    assert augmentation(grey, generator()).shape == grey.shape


# Schedules

every_step_schedule = every(coldness.kernels, StepSchedule)
every_schedule = every(coldness.schedules, Schedule)


@every_step_schedule
def test_step_schedules_give_positive_factors(part: type) -> None:
    schedule = example(part, STEP_SCHEDULES)
    for steps in (0, 1, 7):
        factors = schedule.factors(steps)
        assert factors.shape == (steps,)
        assert factors.dtype == torch.float64
        assert bool((factors > 0).all())
    assert schedule == example(part, STEP_SCHEDULES)


@every_schedule
def test_schedules_are_values_that_give_numbers(part: type) -> None:
    schedule = example(part, SCHEDULES)
    for n in (1, 2, 10):
        for t in range(n):
            value = schedule.at(t, n)
            assert isinstance(value, float)
            assert 0 < value <= 2
    assert schedule == example(part, SCHEDULES)
    assert pickle.loads(pickle.dumps(schedule)) == schedule


# Terms


@every(coldness.objectives, Term)
def test_terms_are_numbers_with_a_gradient(part: type) -> None:
    term = example(part, TERMS)
    energy = ENERGIES[ENERGY_OF_TERM.get(part, ScalarEnergy)]().double()
    term.check(energy, Digits())
    x_data, x_model = normal(5, 2), normal(3, 2, seed=15)
    labelled = (normal(4, 2, seed=16), torch.tensor([0, 2, 1, 1])) if term.wants_labels else None
    outputs = {"outputs_data": energy.outputs(x_data), "outputs_model": energy.outputs(x_model)}
    loss = term(
        Batch(energy, x_data, x_model, energy(x_data), energy(x_model), labelled, **outputs)
    )
    assert loss.shape == ()
    loss.backward()
    assert any(p.grad is not None and bool(p.grad.any()) for p in energy.parameters())
