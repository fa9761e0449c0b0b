"""Verdicts on models of known truth: no grade above the one deserved (`coldness reproduce trust`).

The whole library over three seeds is the study; here the five models that fooled earlier versions,
the improper ones and one right model are judged, and the library itself is checked.
"""

from __future__ import annotations

import math

import pytest
import torch

from coldness.studies.deserved import JUDGED, deserved, false_alarms, false_trust, judged, wrong_kl
from coldness.studies.liars import Liar, NormalData, liars, normals, one, right_models, two
from laws import assert_mean, generator

ALL = {liar.name: liar for liar in (*liars(), *right_models())}

ONCE_FOOLED = (
    "2-D, 70% of the mass outside the grid",
    "10-D, 90% of the mass at 8 standard deviations",
    "2-D, 9% spurious mass at the centre",
    "2-D, mode weights .3/.7 for .5/.5",
    "10-D, mode weights .98/.02 for .5/.5",
)


@pytest.mark.parametrize("name", [*ONCE_FOOLED, "2-D, flat at infinity"])
def test_a_liar_is_not_trusted(name: str) -> None:
    liar = ALL[name]
    found = judged(liar, 0)
    assert false_trust(liar, found) == []
    assert not wrong_kl(liar, found), (liar.kl(), found.metrics["kl"])
    assert "yes" not in (found.answers["density"].grade, found.answers["long_chains"].grade)


def test_hidden_mass_is_named_with_its_place() -> None:
    found = judged(ALL["10-D, 90% of the mass at 8 standard deviations"], 1)
    m = found.metrics
    assert abs(m["mass_elsewhere"] - 0.9) < 5 * m["mass_elsewhere_error"] + 0.05
    assert m["elsewhere_dimension"] == 2
    assert m["elsewhere_value"] == pytest.approx(8, abs=0.5)
    for topic in ("density", "long_chains"):
        assert "in coordinate 2" in found.answers[topic].text
    assert "mode weights differ" in found.answers["density"].text


def test_a_right_model_in_ten_dimensions_is_trusted_though_chains_do_not_mix() -> None:
    found = judged(ALL["10-D, two separate modes"], 0)
    assert found.metrics["rhat"] > 1.1
    assert [found.answers[topic].grade for topic in JUDGED] == ["yes"] * 4
    assert "by weighted samples, are those of the data" in found.answers["long_chains"].text


def test_the_library_is_large_and_its_grades_follow_from_the_truth() -> None:
    faulty, right = list(liars()), list(right_models())
    assert len(faulty) >= 24
    assert len(right) >= 6
    assert {liar.data.shape[0] for liar in faulty} == {1, 2, 3, 10, 50}
    assert len(ALL) == len(faulty) + len(right)
    for liar in faulty:
        kl = liar.kl()
        if kl >= 1:
            assert deserved(liar, "density") == "no", liar.name
        elif kl >= 0.05:
            assert deserved(liar, "density") != "yes", liar.name
    for liar in right:
        assert liar.right
        assert liar.kl() == pytest.approx(0, abs=1e-9)


def test_a_grade_above_the_deserved_one_is_false_trust_and_one_below_a_false_alarm() -> None:
    data = NormalData(one(2))
    right, wrong = Liar("right", data, one(2)), Liar("liar", data, one(2), {"density": "no"})
    found = judged(right, 0)
    assert false_alarms(right, found) == false_trust(right, found) == []
    assert false_trust(wrong, found) == ["density"]
    shifted = Liar("shifted", data, one(2, x1=3.0))
    assert "density" in false_alarms(shifted, judged(shifted, 0))


def test_mixtures_are_normalised_and_sampled_as_they_say() -> None:
    energy = normals((0.3, [1.0, -1.0], [[0.5, 0.2], [0.2, 0.3]]), (0.7, [-1.0, 0.0], 0.1))
    side = torch.linspace(-6, 6, 1201, dtype=torch.float64)
    mass = (-energy(torch.cartesian_prod(side, side))).exp().sum() * (side[1] - side[0]) ** 2
    assert float(mass) == pytest.approx(1, abs=1e-9)
    x = energy.sample(40_000, generator())
    assert_mean(x[:, 0], 0.3 - 0.7)
    assert_mean(x[:, 1], -0.3)
    assert_mean(x[:, 0].square(), 0.3 * 1.5 + 0.7 * 1.1)


def test_kl_of_mode_weights_is_the_closed_form() -> None:
    liar = Liar("", NormalData(two(3, 0.5, 4, 0.1)), two(3, 0.9, 4, 0.1))
    exact = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert liar.kl() == pytest.approx(exact, abs=0.02)
