"""`python -m benchmarks.live grid|ais|cost`: walkers against the grid, against AIS, and their cost.

    grid   live log Z against a grid over [-20, 20]^2 on mixture2d with a reference of 5
    ais    live log Z against the forward side of AIS (1,024 chains, 700 levels) on rings10d
    cost   walkers' share of an iteration of both, in one run, in processor time of one thread

At five moments of training and for every seed, one line says by how many standard errors the two
differ; the standard error is that of the walkers and, for `ais`, that of AIS too.
"""

from __future__ import annotations

import argparse
import math
import time

import torch

from coldness.evaluation.density import log_density_on_grid
from coldness.likelihood import AIS, log_z
from coldness.machine import threads
from coldness.training import Training, build
from coldness.training.recipe import Recipe

MOMENTS = 5
EDGE, CELLS = 20.0, 1000
SIGMAS = 3.0
RUNS = {"grid": ("mixture2d", 5.0), "ais": ("rings10d", 2.0)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live")
    parser.add_argument("what", choices=("grid", "ais", "cost"))
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--iterations", type=int, metavar="N", help="default: the recipe's")
    parser.add_argument("--every", type=int, default=40, metavar="K", help="default 40")
    options = parser.parse_args()
    with threads(1):
        if options.what == "cost":
            for kind in RUNS:
                _cost(kind, options.iterations or 1000, options.every)
        else:
            found = [
                hit
                for seed in range(options.seeds)
                for hit in _compared(options.what, seed, options.iterations, options.every)
            ]
            print(f"{sum(found)} of {len(found)} within {SIGMAS:g} standard errors")


def _training(kind: str, seed: int, iterations: int | None, every: int) -> Training:
    recipe, std = RUNS[kind]
    changes = {"seed": seed, "energy.reference_std": std, "live.every": every}
    if iterations is not None:
        changes["iterations"] = iterations
    return build(Recipe.read(recipe, changes).parts())


def _compared(kind: str, seed: int, iterations: int | None, every: int) -> list[bool]:
    """Whether live log Z agrees, at each of the moments at which it is measured."""
    training = _training(kind, seed, iterations, every)
    n = training.settings.iterations
    moments = {round(n * (k + 1) / MOMENTS / every) * every for k in range(MOMENTS)}
    training.live.begin(training)
    hits = []
    while training.iteration < n:
        training.iterate()
        row = training.live.look(training)
        if training.iteration not in moments:
            continue
        z, error = row["live_log_z"], row["live_log_z_error"]
        with training.averaged():
            truth, own = _truth(kind, training)
        if z is None or error is None:
            print(f"seed {seed} iteration {training.iteration}: not measured", flush=True)
            hits.append(False)
            continue
        sigmas = (z - truth) / math.hypot(error, own)
        print(
            f"seed {seed} iteration {training.iteration}: live {z:.3f} +- {error:.3f}, {kind} "
            f"{truth:.3f} +- {own:.3f}, {sigmas:+.1f} standard errors",
            flush=True,
        )
        hits.append(abs(sigmas) <= SIGMAS)
    return hits


def _truth(kind: str, training: Training) -> tuple[float, float]:
    """log Z by other means, and its standard error."""
    if kind == "grid":
        cell = 2 * EDGE / CELLS
        side = torch.arange(CELLS, dtype=torch.float64) * cell - EDGE + cell / 2
        return log_density_on_grid(training.energy, side)[1], 0.0
    x = training.settings.data.sample(4000, torch.Generator().manual_seed(1))
    generator, how = torch.Generator().manual_seed(2), AIS(wide_std=None)
    found = log_z(training.energy, x, generator, how, compiled=False)
    return found.forward, found.error_forward


def _cost(kind: str, iterations: int, every: int) -> None:
    training = _training(kind, 0, None, every)
    begin = time.process_time()
    training.live.begin(training)
    start = time.process_time() - begin
    for _ in range(100):  # compilation is not counted
        training.iterate()
    own = walkers = 0.0
    for _ in range(iterations):
        begin = time.process_time()
        training.iterate()
        between = time.process_time()
        training.live.look(training)
        own += between - begin
        walkers += time.process_time() - between
    print(
        f"{RUNS[kind][0]}: iteration {1000 * own / iterations:.2f} ms, walkers every {every} "
        f"iterations take {walkers / own:.1%} of it, renewals included; their start {start:.1f} s"
    )


if __name__ == "__main__":
    main()
