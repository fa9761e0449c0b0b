"""Steps on the untrained energy: drift relative to noise, and h relative to the curvature.

    drift    t h |L^T dU| / sqrt(2 h D)      at starts and ends of chains, t the tempering
    h t lambda,  lambda the largest curvature there (curvature.py), which must be below 2

If the drift is much larger than the noise before anything was learned, chains follow random
features of the initial weights downhill, and leave. Measured on mixture2d with beta = 0: runs with
drifts of 1.3 and 1.7 and products of 1.8 are stable (ten times the coldness; a single layer of 8),
a run with a drift of 4.6 and a product of 4.3 diverges (thirty times the coldness). Packaged
recipes have drifts of 0.003 to 0.1 and products up to 0.15.

If the drift is negligible, chains do not follow the energy: the paper found that r = 1e-6, without
scaling, is too low and that r = 0.01, with scaling, works, at a noise of 0.015 in 3,072 dimensions.
These are drifts of 1e-6 and 0.01 relative to the noise; 1e-4 is low by this measure.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), practical appendix A.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.doctor.curvature import LIMIT, gradient, largest_curvature
from coldness.doctor.finding import ANATOMY, Check, Finding
from coldness.doctor.steps import langevin_steps
from coldness.energies import Energy
from coldness.training.settings import Settings

LARGEST_DRIFT = 3.0
LEAST_DRIFT = 1e-4


def drift(settings: Settings, k: int, energy: Energy, x: Tensor) -> Check:
    """Drift relative to noise at points x (B, ...) of chains of source k."""
    h, tempering = _step(settings, k)
    slope = float(gradient(energy, x).flatten(1).norm(dim=1).mean())
    noise = (2 * h * x[0].numel()) ** 0.5
    share = abs(tempering) * h * slope / noise
    findings = []
    if not share <= LARGEST_DRIFT:
        findings.append(
            Finding(
                "drift",
                f"source {k}",
                f"the drift per step of the untrained energy is {share:.2g} times the noise",
                "random features of the initial weights drive chains away",
                f"{ANATOMY} A; measured: mixture2d diverges at 4.6 and is stable at 1.7",
                "use a smaller step size or a lower coldness",
            )
        )
    if share < LEAST_DRIFT and tempering != 0:
        findings.append(
            Finding(
                "flat",
                f"source {k}",
                f"the drift per step of the untrained energy is {share:.2g} times the noise",
                "chains do not follow the energy, and learning starts slowly",
                f"{ANATOMY} A",
                "use a higher coldness",
            )
        )
    text = (
        f"source {k}: r = |dU|/c = {slope / energy.coldness:.3g}, drift "
        f"{share * noise:.3g} per step, noise {noise:.3g} per step"
    )
    return Check("drift", text, {f"drift_{k}": share}, tuple(findings))


def curvature(
    settings: Settings, k: int, energy: Energy, x: Tensor, generator: torch.Generator
) -> Check:
    """h times the largest curvature at the points x."""
    h, tempering = _step(settings, k)
    found = largest_curvature(energy, x, (2 * h) ** 0.5, generator).max()
    product = float(h * tempering * found)
    findings = []
    if not product <= LIMIT:
        findings.append(
            Finding(
                "curvature",
                f"source {k}",
                f"step size h times the curvature of the untrained energy is {product:.3g}",
                f"above {LIMIT:g} Langevin steps overshoot ever further, and Metropolis tests "
                "reject moves",
                "x -> (1 - h lambda) x; Neal 2011, section 4.2",
                "use a smaller step size or a lower coldness",
            )
        )
    text = f"source {k}: step size h x largest curvature = {product:.2g}, stable below {LIMIT:g}"
    return Check("curvature", text, {f"curvature_{k}": product}, tuple(findings))


def _step(settings: Settings, k: int) -> tuple[float, float]:
    """Largest h along a chain at the first iteration, and the tempering."""
    source = settings.sources[k]
    return max(langevin_steps(settings, source)), settings.tempering_of(source, 0)
