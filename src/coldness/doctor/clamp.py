"""Chains that are clamped to a box which does not contain the data.

Every coordinate of a chain is cut to [low, high] after a step (`Langevin.clamp`); no negative can
reach data outside that box.
"""

from __future__ import annotations

from torch import Tensor

from coldness.doctor.finding import Check, Finding
from coldness.training.settings import Settings

LARGEST_SHARE = 0.01
"""Largest acceptable fraction of data outside the box, for the tail of a distribution."""


def outside(settings: Settings, x_data: Tensor) -> list[Check]:
    """A check for every source whose chains are clamped."""
    checks = []
    for k, source in enumerate(settings.sources):
        if source.kernel.box is None:
            continue
        low, high = source.kernel.box
        out = ((x_data < low) | (x_data > high)).flatten(1).any(1)
        share = float(out.float().mean())
        text = f"a fraction of {share:.2g} of the data is outside clamp [{low:g}, {high:g}]"
        finding = Finding(
            "clamp",
            f"source {k}",
            text,
            "no chain can reach it, so its potential falls without limit",
            "measured",
            "widen the clamp or remove it",
        )
        findings = (finding,) if share > LARGEST_SHARE else ()
        checks.append(Check("clamp", f"source {k}: {text}", {f"outside_{k}": share}, findings))
    return checks
