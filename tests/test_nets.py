"""Convolutional networks: sizes by formula, precision under autocast, and what they refuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, leaky_relu

from coldness.energies import ScalarEnergy
from coldness.kernels import Kernel, Langevin, run
from coldness.nets import MLP, ConvNet, NonLocalNet, ResidualNet, WideResNet
from coldness.nets.base import Convolutional, MeanOverPositions
from coldness.nets.non_local import NonLocal
from laws import field_of, generator, normal

NETS = {
    "plain": lambda: ConvNet(8),
    "attention": lambda: ConvNet(8, attention=8),
    "non-local": lambda: NonLocalNet(8),
    "wide": lambda: WideResNet(10, 2),
    "residual": lambda: ResidualNet((8, 8, 16), hidden=32, linear_std=None),
    "smooth plain": lambda: ConvNet(8, "silu"),
    "smooth attention": lambda: ConvNet(8, "silu", attention=8),
    "smooth wide": lambda: WideResNet(10, 1, "silu"),
    "smooth scales": lambda: ResidualNet((8, 16), 2, 32, 3, True, "silu", linear_std=None),
    "smooth residual": lambda: ResidualNet((8, 8), 1, 32, 1, True, "silu", linear_std=None),
}
every_net = pytest.mark.parametrize("name", NETS)


def built(name: str, shape: tuple[int, ...] = (3, 16, 16), outputs: int = 1) -> Convolutional:
    torch.manual_seed(0)
    net = NETS[name]()
    net.build(shape, outputs)
    return net


def images(count: int = 4, *shape: int) -> Tensor:
    return torch.tanh(normal(count, *(shape or (3, 16, 16)))).float()


def size(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def conv(inputs: int, outputs: int, side: int) -> int:
    return side**2 * inputs * outputs + outputs


# Sizes


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("side", "stages"), [(8, 1), (16, 2), (32, 3), (64, 4)])
def test_convnet_halves_the_map_down_to_four(channels: int, side: int, stages: int) -> None:
    net, n = ConvNet(8), 8
    net.build((channels, side, side), 10)
    strided = sum(conv(n * 2**k, n * 2 ** (k + 1), 4) for k in range(stages))
    assert size(net) == conv(channels, n, 3) + strided + conv(n * 2**stages, 10, 4)
    assert net.body(images(2, channels, side, side)).shape == (2, n * 2**stages, 4, 4)
    assert net(images(2, channels, side, side)).shape == (2, 10)


def test_attention_adds_one_block_at_its_map() -> None:
    plain, looking = ConvNet(8), ConvNet(8, attention=16)
    for net in (plain, looking):
        net.build((3, 32, 32))
    assert size(looking) - size(plain) == 3 * conv(16, 8, 1) + conv(8, 16, 1)
    seen = []
    block = next(part for part in looking.modules() if isinstance(part, NonLocal))
    block.register_forward_hook(lambda part, inputs, output: seen.append(tuple(output.shape)))
    looking(images(2, 3, 32, 32))
    assert seen == [(2, 16, 16, 16)]


@pytest.mark.parametrize("side", [8, 16, 32])
def test_non_local_net_by_formula(side: int) -> None:
    net, n = NonLocalNet(8), 8
    net.build((3, side, side))
    convolutions = conv(3, n, 3) + conv(n, 2 * n, 3) + conv(2 * n, 4 * n, 3)
    blocks = sum(3 * conv(c, c // 2, 1) + conv(c // 2, c, 1) for c in (n, 2 * n))
    linear = conv(4 * n * (side // 8) ** 2, 8 * n, 1) + conv(8 * n, 1, 1)
    assert size(net) == convolutions + blocks + linear
    kinds = [type(part).__name__ for part in net.body]
    unit = ["Conv2d", "LeakyReLU", "MaxPool2d"]
    assert kinds == [*unit, "NonLocal", *unit, "NonLocal", *unit]


def wide_size(depth: int, k: int, channels: int, outputs: int) -> int:
    total, inputs = conv(channels, 16, 3), 16
    for stage, wider in enumerate((16 * k, 32 * k, 64 * k)):
        for block in range((depth - 4) // 6):
            total += conv(inputs, wider, 3) + conv(wider, wider, 3)
            total += conv(inputs, wider, 1) if inputs != wider or (stage and block == 0) else 0
            inputs = wider
    return total + conv(inputs, outputs, 1)


@pytest.mark.parametrize(("depth", "k"), [(10, 1), (10, 2), (16, 1), (28, 2)])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 16, 16), (3, 32, 32)])
def test_wide_resnet_by_formula(depth: int, k: int, shape: tuple[int, int, int]) -> None:
    net = WideResNet(depth, k)
    net.build(shape, 10)
    assert size(net) == wide_size(depth, k, shape[0], 10)
    assert net(images(2, *shape)).shape == (2, 10)
    assert net.body(images(1, *shape)).shape == (1, 64 * k, shape[1] // 4, shape[2] // 4)


def test_the_reference_wide_resnet_has_its_size() -> None:
    """28-10: 36.5 million, of which batch norm would add 0.02."""
    with torch.device("meta"):
        net = WideResNet()
        net.build((3, 32, 32), 10)
    assert size(net) == wide_size(28, 10, 3, 10) == 36_471_338


CLEL = {
    "small": ((64, 64, 128, 128), 1, 1, "1.20", "1.73"),
    "base": ((128, 128, 256, 256), 2, 1, "6.43", "6.96"),
    "multi-scale": ((128, 128, 256, 256), 2, 3, "18.77", "19.29"),
    "large": ((256, 256, 256, 256), 2, 3, "30.18", "30.71"),
}


@pytest.mark.parametrize("name", CLEL)
def test_residual_nets_have_the_sizes_of_the_paper(name: str) -> None:
    """In millions, alone and with the projector: linear, 128 to 2048 to 128, without biases."""
    widths, blocks, scales, alone, together = CLEL[name]
    with torch.device("meta"):
        net = ResidualNet(widths, blocks, scales=scales)
        net.build((3, 32, 32), 128)
    assert f"{size(net) / 1e6:.2f}" == alone
    assert f"{(size(net) + 2 * 128 * 2048) / 1e6:.2f}" == together


@pytest.mark.parametrize("scales", [1, 2])
def test_residual_net_by_formula(scales: int) -> None:
    net = ResidualNet((8, 8, 12), 2, hidden=20, scales=scales)
    net.build((3, 16, 16), 5)
    trunk = conv(3, 8, 3) + 4 * 2 * conv(8, 8, 3) + conv(8, 12, 3) + 3 * conv(12, 12, 3) + 8 * 12
    assert size(net) == scales * trunk + conv(scales * 12, 20, 1) + conv(20, 5, 1)
    assert net.body(images(2)).shape == (2, scales * 12)
    plain = ResidualNet((8, 8, 12), 2, hidden=20, scales=scales, spectral_norm=False)
    plain.build((3, 16, 16), 5)
    assert size(plain) == size(net)


# What blocks compute


def test_the_mean_over_positions_and_its_gradient_keep_the_order_of_channels() -> None:
    x = normal(2, 8, 4, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
    y = MeanOverPositions()(x)
    torch.testing.assert_close(y, x.mean((2, 3), keepdim=True))
    weights = normal(2, 8, 1, 1)
    (gradient,) = torch.autograd.grad((weights * y).sum(), x)
    torch.testing.assert_close(gradient, weights.expand(x.shape) / 24)
    assert gradient.is_contiguous(memory_format=torch.channels_last)


def test_a_new_non_local_block_is_the_identity() -> None:
    x = normal(2, 8, 4, 4)
    block = NonLocal(8).double()
    assert torch.equal(block(x), x)
    block.out.weight.data.fill_(0.1)
    assert not torch.allclose(block(x), x)


def test_a_non_local_block_by_hand() -> None:
    """Position by position, with a softmax that is not scaled."""
    torch.manual_seed(1)
    block, x = NonLocal(4).double(), normal(1, 4, 4, 4)
    nn.init.normal_(block.out.weight)
    theta, phi, g = (
        conv2d(x, part.weight, part.bias)[0] for part in (block.theta, block.phi, block.g)
    )
    pooled_phi, pooled_g = (v.reshape(2, 2, 2, 2, 2).amax((2, 4)).flatten(1) for v in (phi, g))
    expected = x.clone()
    for i in range(4):
        for j in range(4):
            scores = theta[:, i, j] @ pooled_phi
            y = pooled_g @ (scores.exp() / scores.exp().sum())
            expected[0, :, i, j] += block.out.weight[:, :, 0, 0] @ y
    torch.testing.assert_close(block(x), expected)


def test_a_residual_block_by_hand() -> None:
    """The stride is in the second convolution, and the shortcut reads x before the activation."""
    net = built("wide").double()
    block, x = net.body[2], normal(2, 32, 8, 8)
    kept = x.clone()
    hidden = conv2d(leaky_relu(x, 0.2), block.first.weight, block.first.bias, 1, 1)
    expected = conv2d(leaky_relu(hidden, 0.2), block.second.weight, block.second.bias, 2, 1)
    expected = expected + conv2d(x, block.shortcut.weight, block.shortcut.bias, 2)
    torch.testing.assert_close(block(x), expected)
    assert torch.equal(x, kept)


def test_wide_resnet_averages_over_positions() -> None:
    net, x = built("wide").double(), images().double()
    features = net.body(x).mean((2, 3))
    torch.testing.assert_close(net(x), features @ net.head[-1].weight.T + net.head[-1].bias)


def test_residual_net_by_hand() -> None:
    """Pooling before the second stage; the shortcut reads x before the activation."""
    torch.manual_seed(0)
    net = ResidualNet((4, 6), hidden=8, spectral_norm=False, input_mean=0.1, input_std=0.3)
    net.build((3, 6, 6), 2)
    net, x = net.double(), images(2, 3, 6, 6).double()
    stem, first, _, second, _ = net.body.trunks[0]
    kept = (x - 0.1) / 0.3
    y = conv2d(kept, stem.weight, stem.bias, 1, 1)
    for stage, block in enumerate((first, second)):
        if stage:
            y = y.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).mean((3, 5))
        _, one, _, two = block.path
        hidden = conv2d(leaky_relu(y, 0.2), one.weight, one.bias, 1, 1)
        path = conv2d(leaky_relu(hidden, 0.2), two.weight, two.bias, 1, 1)
        y = path + (conv2d(y, block.shortcut.weight) if stage else y)
    features = leaky_relu(y, 0.2).mean((2, 3))
    hidden = leaky_relu(features @ net.head[0].weight.T + net.head[0].bias, 0.2)
    torch.testing.assert_close(net(x), hidden @ net.head[2].weight.T + net.head[2].bias)


def test_scales_are_separate_networks_on_averaged_images() -> None:
    net, x = built("smooth scales").double(), images().double()
    halves = [x, *(x.unflatten(2, (-1, k)).unflatten(4, (-1, k)).mean((3, 5)) for k in (2, 4))]
    parts = [trunk(2 * y).mean((2, 3)) for trunk, y in zip(net.body.trunks, halves, strict=True)]
    torch.testing.assert_close(net.body(x), torch.cat(parts, 1))


def test_initial_weights_of_residual_nets() -> None:
    torch.manual_seed(0)
    net, wide = (
        ResidualNet((32, 64), hidden=256),
        ResidualNet((32, 64), hidden=256, linear_std=None),
    )
    for of, stds in ((net, (0.01, 0.01)), (wide, ((1.5 / 64) ** 0.5, (1.5 / 256) ** 0.5))):
        of.build((3, 8, 8), 128)
        for layer, std in zip((of.head[0], of.head[2]), stds, strict=True):
            assert float(layer.weight.detach().std()) == pytest.approx(std, rel=0.05)
            assert not layer.bias.any()
        last = of.body.trunks[0][3].path[3].conv
        assert float(last.weight.detach().std()) == pytest.approx((9 * 64) ** -0.5, rel=0.05)
        assert not last.bias.any()


# Precision


def energy_and_gradient(net: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_(True)
    energy = net(x)
    return energy.detach(), torch.autograd.grad(energy.sum(), x)[0]


@every_net
@pytest.mark.parametrize("shape", [(3, 16, 16), (1, 8, 8)])
def test_under_autocast_heads_are_float32_and_gradients_near(
    name: str, shape: tuple[int, ...]
) -> None:
    net, x = built(name, shape), images(8, *shape)
    energy, gradient = energy_and_gradient(net, x)
    with torch.autocast("cpu", torch.bfloat16):
        pooled = isinstance(net, ResidualNet)  # in its body, and not in bfloat16
        assert net.body(x).dtype == (torch.float32 if pooled else torch.bfloat16)
        rough, rough_gradient = energy_and_gradient(net, x)
    assert rough.dtype == rough_gradient.dtype == torch.float32
    # More bits than bfloat16 has: the head is no rounding of its own.
    assert not torch.equal(rough, rough.bfloat16().float())
    exact, _ = energy_and_gradient(built(name, shape).double(), x.double())
    torch.testing.assert_close(energy.double(), exact, rtol=1e-4, atol=1e-5)
    # 8 bits a rounding, so a hundredth where the network is smooth. Where it has kinks (leaky ReLU,
    # max-pooling), those that rounding takes to their other side add to it.
    off = (rough_gradient - gradient).flatten(1).norm(dim=1) / gradient.flatten(1).norm(dim=1)
    # The largest of eight images is 0.0202 for one network where the processor has no bfloat16.
    assert 1e-3 < float(off.max()) < 0.5
    assert not name.startswith("smooth") or float(off.mean()) < 0.02
    assert float((rough_gradient - gradient).norm() / gradient.norm()) < 0.2
    assert float((rough - energy).abs().max() / energy.std()) < 0.1
    assert not torch.is_autocast_enabled("cpu")


@every_net
def test_training_gradients_under_autocast_are_float32_and_near(name: str) -> None:
    x = images(8)
    gradients = []
    for precise in (True, False):
        net = built(name)
        with torch.autocast("cpu", torch.bfloat16, enabled=not precise):
            loss = net(x).square().mean()
        loss.backward()
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in net.parameters())
        gradients.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
    assert float((gradients[1] - gradients[0]).norm() / gradients[0].norm()) < 0.06


@every_net
def test_energies_do_not_depend_on_the_batch_under_autocast(name: str) -> None:
    net, x = built(name), images(6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        mixed = net(x)
        copies = torch.cat([net(one.expand_as(x))[:1] for one in x])
    torch.testing.assert_close(mixed, copies, rtol=1e-3, atol=1e-4)


@every_net
def test_memory_layout_of_the_input_changes_nothing(name: str) -> None:
    net, x = built(name), images()
    assert torch.equal(net(x), net(x.contiguous(memory_format=torch.channels_last)))
    weights = [p for p in net.body.parameters() if p.dim() == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)


# Chains


@dataclass(frozen=True)
class Counting(Kernel):
    """Langevin that notes how many steps are drawn at a time."""

    adjusted: ClassVar[bool] = False
    drawn: list[int] = field(default_factory=list)

    def draw(self, steps: int, x: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        self.drawn.append(steps)
        return Langevin(self.step_size).draw(steps, x, generator)

    def init(self, field: Any, x: Tensor) -> Any:
        return (x,)

    def step(self, *arguments: Any) -> Any:
        return Langevin(self.step_size).step(*arguments)


@pytest.mark.parametrize(
    ("net", "drawn"), [(ConvNet(4), [1] * 6), (MLP(widths=(8,)), [6])], ids=["conv", "mlp"]
)
def test_chains_through_convolutions_are_compiled_a_step_at_a_time(
    net: Convolutional | MLP, drawn: list[int]
) -> None:
    """For each step of a chunk is compiled by itself; the chain is the same."""
    net.build((1, 8, 8))
    kernel, energy, x = Counting(1e-4), ScalarEnergy(net), images(4, 1, 8, 8)
    chains = run(kernel, energy, x, steps=6, generator=generator(1))
    assert kernel.drawn == drawn
    noise = torch.randn((6, *x.shape), generator=generator(1))
    for xi in noise:
        x = x - 1e-4 * field_of(energy)(x)[1] + (2e-4) ** 0.5 * xi
    torch.testing.assert_close(chains.x, x)


# Refusals


@pytest.mark.parametrize(
    ("net", "shape", "words"),
    [
        (
            ConvNet(),
            (3, 28, 28),
            r"ConvNet needs square images with a side of 8, 16, 32, 64, ... pixels",
        ),
        (ConvNet(), (3, 32, 16), r"got \(3, 32, 16\)"),
        (ConvNet(), (1, 4, 4), "ConvNet needs square images"),
        (ConvNet(), (64,), r"ConvNet needs images \(C, H, W\), got \(64\)"),
        (ConvNet(attention=5), (3, 32, 32), r"attention must be one of \[32, 16, 8, 4\], got 5"),
        (
            NonLocalNet(),
            (3, 28, 28),
            "NonLocalNet needs square images with a side of 8, 16, 24, 32",
        ),
        (NonLocalNet(), (3, 8, 16), "NonLocalNet needs square images"),
        (WideResNet(10, 1), (3, 2, 8), "at least 4 x 4, got 2 x 8"),
        (WideResNet(10, 1), (2,), "WideResNet needs images"),
        (
            ResidualNet(),
            (3, 4, 8),
            "ResidualNet with 4 stages and scales 1 needs images of at least 8 x 8, got 4 x 8",
        ),
        (ResidualNet(scales=3), (3, 16, 16), "scales 3 needs images of at least 32 x 32"),
    ],
)
def test_images_that_do_not_fit_are_refused(
    net: Convolutional, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        net.build(shape)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match="has no layers yet"):
        net(torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ConvNet(0),
        lambda: NonLocalNet(3),
        lambda: NonLocalNet(0),
        lambda: WideResNet(12, 2),
        lambda: WideResNet(4, 2),
        lambda: WideResNet(10, 0),
        lambda: NonLocal(5),
        lambda: ResidualNet(()),
        lambda: ResidualNet((8, 0)),
        lambda: ResidualNet(blocks=0),
        lambda: ResidualNet(hidden=0),
        lambda: ResidualNet(scales=0),
        lambda: ResidualNet(input_std=0.0),
        lambda: ResidualNet(linear_std=0.0),
    ],
)
def test_senseless_arguments_raise(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"must be|needs"):
        wrong()  # type: ignore[operator]
