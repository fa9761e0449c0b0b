"""Chains that are cut to a box which does not hold the data.

Every coordinate of a chain is cut to [low, high] after a step (`Langevin.clamp`); data outside of
that is never met by a negative.
"""

from __future__ import annotations

from torch import Tensor

from coldness.doctor.finding import Check, Finding
from coldness.training.settings import Settings

LARGEST_SHARE = 0.01
"""Of the data outside; the tail of a distribution may be."""


def outside(settings: Settings, x_data: Tensor) -> list[Check]:
    """A check for every source whose chains are cut to a box."""
    checks = []
    for k, source in enumerate(settings.sources):
        if source.kernel.box is None:
            continue
        low, high = source.kernel.box
        out = ((x_data < low) | (x_data > high)).flatten(1).any(1)
        share = float(out.float().mean())
        text = f"{share:.2g} of the data is outside of clamp [{low:g}, {high:g}]"
        finding = Finding(
            "clamp",
            f"source {k}",
            text,
            "no chain can be there, so nothing contradicts the data",
            "measured",
            "widen the clamp, or leave it out",
        )
        findings = (finding,) if share > LARGEST_SHARE else ()
        checks.append(Check("clamp", f"source {k}: {text}", {f"outside_{k}": share}, findings))
    return checks
