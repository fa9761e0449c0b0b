"""Encoders: sizes by formula, what they compute, and that they are no energies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

import coldness
from coldness.chains import DataStart, Source
from coldness.configuration import construct, describe
from coldness.data import Digits
from coldness.domain import Domain
from coldness.energies import ScalarEnergy, check_uncoupled
from coldness.kernels import Langevin
from coldness.model import Model
from coldness.nets import MLP, Encoder, ResNet18Encoder, SmallEncoder, ViTEncoder
from coldness.nets.conv_encoders import BasicBlock
from coldness.nets.vit import sines
from coldness.training import Settings, build
from laws import normal

ENCODERS = {
    "resnet": lambda **more: ResNet18Encoder(6, 4, 16, **more),
    "small": lambda **more: SmallEncoder(6, 4, 16, **more),
    "transformer": lambda **more: ViTEncoder(6, 4, 16, 2, 2, 16, **more),
}
every_encoder = pytest.mark.parametrize("name", ENCODERS)


def built(name: str, **more: Any) -> Encoder:
    torch.manual_seed(0)
    return ENCODERS[name](shape=(3, 8, 8), **more)


def images(count: int = 8, *shape: int) -> Tensor:
    return torch.tanh(normal(count, *(shape or (3, 8, 8)))).float()


def size(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


# Sizes


def head(features: int, hidden: int, latent: int) -> int:
    return features * hidden + 2 * hidden + hidden * latent + latent


def test_resnet_has_its_size() -> None:
    """11.17 million: that of torchvision without its last layer, with a first side of 3 for 7."""
    with torch.device("meta"):
        encoder = ResNet18Encoder(shape=(3, 32, 32))
    assert size(encoder.body) == 11_176_512 - 64 * 3 * (7**2 - 3**2)
    assert size(encoder.head) == head(512, 2048, 128)


def test_small_encoder_by_formula() -> None:
    encoder, w = SmallEncoder(10, 8, 20, shape=(1, 8, 8)), 8
    units = ((1, w), (w, 2 * w), (2 * w, 4 * w), (4 * w, 4 * w))
    assert size(encoder.body) == sum(9 * i * o + 2 * o for i, o in units)
    assert size(encoder.head) == head(4 * w, 20, 10)


def test_transformer_by_formula() -> None:
    """ViT-tiny: 5.3 million in its blocks."""
    with torch.device("meta"):
        encoder = ViTEncoder(shape=(3, 32, 32))
    d = 192
    block = 2 * 2 * d + (d + 1) * 3 * d + (d + 1) * d + (d + 1) * 4 * d + (4 * d + 1) * d
    assert size(encoder.body) == (3 * 16 + 1) * d + 12 * block + 2 * d
    assert round(12 * block / 1e6, 1) == 5.3
    assert size(encoder.head) == head(d, 2048, 128)


@pytest.mark.parametrize(("side", "last"), [(8, 1), (16, 2), (32, 4)])
def test_strides_of_convolutional_encoders(side: int, last: int) -> None:
    resnet, small = (
        kind(6, 4, 16, shape=(1, side, side)) for kind in (ResNet18Encoder, SmallEncoder)
    )
    x = images(2, 1, side, side)
    assert resnet.body[:-1](x).shape == (2, 32, last, last)
    assert small.body[:-1](x).shape == (2, 16, side // 4, side // 4)
    assert resnet.features(x).shape == (2, 32)
    assert small.features(x).shape == (2, 16)


@every_encoder
def test_no_narrow_convolution_writes_out_of_bounds(name: str) -> None:
    """Strided 1x1 convolutions of fewer than 16 channels do, in their backward pass (oneDNN)."""
    for layer in built(name).modules():
        if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1):
            assert layer.stride == (1, 1) or layer.in_channels >= 16


# What they compute


@every_encoder
def test_latents_are_computed_from_features_of_standardised_images(name: str) -> None:
    encoder, x = built(name).eval(), images()
    shifted = built(name, input_mean=0.3, input_std=0.1).eval()
    assert encoder.features(x).dim() == 2
    torch.testing.assert_close(encoder(x), encoder.head(encoder.features(x)))
    assert encoder(x).shape == (8, 6)
    torch.testing.assert_close(shifted(0.2 * x + 0.3), encoder(x), rtol=1e-4, atol=1e-5)
    assert encoder.latent == 6


def test_new_blocks_are_their_shortcuts() -> None:
    torch.manual_seed(0)
    same, halved = BasicBlock(4, 4, 1).eval(), BasicBlock(4, 6, 2).eval()
    x = images(2, 4, 6, 6)
    torch.testing.assert_close(same(x), x.relu())
    conv, norm = halved.shortcut
    expected = conv2d(x, conv.weight, stride=2) / (1 + norm.eps) ** 0.5
    torch.testing.assert_close(halved(x), expected.relu())


def test_patches_are_squares_of_the_image() -> None:
    encoder, x = built("transformer", input_std=1.0), images()
    patches = encoder.patches(x)
    assert patches.shape == (8, 4, 48)
    assert torch.equal(patches[:, 1].unflatten(1, (3, 4, 4)), x[:, :, :4, 4:])
    assert torch.equal(patches[:, 2].unflatten(1, (3, 4, 4)), x[:, :, 4:, :4])


def test_embeddings_have_positions_and_any_subset_can_be_encoded() -> None:
    encoder, x = built("transformer").double(), images().double()
    tokens = encoder.embed(x)
    weight, bias = encoder.body.embedding.weight, encoder.body.embedding.bias
    expected = encoder.patches(x) @ weight.T + bias + encoder.body.positions
    torch.testing.assert_close(tokens, expected)
    torch.testing.assert_close(encoder.features(x), encoder.encode(tokens).mean(1))
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(encoder.encode(tokens[:, order]), encoder.encode(tokens)[:, order])
    visible = encoder.encode(tokens[:, :2])
    assert visible.shape == (8, 2, 16)
    other = x.clone()
    other[:, :, 4:] = 0  # the patches that were left out
    torch.testing.assert_close(encoder.encode(encoder.embed(other)[:, :2]), visible)
    assert not torch.allclose(visible, encoder.encode(tokens)[:, :2])


def test_positions_are_sines_of_rows_and_columns() -> None:
    at = sines(2, 3, 8)
    assert at.shape == (6, 8)
    assert float(at[5, 0]) == pytest.approx(torch.tensor(1.0).sin().item())  # row 1
    assert float(at[5, 3]) == pytest.approx(torch.tensor(0.01).cos().item())
    assert float(at[5, 4]) == pytest.approx(torch.tensor(2.0).sin().item())  # column 2
    assert len({tuple(row) for row in at.tolist()}) == 6


# Modes, precision and layout


@every_encoder
def test_batch_norm_learns_in_train_mode_and_is_fixed_in_eval_mode(name: str) -> None:
    encoder, x = built(name), images()
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    encoder.eval()
    alone = torch.cat([encoder(one[None]) for one in x])
    torch.testing.assert_close(alone, encoder(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(before[key], value) for key, value in encoder.state_dict().items())
    encoder.train()
    assert not torch.allclose(encoder(x)[:4], encoder(x[:4]))
    moved = {
        key for key, value in encoder.state_dict().items() if not torch.equal(before[key], value)
    }
    assert moved
    assert all("running" in key or "num_batches" in key for key in moved)


@every_encoder
@pytest.mark.parametrize("train", [True, False])
def test_latents_are_float32_and_near_under_autocast(name: str, train: bool) -> None:
    encoder, x = built(name).train(train), images(16)
    exact = encoder(x)
    with torch.autocast("cpu", torch.bfloat16):
        rough, features = encoder(x), encoder.features(x)
    assert rough.dtype == features.dtype == torch.float32
    assert not torch.equal(rough, exact)
    assert float(((rough - exact).norm() / exact.norm()).detach()) < 0.05
    rough.square().mean().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in encoder.parameters())


@every_encoder
def test_memory_layout_of_the_input_changes_nothing(name: str) -> None:
    encoder, x = built(name).eval(), images()
    assert torch.equal(encoder(x), encoder(x.contiguous(memory_format=torch.channels_last)))
    weights = [p for p in encoder.body.parameters() if p.dim() == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)


# Files


@every_encoder
def test_a_built_encoder_is_described_with_its_shape(name: str) -> None:
    torch.manual_seed(0)
    encoder = ENCODERS[name]()
    assert describe(encoder)["init_args"]["shape"] is None
    encoder.build((3, 8, 8))
    encoder(images())  # batch norm has statistics of its own now
    again = construct(nn.Module, describe(encoder))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(encoder.eval()(images()), again.eval()(images()))


@every_encoder
def test_a_model_keeps_its_encoder(name: str, tmp_path: Path) -> None:
    encoder = built(name)
    encoder(images())
    net = MLP(192, (8,))
    model = Model(ScalarEnergy(net), Domain((3, 8, 8)), kept={"encoder": encoder.eval()})
    again = coldness.load(model.save(tmp_path / "model")).kept["encoder"]
    assert isinstance(again, Encoder)
    assert not again.training
    assert torch.equal(again(images()), encoder(images()))
    assert torch.equal(again.features(images()), encoder.features(images()))


# No energies


@every_encoder
def test_encoders_are_refused_as_energies(name: str) -> None:
    """Batch norm couples the examples of a batch, in the head if nowhere else."""
    energy = ScalarEnergy(type(built(name))(latent=1, hidden=8))
    energy.build(Domain((3, 8, 8)))
    assert energy(images()).shape == (8,)
    with pytest.raises(ValueError, match=r"this is not an energy: the layer net.*BatchNorm") as no:
        check_uncoupled(energy.eval(), images())
    assert "couples the examples of a batch" in str(no.value)


def test_training_refuses_an_encoder_as_energy() -> None:
    def settings(net: Encoder) -> Settings:
        return Settings(
            data=Digits(),
            energy=ScalarEnergy(net),
            sources=[Source(DataStart(), Langevin(1e-4), steps=1)],
            optimiser=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
            iterations=1,
            batch_size=4,
        )

    with pytest.raises(ValueError, match="SmallEncoder has latent 5, but 1 outputs are needed"):
        build(settings(SmallEncoder(5, 4, 8)))
    with pytest.raises(ValueError, match="this is not an energy: the layer net"):
        build(settings(SmallEncoder(1, 4, 8)))


# Refusals


@pytest.mark.parametrize(
    ("encoder", "shape", "words"),
    [
        (ResNet18Encoder(6, 4), (3, 4, 8), "ResNet18Encoder needs images of at least 8 x 8, got 4"),
        (SmallEncoder(6, 4), (3, 8, 7), "SmallEncoder needs images of at least 8 x 8, got 8 x 7"),
        (SmallEncoder(6, 4), (64,), r"SmallEncoder needs images \(C, H, W\), got \(64\)"),
        (ViTEncoder(6), (3, 8, 10), "whose sides are multiples of patch 4, got 8 x 10"),
    ],
)
def test_images_that_do_not_fit_are_refused(
    encoder: Encoder, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        encoder.build(shape)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match="has no layers yet"):
        encoder.features(torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SmallEncoder(0),
        lambda: SmallEncoder(width=0),
        lambda: ResNet18Encoder(hidden=0),
        lambda: ResNet18Encoder(width=0),
        lambda: SmallEncoder(input_std=0.0),
        lambda: ViTEncoder(patch=0),
        lambda: ViTEncoder(depth=0),
        lambda: ViTEncoder(width=190, heads=1),
        lambda: ViTEncoder(width=20, heads=3),
    ],
)
def test_senseless_arguments_raise(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        wrong()  # type: ignore[operator]


def test_a_transformer_without_layers_says_so() -> None:
    for call in (ViTEncoder().patches, ViTEncoder().embed, ViTEncoder().encode):
        with pytest.raises(ValueError, match="has no layers yet"):
            call(torch.zeros(1, 3, 8, 8))
