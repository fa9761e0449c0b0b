"""The works on the toy: which there are, who takes part in each, and the rows that come of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks import agreement, memory
from benchmarks.contenders import TOY, Contender, Missing, load, ours
from benchmarks.timing import milliseconds
from benchmarks.toy import BATCH, STEPS, Chain

BATCHES = (100, 1_000, 10_000, 100_000)
LENGTHS = (10, 100, 1_000)
MEMORY_BATCHES = (10_000, 100_000)
SECONDS_OF_ROUNDS = 10.0

Row = dict[str, Any]
Say = Callable[[str], None]


@dataclass
class Works:
    """All works on the toy of one run.

    Args:
        threads: of the processor, the same for all.
        quick: leave out the largest sizes, and the floor where it has to be compiled once more.
        say: told what is going on.
    """

    threads: int = 1
    quick: bool = False
    say: Say = print
    _contenders: dict[str, Contender] = field(default_factory=dict)
    _chains: dict[tuple[str, int, int], Chain] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in TOY:
            try:
                self._contenders[name] = load(name)
            except Missing as error:
                self.say(str(error))

    def rows(self) -> Iterator[list[Row]]:
        """The rows of one work after the other."""
        chains = self._chains_of(BATCH, STEPS)
        self.say("checking that all contenders run the same chain ...")
        agreement.check(chains)
        yield self._time("chain-toy", chains)
        iterations = {name: each.iteration() for name, each in self._contenders.items()}
        yield self._time("iteration-toy", {n: once for n, once in iterations.items() if once})
        yield self._guard()
        for batch in BATCHES[:-1] if self.quick else BATCHES:
            yield self._time(f"chain-batch-{batch}", self._chains_of(batch, STEPS))
        for steps in LENGTHS[:-1] if self.quick else LENGTHS:
            yield self._time(f"chain-steps-{steps}", self._chains_of(BATCH, steps))
        yield from self._memory(MEMORY_BATCHES[0 if self.quick else 1])

    def _chains_of(self, batch: int, steps: int) -> dict[str, Chain]:
        chosen = list(self._contenders)
        if self.quick and (batch, steps) != (BATCH, STEPS):
            chosen.remove("bare-compiled")
        for name in chosen:
            if (name, batch, steps) not in self._chains:
                self._chains[name, batch, steps] = self._contenders[name].chain(batch, steps)
        return {name: self._chains[name, batch, steps] for name in chosen}

    def _time(self, work: str, contenders: Mapping[str, Callable[[], object]]) -> list[Row]:
        self.say(f"{work} ...")
        seconds = SECONDS_OF_ROUNDS / 3 if self.quick else SECONDS_OF_ROUNDS
        return rows_of(work, "milliseconds", milliseconds(contenders, seconds))

    def _guard(self) -> list[Row]:
        """An iteration, and what of it is the guard's."""
        once, guard = ours.watched(ours.settings(), tempfile.TemporaryDirectory())
        for _ in range(200):  # until there is a law to look with
            once()
        times = milliseconds({"coldness": once, "guard": guard}, SECONDS_OF_ROUNDS / 3)
        return rows_of("guard-toy", "milliseconds", {**times, "guard": times["guard"] / 100})

    def _memory(self, batch: int) -> Iterator[list[Row]]:
        self.say(f"memory at batch {batch}, a process each ...")
        sizes = (batch, STEPS)
        peaks = {
            name: memory.megabytes("chain", name, self.threads, sizes) for name in self._contenders
        }
        for kind in ("first-call", "chain"):
            figures = {name: peak[kind] for name, peak in peaks.items() if kind in peak}
            if figures:
                yield rows_of(f"memory-{kind}-{batch}", "megabytes", figures)


def rows_of(work: str, unit: str, figures: dict[str, float]) -> list[Row]:
    """With the ratio to coldness: above 1 where the contender takes more."""
    return [
        {"work": work, "name": name, unit: figure, "ratio": figure / figures["coldness"]}
        for name, figure in figures.items()
    ]
