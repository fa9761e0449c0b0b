"""The noise of a step against the narrowest scale of the data.

Langevin steps leave samples with a local standard deviation of at least eps = sqrt(2h) in every
direction. Where data is narrower it can be told from samples for ever, and d falls without end,
unless noise of at least eps is added to the data (Eq. 5A). Larger steps on the way only carry
chains to where the last ones leave them, so the last step of a chain counts. The first and the last
iteration are looked at.

Points that have exact copies are atoms, of local scale 0. Two points in a cloud may agree by
rounding; where a tenth of them has a copy, the tenth of the data that `narrowest_scale` looks at
does.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix C.
"""

from __future__ import annotations

from collections.abc import Iterator

from coldness.doctor.finding import ANATOMY, Finding
from coldness.doctor.narrowest import QUANTILE
from coldness.doctor.steps import all_sources, known
from coldness.training.settings import Settings


def too_noisy(settings: Settings, scale: float) -> Iterator[Finding]:
    """Sources whose noise exceeds this scale of the data, in the coordinates kernels move in."""
    n = settings.iterations
    for called, source in all_sources(settings):
        if not known(source):
            continue
        for t in (0, n - 1):
            noise = (2 * source.final_step(t, n)) ** 0.5
            if not noise <= max(scale, settings.data_noise_at(t)):
                yield Finding(
                    "noise",
                    called,
                    f"the noise of a step ({noise:.3g}) exceeds the data's narrowest scale "
                    f"({scale:.3g})",
                    "data can be told from samples for ever, and the energy runs away",
                    f"{ANATOMY} C",
                    f"use a smaller step, a preconditioner or data_noise >= {noise:.3g}",
                )
                break


def copied(settings: Settings, share: float) -> Iterator[Finding]:
    """Data of which a share of the points has copies."""
    if share >= QUANTILE and not settings.data_noise_at(settings.iterations - 1) > 0:
        yield Finding(
            "copies",
            "data",
            f"{share:.0%} of the points have exact copies",
            "they have no width, so that their potential can fall without end",
            f"{ANATOMY} C",
            "drop the copies, or add data_noise of at least the noise of a step",
        )
