"""Whether chains of a trained model reach the data, and whether they stay there.

    short    from noise, with the given number of steps, and transitions if the source has any
    long     the same chains, continued at the last step size of their schedule, without transitions
    data     from data, with a tenth as many steps
    mala     the short chains, continued with a Metropolis test and a step size adapted to a target
             acceptance, with as many steps as those from data

Potentials and energy distance are recorded along the way, at step numbers that double. Acceptance
of the training's own step is measured by applying the Metropolis test to its moves: near 1, the
kernel's bias is small; near 0, its samples are not those of the model. Mixing is measured on some
chains, continued for as many steps again and recorded fifty times (diagnostics/mixing.py).

References:
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), Figs. 5, 8 and 9, appendix A.2.
    MCMC using Hamiltonian dynamics (Neal, 2011), section 4.4, and Optimal scaling of discrete
    approximations to Langevin diffusions (Roberts, Rosenthal, 1998), for the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from coldness.batching import parts
from coldness.chains import Source
from coldness.diagnostics.mixing import mixing
from coldness.energies import Energy
from coldness.evaluation.samples import energy_distance
from coldness.kernels import MALA, DualAveraging, Kernel, run
from coldness.likelihood.potential import potential
from coldness.precision import Precision, autocast

TARGET = 0.67
"""Acceptance that the hybrid paper adapts to; 0.57 is optimal for MALA in many dimensions."""

ADAPTATION_STEPS = 500
TEST_STEPS = 40
TEST_IMAGES = 64
"""Steps, and chains of images, that acceptance is averaged over: 2560 costly moves."""

FIRST_STRETCH = 20
QUANTILES = (0.1, 0.5, 0.9)

MIXING_CHAINS = 64
MIXING_DRAWS = 50
MIXING_COORDINATES = 30
"""Most chains, draws of each and coordinates that R-hat and the effective sample size are computed
from, at a sixtieth of the cost of 4000 long chains. Independent draws have R-hat below 1.01."""


@dataclass
class Trail:
    """Record of chains: after `steps`, quantiles of U (K, 3) and energy distance to data (K,).

    lost: number of chains whose state or U became NaN or infinite. The distance is NaN if there
    are any.
    """

    x: Tensor
    steps: list[int]
    u: list[Tensor]
    distance: list[float]
    lost: int = 0

    def arrays(self, name: str) -> dict[str, Tensor]:
        return {
            f"trail_{name}_steps": torch.tensor(self.steps),
            f"trail_{name}_u": torch.stack(self.u),
            f"trail_{name}_distance": torch.tensor(self.distance, dtype=torch.float64),
        }


class ChainChecks:
    """The checks of one model with one source.

    Args:
        energy: the model.
        source: whose kernel, step and start are used.
        x_data: examples (N, ...) that samples are compared with.
        generator: of the random numbers.
        step_scale: of the source at the end of training.
        compiled: compile the long chains.
        precision: of the network in chains without a Metropolis test; the test needs accurate
            differences of potentials.
        of_images: whether examples are images.
    """

    def __init__(
        self,
        energy: Energy,
        source: Source,
        x_data: Tensor,
        generator: torch.Generator,
        step_scale: float,
        compiled: bool,
        precision: Precision = "float32",
        of_images: bool = False,
    ) -> None:
        self.energy, self.source, self.generator = energy, source, generator
        self.step_scale, self.compiled, self.of_images = step_scale, compiled, of_images
        device = next(energy.parameters(), torch.empty(0)).device
        self.precision, self.device = precision, device
        self.x_data, self.reference = x_data.to(device), x_data.cpu()

    def short(self, count: int, steps: int) -> Trail:
        """Chains from noise."""
        start = self.source.noise(self.energy, self.x_data, count, self.generator)
        trail = self._begin(start)
        return self._note(trail, self._carried_on(start, steps), steps)

    def onwards(self, trail: Trail, steps: int, on_step: Callable[[int], None]) -> Trail:
        """Continues chains to this number of steps, at the last step size of a schedule."""
        stretch = FIRST_STRETCH
        while trail.steps[-1] < steps and not trail.lost:
            size = min(stretch, steps - trail.steps[-1])
            x = self._carried_on(trail.x, size, settled=True, compiled=self.compiled)
            trail = self._note(trail, x, trail.steps[-1] + size)
            on_step(trail.steps[-1])
            stretch *= 2
        return trail

    def from_data(self, starts: Tensor, steps: int) -> Trail:
        """Chains from data, other than the examples that they are compared with."""
        return self.onwards(self._begin(starts.to(self.x_data)), steps, lambda step: None)

    def adjusted(self, trail: Trail, steps: int) -> tuple[Trail, dict[str, float]]:
        """Chains continued by MALA, and its metrics; the step is adapted on a batch of chains."""
        kernel = MALA(self._at_last_step().langevin_step)
        first, *others = parts(trail.x)
        adapted = run(
            kernel, self.energy, first, steps=ADAPTATION_STEPS, generator=self.generator,
            adaptation=DualAveraging(TARGET),
        )  # fmt: skip
        h = adapted.step_size
        assert h is not None
        chains = [
            run(
                kernel,
                self.energy,
                x,
                steps=count,
                generator=self.generator,
                step_size=h,
                compiled=self.compiled,
            )
            for x, count in [(adapted.x, steps)] + [(x, ADAPTATION_STEPS + steps) for x in others]
        ]
        acceptance = sum(float(c.acceptance) * len(c.x) for c in chains) / len(trail.x)
        done = trail.steps[-1] + ADAPTATION_STEPS + steps
        metrics = {"mala_step": float(h), "mala_acceptance": acceptance}
        return self._note(trail, torch.cat([c.x for c in chains]), done), metrics

    def acceptance(self, trail: Trail) -> float:
        """Acceptance of the training's own step, at the ends of the chains."""
        x = trail.x[:TEST_IMAGES] if self.of_images else trail.x
        kernel, accepted = self._at_last_step().adjusted_twin(), 0.0
        for part in parts(x):
            chains = run(kernel, self.energy, part, steps=TEST_STEPS, generator=self.generator)
            accepted += float(chains.acceptance) * len(part)
        return accepted / len(x)

    def mixing(self, trail: Trail, steps: int) -> dict[str, float]:
        """R-hat and effective fraction of draws, from some chains continued for about `steps`."""
        x, draws = trail.x[:MIXING_CHAINS], []
        for _ in range(MIXING_DRAWS):
            x = self._carried_on(x, max(1, steps // MIXING_DRAWS), settled=True)
            draws.append(self._quantities(x))
        found = mixing(torch.stack(draws, -1).numpy())
        return {"rhat": found.rhat, "chain_ess": found.ess}

    def _carried_on(
        self, x: Tensor, steps: int, settled: bool = False, compiled: bool = False
    ) -> Tensor:
        """Chains of the source from x, as many at a time as fit into memory."""
        moved = []
        with autocast(self.precision, self.device):
            for part in parts(x):
                chains = self.source.carry_on(
                    self.energy, part, steps, self.generator,
                    step_scale=self.step_scale, settled=settled, compiled=compiled,
                )  # fmt: skip
                moved.append(chains.x)
        return torch.cat(moved)

    def _quantities(self, x: Tensor) -> Tensor:
        """Potential and coordinates (Q, B); an evenly spaced subset where coordinates are many."""
        flat = x.flatten(1).double().cpu()
        size = min(flat.shape[1], MIXING_COORDINATES)
        chosen = torch.linspace(0, flat.shape[1] - 1, size).round().long()
        return torch.cat([potential(self.energy, x)[None], flat[:, chosen].T])

    def _at_last_step(self) -> Kernel:
        h = float(self.source.last_step(self.step_scale))
        return replace(self.source.kernel, step_size=h)

    def _begin(self, x: Tensor) -> Trail:
        return self._note(Trail(x, [], [], []), x, 0)

    def _note(self, trail: Trail, x: Tensor, steps: int) -> Trail:
        """The trail with one more record."""
        u = potential(self.energy, x)
        at = torch.tensor(QUANTILES, dtype=torch.float64)
        finite = x.flatten(1).isfinite().all(1).cpu() & u.isfinite()
        lost = int((~finite).sum())
        same_number = x[: len(self.reference)].cpu()
        distance = float("nan") if lost else energy_distance(same_number, self.reference)
        return Trail(
            x,
            [*trail.steps, steps],
            [*trail.u, torch.quantile(u, at)],
            [*trail.distance, distance],
            lost,
        )
