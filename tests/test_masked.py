"""The masked autoencoder, and heads on frozen encoders: their losses, masks and gradients."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import coldness
from coldness.data import Digits
from coldness.domain import Domain
from coldness.energies import ScalarEnergy, SphericalEnergy
from coldness.model import Model
from coldness.nets import MLP, Headed, SmallEncoder, ViTEncoder
from coldness.objectives import MAE, Guidance, Masked
from coldness.objectives.frozen import load_encoder
from coldness.objectives.masked import MaskedAutoencoder
from laws import generator, normal


def autoencoder(**more: object) -> MaskedAutoencoder:
    """Of images (3, 8, 8) with 16 patches of 2 x 2, in float64."""
    torch.manual_seed(0)
    encoder = ViTEncoder(6, 2, 16, 2, 2, 16, shape=(3, 8, 8))
    return MaskedAutoencoder(encoder, 8, 1, 2, **more).double()


def with_patch(x: Tensor, patch: int, value: float) -> Tensor:
    """Images whose patch of this number has another value."""
    row, column = 2 * (patch // 4), 2 * (patch % 4)
    changed = x.clone()
    changed[:, :, row : row + 2, column : column + 2] = value
    return changed


# Masks


@pytest.mark.parametrize(("mask", "masked"), [(0.75, 12), (0.5, 8), (0.1, 2), (0.9, 14)])
def test_the_fraction_of_masked_patches_is_exact(mask: float, masked: int) -> None:
    auto = autoencoder(mask=mask)
    order = auto.order(500, generator(1))
    assert auto.masked == masked
    assert torch.equal(order.sort(1).values, torch.arange(16).expand(500, 16))
    # Every patch is masked equally often: binomial, five standard errors.
    rate = masked / 16
    often = torch.bincount(order[:, auto.visible :].flatten(), minlength=16) / 500
    assert float((often - rate).abs().max()) < 5 * math.sqrt(rate * (1 - rate) / 500)


def test_the_same_random_numbers_give_the_same_bits() -> None:
    auto, x = autoencoder(), normal(4, 3, 8, 8)
    loss = auto(x, generator(2))
    assert torch.equal(loss, auto(x, generator(2)))
    assert not torch.equal(loss, auto(x, generator(3)))
    assert torch.equal(loss, auto.loss(x, auto.order(4, generator(2))))


@pytest.mark.parametrize("mask", [0.01, 0.99])
def test_some_patches_are_masked_and_some_visible(mask: float) -> None:
    with pytest.raises(ValueError, match="of 16 patches: some must be masked, and some visible"):
        autoencoder(mask=mask)


# The loss


@pytest.mark.parametrize("normalise", [False, True])
def test_the_loss_is_the_mean_over_masked_patches(normalise: bool) -> None:
    auto, x = autoencoder(normalise=normalise), normal(3, 3, 8, 8)
    order = auto.order(3, generator(4))
    predicted, total = auto.predictions(x, order), 0.0
    for b in range(3):
        for k in order[b, 4:].tolist():
            row, column = 2 * (k // 4), 2 * (k % 4)
            target = (x[b, :, row : row + 2, column : column + 2] / 0.5).flatten()
            if normalise:
                target = (target - target.mean()) / (target.var() + 1e-6).sqrt()
            total += float((predicted[b, k] - target).square().mean().detach()) / (3 * 12)
    assert float(auto.loss(x, order).detach()) == pytest.approx(total, rel=1e-12)


def test_predictions_see_visible_patches_only() -> None:
    auto, x = autoencoder(), normal(3, 3, 8, 8)
    order = auto.order(1, generator(5)).expand(3, -1)
    seen, hidden = order[0, :4].tolist(), order[0, 4:].tolist()
    before = auto.predictions(x, order)
    assert torch.equal(before, auto.predictions(with_patch(x, hidden[0], 3.0), order))
    assert not torch.allclose(before, auto.predictions(with_patch(x, seen[0], 3.0), order))


def test_targets_of_visible_patches_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    auto, x = autoencoder(), normal(3, 3, 8, 8)
    order = auto.order(1, generator(5)).expand(3, -1)
    targets, before = auto._targets(x), auto.loss(x, order)
    for place, same in ((order[0, 0], True), (order[0, -1], False)):
        changed = targets.clone()
        changed[:, place] += 1
        monkeypatch.setattr(auto, "_targets", lambda _, changed=changed: changed)
        assert torch.equal(auto.loss(x, order), before) is same


def test_the_order_of_visible_patches_has_no_effect() -> None:
    auto, x = autoencoder(), normal(3, 3, 8, 8)
    order = auto.order(3, generator(6))
    shuffled = torch.cat([order[:, :4].flip(1), order[:, 4:].flip(1)], 1)
    torch.testing.assert_close(auto.loss(x, order), auto.loss(x, shuffled))


def test_gradients_reach_encoder_and_decoder() -> None:
    auto = autoencoder()
    auto(normal(4, 3, 8, 8), generator(7)).backward()
    for name, parameter in auto.named_parameters():
        if name.startswith("encoder.head"):
            assert parameter.grad is None
        else:
            assert float(parameter.grad.norm()) > 0, name


def test_it_learns_to_complete_images() -> None:
    """Images of one grey level each: any visible patch tells the others."""
    auto = autoencoder().float()
    optimiser = torch.optim.AdamW(auto.parameters(), lr=3e-3)
    random, losses = generator(8), []
    for _ in range(80):
        level = torch.rand((32, 1, 1, 1), generator=random) - 0.5
        loss = auto(level.expand(-1, 3, 8, 8), random)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    variance = 1 / 12 / 0.5**2  # the error of the best constant prediction
    assert losses[0] > 0.9 * variance
    assert sum(losses[-10:]) / 10 < 0.2 * variance


# Refusals


def test_encoders_without_patches_are_refused() -> None:
    small = SmallEncoder(6, 4, 8, shape=(1, 8, 8))
    for make in (lambda: MaskedAutoencoder(small), lambda: Masked(small).check(6, Digits())):
        with pytest.raises(ValueError, match=r"needs an encoder with patches.*not SmallEncoder"):
            make()


@pytest.mark.parametrize(
    "wrong", [{"mask": 1.0}, {"decoder_depth": 0}, {"decoder_width": 30}, {"decoder_heads": 3}]
)
def test_senseless_arguments_raise(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Masked(ViTEncoder(), **wrong)


def test_a_masked_autoencoder_does_not_guide() -> None:
    with pytest.raises(ValueError, match="then guide with MAE"):
        Masked(ViTEncoder()).lesson(None)


# Heads on frozen encoders


def saved(folder: Path) -> Path:
    """A model that keeps an encoder whose batch norm has statistics of its own."""
    torch.manual_seed(0)
    encoder = SmallEncoder(6, 4, 8, shape=(1, 8, 8))
    encoder(normal(16, 1, 8, 8).float())
    kept: dict[str, nn.Module | Tensor] = {"encoder": encoder.eval()}
    return Model(ScalarEnergy(MLP(64, (8,))), Domain((1, 8, 8)), kept=kept).save(folder)


def test_a_frozen_encoder_stays_as_it_was() -> None:
    torch.manual_seed(0)
    inside = SmallEncoder(6, 4, 8, shape=(1, 8, 8))
    encoder, x = Headed(inside, 5, 16, shape=(1, 8, 8)), normal(7, 1, 8, 8).float()
    before = {k: v.clone() for k, v in inside.state_dict().items()}
    encoder.train()
    assert encoder.training
    assert not inside.training
    torch.testing.assert_close(encoder.features(x[:3]), encoder.features(x)[:3])
    encoder(x).square().sum().backward()
    assert all(torch.equal(before[k], v) for k, v in inside.state_dict().items())
    assert all(p.grad is None for p in inside.parameters())
    assert all(float(p.grad.norm()) > 0 for p in encoder.head.parameters())


def test_only_the_head_learns(tmp_path: Path) -> None:
    path = saved(tmp_path / "model")
    teacher = MAE(str(path), latent=5, hidden=16)
    teacher.check(5, Digits())
    teacher.prepare(Digits(), "cpu", generator(9))
    own = {id(p) for group in teacher._optimiser.param_groups for p in group["params"]}
    assert own == {id(p) for p in teacher.encoder.head.parameters()}
    head = [p.clone() for p in teacher.encoder.head.parameters()]
    teacher.loss(Digits().sample(8, generator(10)), torch.empty(0, 5)).backward()
    teacher.update(0, 10)
    now = list(teacher.encoder.head.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(head, now, strict=True))
    for encoder in (teacher.encoder, teacher.trained()):
        assert isinstance(encoder, Headed)
        saved_one = load_encoder(path).state_dict()
        assert all(torch.equal(saved_one[k], v) for k, v in encoder.encoder.state_dict().items())


def test_both_views_are_the_image(tmp_path: Path) -> None:
    """Eq. 13 with z_1 = z_2, by its definition."""
    teacher = MAE(str(saved(tmp_path / "model")), latent=5, hidden=16, temperature=0.3)
    teacher.prepare(Digits(), "cpu", generator(9))
    x, v = Digits().sample(6, generator(11)), nn.functional.normalize(normal(4, 5).float(), dim=1)
    z = nn.functional.normalize(teacher.encoder(x), dim=1)
    alike, further = (z @ z.T / 0.3).exp(), (z @ v.T / 0.3).exp().sum(1)
    own = alike.diagonal()
    expected = -(own / (own + 2 * (alike.sum(1) - own) + further)).log().mean()
    torch.testing.assert_close(teacher.loss(x, v), expected, rtol=1e-5, atol=1e-6)


def test_images_of_another_shape_are_refused(tmp_path: Path) -> None:
    class Other:
        class domain:
            shape, is_images = (3, 8, 8), True

    energy = SphericalEnergy(MLP(None, (8,)), latent=5)
    term = Guidance(MAE(str(saved(tmp_path / "model")), latent=5, hidden=16))
    with pytest.raises(ValueError, match=r"built for images \(1, 8, 8\), but the data has"):
        term.check(energy, Other)
    with pytest.raises(ValueError, match="latents of dimension 5, the energy of 6"):
        term.check(SphericalEnergy(MLP(None, (8,)), latent=6), Other)


def test_a_model_keeps_a_headed_encoder(tmp_path: Path) -> None:
    headed = Headed(load_encoder(saved(tmp_path / "first")), 5, 16, shape=(1, 8, 8))
    x = normal(16, 1, 8, 8).float()
    headed(x)
    kept: dict[str, nn.Module | Tensor] = {"encoder": headed.eval()}
    model = Model(ScalarEnergy(MLP(64, (8,))), Domain((1, 8, 8)), kept=kept)
    path = model.save(tmp_path / "second")
    for again in (coldness.load(path).kept["encoder"], load_encoder(path)):
        assert torch.equal(again(x), headed(x))
        again.train()
        assert not again.encoder.training
        assert not any(p.requires_grad for p in again.encoder.parameters())
