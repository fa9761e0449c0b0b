"""Shapes: the law of their attributes, their pixels, and the judge that names attributes."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import coldness
from coldness.cli.main import main
from coldness.data import Shapes
from coldness.data.attributes import Attributes
from coldness.data.images import BadImages, ImageData, Pictures
from coldness.data.scenes import GREY, NAMES, PROPERTIES, Scenes, draw_scenes, render
from coldness.evaluation.attribute_judge import fit_judge, judge_attributes
from laws import FIVE_SIGMA, assert_mean, assert_share, generator


@cache
def shapes() -> Shapes:
    return Shapes()


def scene(shape: int, radius: float, x: float = 0.5, y: float = 0.5, hue: float = 0.0) -> Scenes:
    one = [torch.tensor([value]) for value in (radius, x, y, hue, 1.0, 0.0)]
    return Scenes(torch.tensor([[shape, 0, 0, 0]]), *one)


# The law.


def test_properties_are_independent_with_equal_probabilities() -> None:
    count = 48_000
    values = draw_scenes(count, generator()).values
    joint = torch.zeros(3, 4, 2, 2)
    joint.index_put_(tuple(values.T), torch.ones(count), accumulate=True)
    assert stats.chisquare(joint.flatten().numpy()).pvalue > FIVE_SIGMA
    for name, of in PROPERTIES.items():
        column = list(PROPERTIES).index(name)
        assert_share(int((values[:, column] == 0).sum()), count, 1 / len(of))


def test_attributes_can_be_read_from_what_is_rendered() -> None:
    """The oracle: hue, radius and place of a scene alone give its colour, size and position."""
    scenes = draw_scenes(20_000, generator(1))
    known = scenes.attributes
    hue = scenes.hue.remainder(360)
    oracle = {
        "red": (hue < 16) | (hue > 344),
        "yellow": (hue - 60).abs() < 16,
        "green": (hue - 120).abs() < 16,
        "blue": (hue - 240).abs() < 16,
        "small": scenes.radius < 0.2,
        "large": scenes.radius > 0.2,
        "left": scenes.x < 0.5,
        "right": scenes.x > 0.5,
    }
    for name, expected in oracle.items():
        assert torch.equal(known.values[:, NAMES.index(name)], expected)
    for of in PROPERTIES.values():
        assert bool((known.values[:, known.columns(of)].sum(1) == 1).all())


def test_given_attributes_are_conditions_and_the_rest_keeps_its_law() -> None:
    count = 6000
    known = draw_scenes(count, generator(2), ["square", "left"]).attributes.values
    assert bool(known[:, [NAMES.index("square"), NAMES.index("left")]].all())
    for name in PROPERTIES["colour"]:
        assert_share(int(known[:, NAMES.index(name)].sum()), count, 1 / 4)
    with pytest.raises(ValueError, match="red and blue exclude each other: each is a colour"):
        draw_scenes(2, generator(), ["blue", "red"])
    with pytest.raises(ValueError, match="there is no attribute pink; there are circle, square"):
        draw_scenes(2, generator(), ["pink"])


# Pixels.


@pytest.mark.parametrize(
    ("shape", "area"), [(0, math.pi), (1, 1.8**2), (2, math.sqrt(3) / 4 * 2.3**2)]
)
def test_antialiased_shapes_have_their_area(shape: int, area: float) -> None:
    """The covered fraction of a fine image, and of a coarse one, where a pixel's border matters."""
    for side, tolerance in ((200, 0.005), (16, 0.06)):
        image = render(scene(shape, 0.25), side, 0.0, generator())
        covered = float(image[0, 0].double().mean() / 255)
        assert covered == pytest.approx(area * 0.25**2, rel=tolerance)


def test_no_shape_leaves_the_image() -> None:
    """The outermost pixels show the background alone, which is grey."""
    scenes = draw_scenes(100, generator(3))
    images = render(scenes, 400, 0.0, generator())
    grey = (255 * scenes.grey).round().byte()[:, None, None]
    for edge in (images[..., 0], images[..., -1], images[:, :, 0], images[:, :, -1]):
        assert torch.equal(edge, grey.expand_as(edge))
    assert float(scenes.grey.min()) >= GREY[0]


def test_shapes_are_where_they_should_be() -> None:
    at = scene(2, 0.2, x=0.3, y=0.7)
    cover = render(at, 100, 0.0, generator())[0, 0].double()
    assert float((cover.sum(0) * (torch.arange(100) + 0.5)).sum() / cover.sum()) == pytest.approx(
        30, abs=0.1
    )
    rows = cover.sum(1).nonzero()[:, 0]
    assert float(rows.double().mean()) + 0.5 == pytest.approx(70, abs=0.6)
    assert cover[rows[0]].sum() < cover[rows[-1]].sum()  # it points up


@pytest.mark.parametrize(
    ("hue", "rgb"),
    [(0, (255, 0, 0)), (60, (255, 255, 0)), (120, (0, 255, 0)), (240, (0, 0, 255)),
     (-15, (255, 0, 64)), (255, (64, 0, 255))],
)  # fmt: skip
def test_hues(hue: float, rgb: tuple[int, ...]) -> None:
    image = render(scene(1, 0.3, hue=float(hue)), 9, 0.0, generator())
    assert tuple(image[0, :, 4, 4].tolist()) == rgb


def test_pixel_noise_has_its_standard_deviation() -> None:
    quiet = Scenes(*(torch.cat([v] * 400) for v in vars(scene(0, 0.1)).values()))
    middle = Scenes(**{**vars(quiet), "grey": torch.full((400,), 0.4)})
    corner = render(middle, 16, 0.05, generator(4))[:, :, :4, :4].double() / 255 - 0.4
    assert_mean(corner.flatten().square(), 0.05**2 + 1 / (12 * 255**2))


def test_parts_depend_on_the_seeds_alone() -> None:
    data, same, other = Shapes(600), Shapes(600), Shapes(600, seed=1)
    assert torch.equal(data.train, same.train)
    assert torch.equal(data.test_attributes, same.test_attributes)
    assert not torch.equal(data.test, other.test)
    sizes = [len(x) for x in (data.train, data.validation, data.test)]
    assert sum(sizes) == 600
    assert sizes == pytest.approx([432, 48, 120], abs=2)  # classes are rounded one by one
    shown = [PROPERTIES["shape"].index(name) for name in PROPERTIES["shape"]]
    assert torch.equal(data.train_attributes[:, shown].int().argmax(1), data.train_labels)
    assert data.domain.classes == ("circle", "square", "triangle")
    assert data.domain.attributes == NAMES
    assert Shapes(60, size=8, validation=0.2).shape == (3, 8, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count must be >= 1, got 0"),
        ({"size": 7}, "size must be >= 8, got 7"),
        ({"noise": -1.0}, "noise must be >= 0, got -1"),
        ({"noise": math.nan}, "noise must be >= 0, got nan"),
    ],
)
def test_options_that_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(BadImages, match=message):
        Shapes(**options)


# The judge.


def test_the_judge_is_right_on_new_images_and_on_noisy_ones() -> None:
    data = shapes()
    judge = fit_judge(data, generator())
    assert judge is not None
    assert judge.names == NAMES
    assert set(judge.accuracy) == set(PROPERTIES)
    assert min(judge.accuracy.values()) >= 0.98
    wanted = ["triangle", "blue", "small", "left"]
    x = data.sample_given(wanted, 500, generator(5))
    for noise, least in ((0.0, 0.98), (0.1, 0.95)):
        found = judge(x + noise * torch.randn(x.shape, generator=generator(6)))
        shown = found[:, [NAMES.index(name) for name in wanted]].all(1)
        assert float(shown.double().mean()) >= least
        for of in PROPERTIES.values():
            assert bool((found[:, [NAMES.index(n) for n in of]].sum(1) == 1).all())
    with pytest.raises(ValueError, match="must be finite"):
        judge(torch.full((1, 3, 16, 16), math.nan))


def attributed(side: int = 6, count: int = 200) -> ImageData:
    """Two attributes in no group: bright in the top row, and in the first column; one of none."""
    values = torch.rand(count, 3, generator=generator(7)) < torch.tensor([0.5, 0.2, -1.0])
    images = torch.randint(60, (count, 1, side, side), generator=generator(8))
    images[:, :, 0] += 150 * values[:, 0, None, None]
    images[:, :, :, 0] += 15 * values[:, 1, None, None]
    known = Attributes(values, ("top", "first", "never"))
    none = torch.zeros(count, dtype=torch.int64)
    return ImageData(Pictures(images.byte(), none, ("all",), known), held_out=0.3)


def test_attributes_in_no_group_are_judged_one_by_one() -> None:
    data = attributed()
    judge = fit_judge(data, generator())
    assert judge is not None
    assert judge.accuracy["top"] == 1.0
    assert 0.6 < judge.accuracy["first"] < 1.0  # balanced: "no" alone would be 0.5
    assert math.isnan(judge.accuracy["never"])
    found = judge_attributes(data, data.test, generator())
    assert torch.equal(found, judge(data.test))
    assert torch.equal(found[:, 0], data.test_attributes[:, 0])
    assert not bool(found[:, 2].any())


def test_large_images_have_no_judge() -> None:
    data = attributed(side=33, count=40)
    assert fit_judge(data, generator()) is None
    with pytest.raises(ValueError, match="at most 32 pixels per side"):
        judge_attributes(data, data.test, generator())


# A run.


def test_a_run_on_shapes_shows_its_images(tmp_path: Path) -> None:
    run = tmp_path / "run"
    few = (
        "--data Shapes --data.count 300 --energy.net.widths [16] --iterations 2 --sampler.steps 2 "
        "--evaluation.samples 20 --evaluation.long_steps 4 --evaluation.ais null "
        "--evaluation.adjusted false --evaluation.features none"
    )
    assert main(["train", "digits", *few.split(), "--out", str(run)]) == 0
    with np.load(run / "evaluation.npz") as arrays:
        assert arrays["x_data"].shape[1:] == (3, 16, 16)
    page = (run / "report.html").read_text()
    assert "Data of run" in page
    assert "Long-run samples of run" in page
    assert coldness.load(run).domain.attributes == NAMES
