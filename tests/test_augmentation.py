"""Augmentations against exact results: crops by interpolation, maps by rotation, colours by HSV."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import interpolate

from coldness.data import (
    Affine,
    Augmentation,
    Blur,
    ColourJitter,
    Compose,
    CropFlip,
    Digits,
    Flip,
    Grey,
    ImageData,
    Pictures,
    ResizedCrop,
)
from coldness.data.colour import with_colour
from laws import FIVE_SIGMA, assert_mean, assert_share, generator


def images(*shape: int, seed: int = 0) -> Tensor:
    """In [-1, 1], in double precision."""
    return 2 * torch.rand(shape, generator=generator(seed), dtype=torch.float64) - 1


# Nothing changes where nothing should.

IDENTITIES: list[Augmentation] = [
    Flip(0.0),
    ResizedCrop((1.0, 1.0), (1.0, 1.0)),
    ResizedCrop((1.0, 1.0), (1.0, 1.0), "bilinear"),
    ColourJitter(0.0, 0.0, 0.0, 0.0, 1.0),
    ColourJitter(0.0, 0.0, 1e-15, 0.0, 1.0),  # there and back through HSV
    ColourJitter(p=0.0),
    Grey(0.0),
    Blur(1, p=1.0),
    Blur(5, (1e-3, 1e-3), 1.0),
    Blur(p=0.0),
    Affine((0.0, 0.0), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0)),
    Affine((360.0, 360.0), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0)),
    Affine(p=0.0),
]


@pytest.mark.parametrize("part", IDENTITIES, ids=str)
def test_identities(part: Augmentation) -> None:
    x = images(20, 3, 8, 8)
    torch.testing.assert_close(part(x, generator(1)), x, rtol=0, atol=1e-12)
    single = x.float()
    torch.testing.assert_close(part(single, generator(1)), single, rtol=0, atol=1e-5)


def test_flips_are_mirrors_and_undo_themselves() -> None:
    x = images(4000, 3, 2, 5)
    assert torch.equal(Flip(1.0)(x, generator()), x.flip(3))
    assert torch.equal(Compose([Flip(1.0), Flip(1.0)])(x, generator()), x)
    y = Flip(0.3)(x, generator(2))
    mirrored = (y == x.flip(3)).flatten(1).all(1)
    assert torch.equal(y[~mirrored], x[~mirrored])
    assert_share(int(mirrored.sum()), 4000, 0.3)


def test_parts_of_a_composition_follow_each_other() -> None:
    x, parts = images(30, 3, 8, 8), [ResizedCrop(), ColourJitter(), Flip()]
    one, all_at_once = generator(3), generator(3)
    y = x
    for part in parts:
        y = part(y, one)
    assert torch.equal(Compose(parts)(x, all_at_once), y)
    assert Compose(parts) == Compose(tuple(parts))
    assert Compose([Flip(), CropFlip()]).moves_pixels
    assert not Compose(parts).moves_pixels


# Crops.


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
def test_crops_are_boxes_that_are_cut_out_and_enlarged(mode: str) -> None:
    x, part = images(60, 3, 9, 12), ResizedCrop((0.05, 1.0), interpolation=mode)  # type: ignore[arg-type]
    y = part(x, generator(4))
    boxes = torch.stack(part.boxes(60, 9, 12, generator(4)), 1).long().tolist()
    for image, found, (top, left, h, w) in zip(x, y, boxes, strict=True):
        box = image[None, :, top : top + h, left : left + w]
        whole = interpolate(box, (9, 12), mode=mode, align_corners=False)[0]
        expected = whole.clamp(image.min(), image.max())
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_crops_have_the_law_of_areas_ratios_and_places() -> None:
    """Sides are large, so that rounding is small; then few boxes are refused, and all of one law:
    uniform area and log-uniform ratio, given that both sides fit."""
    count, side = 20_000, 10_000
    part = ResizedCrop((0.1, 0.6), (0.5, 2.0))  # sides up to sqrt(0.6 * 2) > 1: some do not fit
    top, left, h, w = (v.double() for v in part.boxes(count, side, side, generator(5)))
    area, ratio = h * w / side**2, w / h
    # The same law by plain rejection, with numbers of its own.
    u = torch.rand(2, 8 * count, generator=generator(6), dtype=torch.float64)
    a, r = 0.1 + 0.5 * u[0], torch.exp(math.log(0.5) + 2 * math.log(2) * u[1])
    fits = (a * r <= 1) & (a / r <= 1)
    for found, wanted in ((area, a[fits]), (ratio, r[fits])):
        assert stats.ks_2samp(found.numpy(), wanted.numpy()).pvalue > FIVE_SIGMA
    for first, length in ((top, h), (left, w)):
        assert bool(((first >= 0) & (first + length <= side)).all())
        place = (first + 0.5) / (side - length + 1)
        assert stats.kstest(place.numpy(), stats.uniform.cdf).pvalue > FIVE_SIGMA
    # Without refusals the area is uniform: its mean and variance are known.
    _, _, h, w = (
        v.double() for v in ResizedCrop((0.1, 0.6)).boxes(count, side, side, generator(7))
    )
    area = h * w / side**2
    assert_mean(area, 0.35)
    assert_mean((area - 0.35).square(), 0.5**2 / 12)
    assert_mean((w / h).log(), 0.0)


def test_crops_of_small_images_are_whole_pixels_with_even_corners() -> None:
    part = ResizedCrop((0.25, 0.25), (1.0, 1.0))
    top, left, h, w = part.boxes(9000, 4, 4, generator(8))
    assert h.unique().tolist() == w.unique().tolist() == [2.0]
    hits = torch.bincount((3 * top + left).long(), minlength=9)
    assert stats.chisquare(hits.numpy()).pvalue > FIVE_SIGMA


def test_a_box_that_never_fits_is_the_largest_central_one() -> None:
    for (height, width), box in {(8, 8): (1, 0, 6, 8), (20, 6): (7, 0, 5, 6)}.items():
        part = ResizedCrop((1.0, 1.0), (1.3, 1.4))
        found = part.boxes(50, height, width, generator(9))
        assert torch.stack(found, 1).unique(dim=0).tolist() == [[float(v) for v in box]]
    found = ResizedCrop((1.0, 1.0), (0.5, 0.8)).boxes(5, 4, 20, generator(9))
    assert torch.stack(found, 1).unique(dim=0).tolist() == [[0.0, 8.0, 4.0, 3.0]]


def test_a_nan_is_not_cut_away() -> None:
    """A chain that became NaN stays visible to the guard."""
    x = images(200, 1, 8, 8)
    x[:, :, 0, 0] = math.nan
    assert bool(ResizedCrop()(x, generator()).isnan().flatten(1).all())


# Affine maps.


def still(**given: tuple[float, float]) -> Affine:
    """No change but the one given."""
    none = {"degrees": (0.0, 0.0), "translate": (0.0, 0.0), "scale": (1.0, 1.0)}
    return Affine(**{**none, **given})  # type: ignore[arg-type]


def delta(row: int, column: int, size: int = 9) -> Tensor:
    x = torch.full((1, 1, size, size), -1.0, dtype=torch.float64)
    x[0, 0, row, column] = 1.0
    return x


def brightest(x: Tensor) -> tuple[int, int]:
    return divmod(int(x.flatten().argmax()), x.shape[3])


def test_rotations_by_right_angles() -> None:
    x = images(5, 3, 8, 8)
    for quarters in (1, 2, 3):
        y = still(degrees=(90.0 * quarters, 90.0 * quarters))(x, generator())
        torch.testing.assert_close(y, x.rot90(quarters, (2, 3)), rtol=0, atol=1e-12)


def test_known_maps_of_one_bright_pixel() -> None:
    x = delta(2, 6)  # two above and two to the right of the centre, 4, 4
    shifted = still(translate=(1 / 9, 1 / 9))(x, generator())
    torch.testing.assert_close(shifted, delta(3, 7), rtol=0, atol=1e-12)
    assert brightest(still(scale=(2.0, 2.0))(x, generator())) == (0, 8)
    assert brightest(still(scale=(0.5, 0.5))(x, generator())) == (3, 5)
    # A shear of 45 degrees moves a pixel two above the centre by two to the right.
    sheared = Affine((0.0, 0.0), (0.0, 0.0), (1.0, 1.0), (45.0, 45.0))(x, generator())
    torch.testing.assert_close(sheared, delta(2, 8), rtol=0, atol=1e-12)


def test_maps_of_wide_images_keep_distances() -> None:
    """In pixels, not in fractions of the sides."""
    x = torch.full((1, 1, 5, 11), -1.0, dtype=torch.float64)
    x[0, 0, 2, 7] = 1.0  # two to the right of the centre
    y = still(degrees=(90.0, 90.0))(x, generator())
    assert brightest(y) == (0, 5)
    assert float(y.max()) == pytest.approx(1.0)


def test_what_comes_from_outside_repeats_the_border() -> None:
    x = images(3, 2, 6, 6)
    y = still(translate=(0.5, 0.5))(x, generator())
    torch.testing.assert_close(y[:, :, 3:, 3:], x[:, :, :3, :3], rtol=0, atol=1e-12)
    torch.testing.assert_close(y[:, :, :4, 3:], x[:, :, :1, :3].expand(-1, -1, 4, -1))


def test_shifts_are_uniform_and_of_their_own_in_both_directions() -> None:
    """The value of a ramp at the centre gives the shift exactly."""
    ramp = torch.arange(21, dtype=torch.float64) / 10 - 1
    across, down = ramp.expand(21, -1), ramp[:, None].expand(-1, 21)
    x = torch.stack([across, down]).expand(4000, -1, -1, -1)
    y = still(translate=(-0.2, 0.3))(x, generator(10))
    shifts = -y[:, :, 10, 10] * 10 / 21
    for of in shifts.T:
        assert stats.kstest(of.numpy(), stats.uniform(-0.2, 0.5).cdf).pvalue > FIVE_SIGMA
    centred = shifts - 0.05
    assert_mean(centred[:, 0] * centred[:, 1], 0.0)


# Blur.


def test_a_blurred_pixel_is_the_kernel() -> None:
    sigma = 0.8
    y = Blur(5, (sigma, sigma), 1.0)(delta(4, 4), generator())[0, 0]
    w = torch.exp(-(torch.arange(-2.0, 3.0).double() ** 2) / (2 * sigma**2))
    w = w / w.sum()
    torch.testing.assert_close((y[2:7, 2:7] + 1) / 2, w[:, None] * w, rtol=0, atol=1e-12)
    assert float((y + 1).sum() / 2) == pytest.approx(1.0)


def test_blur_keeps_constant_images_and_is_drawn_for_each() -> None:
    x = torch.full((6, 3, 5, 5), 0.3, dtype=torch.float64)
    torch.testing.assert_close(Blur(7, p=1.0)(x, generator()), x)
    y = Blur(3, (0.3, 2.0), 0.4)(delta(4, 4).expand(4000, -1, -1, -1), generator(11))
    assert_share(int((y[:, 0, 4, 4] < 1).sum()), 4000, 0.4)


# Colour.


def units(x: Tensor) -> Tensor:
    return (x + 1) / 2


def test_saturation_and_hue_are_those_of_hsv() -> None:
    u = units(images(8, 3, 4, 4))
    u[0, :, 0, 0] = 0.4  # grey, black, and a tie of two channels
    u[0, :, 0, 1] = 0.0
    u[0, :, 0, 2] = torch.tensor([0.7, 0.7, 0.1])
    f = torch.linspace(0, 2, 8, dtype=torch.float64).reshape(8, 1, 1, 1)
    r = torch.linspace(-0.5, 0.5, 8, dtype=torch.float64).reshape(8, 1, 1, 1)
    y = with_colour(u, f, r)
    for k in range(8):
        for row in range(4):
            for column in range(4):
                h, s, v = colorsys.rgb_to_hsv(*u[k, :, row, column].tolist())
                wanted = colorsys.hsv_to_rgb((h + float(r[k])) % 1, min(1, s * float(f[k])), v)
                assert y[k, :, row, column].tolist() == pytest.approx(wanted, abs=1e-12)


def test_full_turns_of_the_hue_change_nothing_and_thirds_exchange_channels() -> None:
    u, one = units(images(6, 3, 4, 4)), torch.ones(6, 1, 1, 1, dtype=torch.float64)
    for turns in (-1.0, 0.0, 1.0, 2.0):
        torch.testing.assert_close(with_colour(u, one, turns * one), u, rtol=0, atol=1e-12)
    third = with_colour(u, one, one / 3)
    torch.testing.assert_close(third, u.roll(1, 1), rtol=0, atol=1e-12)
    grey = with_colour(u, 0 * one, one / 5)
    torch.testing.assert_close(grey, u.amax(1, keepdim=True).expand_as(u))


@pytest.mark.parametrize("channels", [1, 3])
def test_brightness_is_added_and_contrast_scales_from_black(channels: int) -> None:
    u = torch.full((20_000, channels, 1, 1), 0.5, dtype=torch.float64)
    y = units(ColourJitter(0.4, 0.0, 0.0, 0.0, 1.0)(2 * u - 1, generator(12)))
    law = stats.uniform(0.1, 0.8).cdf
    assert stats.kstest(y[:, 0, 0, 0].numpy(), law).pvalue > FIVE_SIGMA
    y = units(ColourJitter(0.0, 0.4, 0.0, 0.0, 1.0)(2 * u - 1, generator(13)))
    law = stats.uniform(0.3, 0.4).cdf
    assert stats.kstest(y[:, 0, 0, 0].numpy(), law).pvalue > FIVE_SIGMA


def test_jitter_changes_a_part_of_the_images_and_stays_in_range() -> None:
    x = images(4000, 3, 2, 2)
    y = ColourJitter()(x, generator(14))
    assert_share(int((y != x).flatten(1).any(1).sum()), 4000, 0.8)
    assert float(y.abs().max()) <= 1
    one = x[:, :1]
    colourless = ColourJitter(0.0, 0.0, 0.4, 0.1, 1.0)(one, generator(14))
    torch.testing.assert_close(colourless, one)


def test_grey_images_have_equal_channels_and_stay_grey() -> None:
    x = images(4000, 3, 2, 2)
    y = Grey(1.0)(x, generator())
    torch.testing.assert_close(y[:, 0], 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2])
    assert torch.equal(y[:, :1].expand_as(y), y)
    torch.testing.assert_close(Grey(1.0)(y, generator()), y, rtol=0, atol=1e-12)
    some = Grey(0.2)(x, generator(15))
    assert_share(int((some != x).flatten(1).any(1).sum()), 4000, 0.2)
    assert torch.equal(Grey(1.0)(x[:, :1], generator()), x[:, :1])


# Of data.


def test_training_images_that_are_resampled_are_whole_pixel_values() -> None:
    data = Digits(augmentation=Compose([Affine(), Blur()]))
    x = data.original(data.sample(200, generator(16)))
    assert set(x.unique().tolist()) <= set(range(17))
    pixels = torch.randint(256, (40, 3, 8, 8), generator=generator(17), dtype=torch.uint8)
    pictures = Pictures(pixels, torch.zeros(40, dtype=torch.int64), ("all",))
    plain, crops = (ImageData(pictures, augmentation=a) for a in (None, ResizedCrop((1.0, 1.0))))
    whole = ImageData(pictures, augmentation=ResizedCrop((1.0, 1.0), (1.0, 1.0)), dequantise=True)
    assert set(crops.original(crops.sample(9, generator(18))).round().unique().tolist()) <= set(
        range(256)
    )
    x = whole.original(whole.sample(50, generator(19))).floor()
    assert set(map(tuple, x.flatten(1).tolist())) <= set(
        map(tuple, plain.original(plain.train).round().flatten(1).tolist())
    )


# What is refused.

WRONG: dict[str, Callable[[], object]] = {
    "at least one": lambda: Compose([]),
    "p must be a probability": lambda: Flip(1.5),
    r"scale must be \[low, high\] with 0 < low": lambda: ResizedCrop((0.0, 1.0)),
    "scale must not exceed 1": lambda: ResizedCrop((0.5, 1.5)),
    r"ratio must be \[low, high\]": lambda: ResizedCrop(ratio=(2.0, 1.0)),
    "interpolation must be bicubic": lambda: ResizedCrop(interpolation="nearest"),  # type: ignore[arg-type]
    "brightness must be >= 0": lambda: ColourJitter(-1.0),
    "contrast and saturation": lambda: ColourJitter(contrast=1.5),
    "hue must be in": lambda: ColourJitter(hue=0.6),
    "p must be a": lambda: Grey(-0.1),
    "kernel must be odd": lambda: Blur(4),
    "sigma must be": lambda: Blur(sigma=(0.0, 1.0)),
    "degrees must be": lambda: Affine((1.0, -1.0)),
    "shear must be below 90": lambda: Affine(shear=(0.0, 90.0)),
    "ColourJitter needs images with 1 or 3": lambda: ColourJitter()(
        images(2, 2, 4, 4), generator()
    ),
    "Grey needs images with 1 or 3": lambda: Grey()(images(2, 4, 4, 4), generator()),
    "smaller than twice the sides": lambda: Blur(9)(images(2, 1, 4, 4), generator()),
}


@pytest.mark.parametrize("message", WRONG)
def test_arguments_that_are_refused(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WRONG[message]()
