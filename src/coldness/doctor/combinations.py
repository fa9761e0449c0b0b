"""Combinations of settings that are known to fail; nothing is measured.

    unguided   beta = 0 with chains that do not follow the energy (no steps, or tempering 0): what
               the network learns does not move the negatives, so U falls at the data and rises at
               the negatives without limit (beta paper, Appendix J: lowering U somewhere has to
               attract chains)
    copies     negatives are the data of the batch: there is no difference to learn from
    uphill     tempering < 0: chains climb the potential
    variance   tempering + 2 beta <= 0: weights w = exp(-beta U) of samples of exp(-t U) have the
               second moment integral of exp(-(t + 2 beta) U), which is then infinite; with
               t = 1 - beta this is beta <= -1
    few        an effective number of weighted negatives below two, and below a tenth of them, once
               the density is learned. If U is quadratic around its modes in all D dimensions,
               samples of exp(-t U) with weights exp(-beta U) have the effective fraction
               (t (t + 2 beta) / (t + beta)^2)^(D/2), which is (1 - beta^2)^(D/2) at t = 1 - beta:
               a tenth at beta 0.89 in 3 dimensions, at 0.61 in 10 and at 0.077 in 768
    hopeless   the same, with not even a tenth of one negative
    bank       slots are drawn less than twice on average: chains do not persist

Schedules are checked at the first and the last iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

from coldness.chains import Source
from coldness.doctor.finding import BETA, Finding
from coldness.limits import (
    HOPELESS_NEGATIVES,
    effective_fraction,
    largest_beta,
    least_fraction,
)
from coldness.schedules import value_at
from coldness.training.settings import Settings

LEAST_DRAWS = 2.0
"""Fewest draws per slot. A chain that is drawn once has run for one iteration, like a chain that
starts from noise. Packaged recipes draw each slot at least 200 times."""


def combinations(settings: Settings) -> Iterator[Finding]:
    """Problems of the settings as such."""
    for k, source in enumerate(settings.sources):
        yield from _of_source(settings, source, f"source {k}")


def _of_source(settings: Settings, source: Source, where: str) -> Iterator[Finding]:
    n = settings.iterations
    ends = [
        (settings.tempering_of(source, t), value_at(settings.beta_of(source), t, n))
        for t in (0, n - 1)
    ]
    if source.steps == 0 and source.start.at_data:
        yield Finding(
            "copies",
            where,
            "chains start at the data and have no steps",
            "negatives are the data themselves, so there is no difference to learn from",
            "contrastive divergence needs a step, Hinton 2002",
            "set steps >= 1",
        )
        return
    if any(beta == 0 and (source.steps == 0 or t == 0) for t, beta in ends):
        what = "no steps" if source.steps == 0 else "tempering 0"
        yield Finding(
            "unguided",
            where,
            f"beta = 0 with {what}",
            "negatives neither follow the energy nor are weighted, so the gap between them and the "
            "data grows without limit",
            f"{BETA}, Appendix J",
            "set steps >= 1, or a beta between 0 and 1",
        )
    lowest = min(t for t, _ in ends)
    if lowest < 0:
        yield Finding(
            "uphill",
            where,
            f"tempering {lowest:.3g} < 0",
            "chains climb the potential, away from regions of high probability",
            f"{BETA}, Algorithm 1: 1 - beta",
            "use beta <= 1, or set contrast.tempering > 0",
        )
    t, beta = min(ends, key=lambda end: end[0] + 2 * end[1])
    if beta < 0 and t + 2 * beta <= 0:
        yield Finding(
            "variance",
            where,
            f"beta {beta:.3g} with tempering {t:.3g}",
            "weights exp(-beta U) of such samples have infinite variance: a few chains dominate",
            "their second moment is the integral of exp(-(tempering + 2 beta) U)",
            "use beta > -1",
        )
    yield from _few(settings, source, where, max(ends, key=lambda end: end[1]))
    capacity = source.start.capacity
    if capacity is not None:
        chains = source.chains_for(settings.batch_size)
        draws, fitting = n * chains / capacity, n * chains // 20
        if draws < LEAST_DRAWS:
            yield Finding(
                "bank",
                where,
                f"a bank of {capacity} chains, each drawn {draws:.2g} times in {n} iterations",
                "chains do not persist: most have run no longer than chains that start from noise",
                "Tieleman 2008, section 3",
                f"use a capacity of {fitting} or less, or more iterations"
                if fitting >= chains
                else "use more iterations",
            )


def _few(
    settings: Settings, source: Source, where: str, end: tuple[float, float]
) -> Iterator[Finding]:
    """Too few effective negatives once the density is learned."""
    (t, beta), dimensions = end, settings.data.domain.dimensions
    share = effective_fraction(t, beta, dimensions)
    chains = source.chains_for(settings.batch_size)
    if t > 0 and beta > 0 and share < least_fraction(chains):
        best = largest_beta(dimensions)
        yield Finding(
            "hopeless" if share * chains < HOPELESS_NEGATIVES else "few",
            where,
            f"beta {beta:.3g} in {dimensions} dimensions",
            f"once the density is learned, only {share * chains:.2g} of {chains} negatives count",
            "weights exp(-beta U) of a Gaussian's samples; docs/gotchas.md",
            f"use beta <= {best:.2g}, or expect an energy that stays flatter than the true density",
        )
