"""How close are images to data in the features of a network? The KID of samples, graded.

The KID of samples of the data itself is 0 on average (its floor may be below), so there is no floor
to take multiples of; and its size depends on the network and on the data. So it is graded against
the data's own images at a lower resolution (evaluation/sample_quality.py):

    yes       below a quarter of the KID of images at half the resolution. KID is a squared
              distance: half as far from data as blurred data is. On CIFAR-10, data with Gaussian
              noise of 0.03, which is hardly visible, has a fifth; noise of 0.1, which is visible,
              has 1.2.
    partly    below the KID of images at a quarter of the resolution: on CIFAR-10 that is 8 x 8
              pixels, colours and layout without objects. Other data does not pass: SVHN has
              1.4 times as much, textures 1.3.

The limits were chosen on these numbers, of CIFAR-10 in features of EfficientNet-Lite0. KID does not
detect copies: 500 training images, each twice, pass (evaluation/memorisation.py checks for them).
"""

from __future__ import annotations

from collections.abc import Mapping

from coldness.trust.answers import Grade, grade, number

SHARE_OF_HALF = 0.25

WORDS = {"inception": "KID", "effnet": "kernel distance in features of EfficientNet-Lite0"}
"""Name of the metric by network, the better known first. Only Inception's is called KID."""


def kid_grade(metrics: Mapping[str, float], chain: str) -> tuple[Grade, str] | None:
    """Grade and numbers of the chain's images; None where they were not compared in features."""
    for name, word in WORDS.items():
        start = f"kid_{name}_"
        found = [metrics.get(start + which) for which in (chain, "floor", "half", "quarter")]
        if None not in found:
            kid, floor, half, quarter = (value for value in found if value is not None)
            measured = (
                f"{word} {number(kid)} (training images {number(floor)}; the same at half "
                f"the resolution {number(half)}, at a quarter {number(quarter)})"
            )
            yes = SHARE_OF_HALF * half
            return grade(kid, yes, max(yes, quarter)), measured
    return None
