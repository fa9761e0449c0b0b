"""The noise per step, compared with the narrowest scale of the data.

Langevin steps leave samples with a local standard deviation of at least eps = sqrt(2h) in every
direction. Narrower data can always be distinguished from samples, and d falls without limit unless
noise of at least eps is added to the data (Eq. 5A). The last step of a chain determines the width
of its samples, so earlier, larger steps do not matter. The first and the last iteration are
checked.

Points that have exact copies are atoms with a local scale of 0. A few points may be equal by
rounding; if a tenth of the points have a copy, so may the tenth that `narrowest_scale` is based on.

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
    """Sources whose noise exceeds this scale of the data, in the coordinates of the kernels."""
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
                    f"the noise per step ({noise:.3g}) exceeds the narrowest scale of the data "
                    f"({scale:.3g})",
                    "data can always be distinguished from samples, and the energy diverges",
                    f"{ANATOMY} C",
                    f"use a smaller step size, a preconditioner or data_noise >= {noise:.3g}",
                )
                break


def copied(settings: Settings, share: float) -> Iterator[Finding]:
    """Data in which this fraction of the points has exact copies."""
    if share >= QUANTILE and not settings.data_noise_at(settings.iterations - 1) > 0:
        yield Finding(
            "copies",
            "data",
            f"{share:.0%} of the points have exact copies",
            "they have no width, so their potential can fall without limit",
            f"{ANATOMY} C",
            "remove the copies, or set data_noise to at least the noise per step",
        )
