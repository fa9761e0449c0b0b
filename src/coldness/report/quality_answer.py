"""How near are images to data in the features of a network? The KID of samples, graded.

KID of samples of the data itself is 0 on average (its floor may be below), so that there is nothing
to take multiples of; and its size depends on the network and on the data. So it is graded by the
data's own images at a lower resolution (evaluation/sample_quality.py):

    yes       below a quarter of the KID of images at half the resolution. KID is a squared
              distance: half as far from data as blurred data is. On CIFAR-10, data with Gaussian
              noise of 0.03, which is hardly seen, has a fifth; noise of 0.1, which is, has 1.2.
    partly    below the KID of images at a quarter of the resolution: on CIFAR-10 that is 8 x 8
              pixels, colours and layout without objects. Other data does not pass: SVHN and
              textures have 1.4 times as much.
"""

from __future__ import annotations

from collections.abc import Mapping

from coldness.report.answers import Grade, grade, number

SHARE_OF_HALF = 0.25

NETWORKS = {"inception": "Inception", "effnet": "EfficientNet-Lite0"}
"""Whose features there may be, the better known one first."""


def kid_grade(metrics: Mapping[str, float], chain: str) -> tuple[Grade, str] | None:
    """Grade and figure of the chain's images; None where they were not compared so."""
    for name, network in NETWORKS.items():
        start = f"kid_{name}_"
        found = [metrics.get(start + which) for which in (chain, "floor", "half", "quarter")]
        if None not in found:
            kid, floor, half, quarter = (value for value in found if value is not None)
            figure = (
                f"KID {number(kid)} in features of {network} (training images {number(floor)}; "
                f"the same at half the resolution {number(half)}, at a quarter {number(quarter)})"
            )
            yes = SHARE_OF_HALF * half
            return grade(kid, yes, max(yes, quarter)), figure
    return None
