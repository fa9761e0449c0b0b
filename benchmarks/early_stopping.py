"""`python -m benchmarks.early_stopping`: early stopping on 400 points of a known 10-D mixture.

For every seed, a model is trained by `coldness.train` with walkers and early stopping, and the same
training is then continued to its end without them. On the way, and for the model that was kept,

    log-likelihood = -mean U over 20,000 fresh points - log Z        in the units of the points

where log Z is the forward side of AIS, whose standard error is stated. Fresh points are the same
for all models, so what they have in common cancels in differences. The best iteration in hindsight
is chosen with 512 chains and 300 levels. The best of many estimates is too high, so the three
highest, the kept model and the last one are measured anew, with 2,048 chains and 600 levels. Both
results are printed.

Data: eight Gaussians of standard deviation 0.5 with random means of unit scale, in ten dimensions.
500 points: 100 that are neither trained on nor looked at, and 400 of which a fraction validates.
"""

from __future__ import annotations

import argparse
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

import coldness
from coldness.data import Points
from coldness.energies import Energy, GaussianMixture
from coldness.likelihood.ais import AIS, Path, from_the_gaussian
from coldness.likelihood.bracket import log_mean
from coldness.likelihood.potential import potential
from coldness.machine import threads
from coldness.training import Training, build
from coldness.training.recipe import Recipe

DIMENSIONS, MODES, STD = 10, 8, 0.5
GIVEN, HELD_OUT, VALIDATION, FRESH = 500, 0.2, 0.2, 20_000
CHOOSING, FINAL = AIS(chains=512, levels=300), AIS(chains=2048, levels=600)
HIGHEST = 3
START_STD = 1.2

Nats = tuple[float, float]
"""A log-likelihood and its standard error."""

SETTINGS: dict[str, Any] = {
    "data.held_out": HELD_OUT,
    "data.validation": VALIDATION,
    "energy.net.widths": [128, 128, 128],
    "energy.net.activation": "silu",
    "energy.reference_std": 2.0,
    "energy.coldness": 10.0,
    "sources": [
        {
            "start": {
                "class_path": "Bank",
                "init_args": {"capacity": 2000, "initial": "DataStart"},
            },
            "kernel": {"class_path": "MALA", "init_args": {"step_size": 0.02}},
            "steps": 20,
        }
    ],
    "contrast.beta": 0.0,
    "learning_rate": 1.0,
    "ema": 0.995,
}
"""Changes to the recipe `points`, chosen at seed 0: a large network, persistent chains with a
Metropolis test, and a constant learning rate, so that training to the end overfits; an average of
the weights over some 200 iterations, because single weights fluctuate by 0.05 nats."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.early_stopping")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="first seed, default 0")
    parser.add_argument("--iterations", type=int, default=2500, metavar="N", help="default 2500")
    parser.add_argument(
        "--every", type=int, default=100, metavar="K", help="of hindsight, default 100"
    )
    parser.add_argument("--patience", type=int, default=20, metavar="K", help="default 20")
    options = parser.parse_args()
    with threads(1):
        for seed in range(options.first, options.first + options.seeds):
            _compared(seed, options.iterations, options.every, options.patience)


def _compared(seed: int, iterations: int, every: int, patience: int) -> None:
    """One seed: the model that early stopping keeps, and all models in hindsight."""
    law = _law()
    x, fresh = _drawn(law, GIVEN, 1000 + seed), _drawn(law, FRESH, 7)
    settings = {**SETTINGS, "seed": seed, "iterations": iterations}
    stopping = {"live": {"chains": 512, "every": 20}, "stop.patience": patience}
    model = coldness.train("points", data=x.numpy(), overrides={**settings, **stopping})
    kept = int(model.training["kept_iteration"])
    points = Points.of(x.numpy(), held_out=HELD_OUT, validation=VALIDATION)
    training = build(Recipe.read("points", {**settings, "live": None}).parts(data=points))
    models = _models(training, every, kept)
    _check_same(models[kept], model)

    def nats(t: int, how: AIS, seed: int) -> Nats:
        return _nats(models[t], points, points.into_model(fresh).float(), how, seed)

    rough = {t: nats(t, CHOOSING, 1) for t in models}
    highest = sorted((t for t in rough if t % every == 0), key=lambda t: -rough[t][0])[:HIGHEST]
    fine = {t: nats(t, FINAL, 2) for t in {*highest, kept, iterations}}
    best = max(highest, key=lambda t: fine[t][0])
    own = float(model.log_prob(fresh.numpy()).mean())
    print(
        f"seed {seed}: {len(points.train)} points to train on and {len(points.validation)} to "
        f"validate; entropy of the law {float(law(fresh).mean()):.3f} nats\n"
        f"  best in hindsight, iteration {best}: {_text(fine[best])}\n"
        f"  kept by early stopping, iteration {kept} of {model.training['iterations']:.0f}: "
        f"{_text(fine[kept])}; by the model's own log Z {own:.3f}\n"
        f"  end, iteration {iterations}: {_text(fine[iterations])}\n"
        f"  early stopping loses {fine[best][0] - fine[kept][0]:.3f}, "
        f"the end loses {fine[best][0] - fine[iterations][0]:.3f}"
    )
    rough_best = max(rough[t][0] for t in highest)
    print(f"  by the first estimates, early stopping loses {rough_best - rough[kept][0]:.3f}")
    for name, found in (("first", rough), ("final", fine)):
        listed = ", ".join(f"{t}: {_text(found[t])}" for t in sorted(found))
        print(f"  {name} estimates by iteration: {listed}", flush=True)


def _models(training: Training, every: int, kept: int) -> dict[int, Energy]:
    """Copies of the model every so many iterations, and at the one that was kept."""
    models = {}
    while training.iteration < training.settings.iterations:
        training.iterate()
        if training.iteration % every == 0 or training.iteration == kept:
            with training.averaged():
                models[training.iteration] = deepcopy(training.energy)
    return models


def _nats(energy: Energy, points: Points, x: Tensor, how: AIS, seed: int) -> Nats:
    """The log-likelihood of x, in the units of the points, and the standard error of log Z.

    All models have the same random numbers of AIS, so that their errors cancel in part too.
    """
    generator = torch.Generator().manual_seed(seed)
    path = Path(energy, energy.coordinates, START_STD)
    y = START_STD * torch.randn((how.chains, DIMENSIONS), generator=generator)
    _, log_w, _ = from_the_gaussian(path, how, y, generator)
    log_ratio, _, error = log_mean(log_w)
    log_z = log_ratio + path.log_z0(DIMENSIONS)
    return -float(potential(energy, x).mean()) - log_z - points.log_scale, error


def _check_same(energy: Energy, model: coldness.Model) -> None:
    """Raises if the training with early stopping was not the same training."""
    kept = model.energy.state_dict()
    if not all(torch.equal(w, kept[name]) for name, w in energy.state_dict().items()):
        raise AssertionError("walkers or early stopping changed the training")


def _law() -> GaussianMixture:
    generator = torch.Generator().manual_seed(12345)
    means = torch.randn(MODES, DIMENSIONS, generator=generator, dtype=torch.float64)
    return GaussianMixture(means.tolist(), STD)


def _drawn(law: GaussianMixture, count: int, seed: int) -> Tensor:
    """Points of the law (count, D), in float64."""
    generator = torch.Generator().manual_seed(seed)
    mode = torch.randint(MODES, (count,), generator=generator)
    noise = torch.randn(count, DIMENSIONS, generator=generator, dtype=torch.float64)
    return law.means[mode] + STD * noise


def _text(nats: Nats) -> str:
    return f"{nats[0]:.3f} +- {nats[1]:.3f}"


if __name__ == "__main__":
    main()
