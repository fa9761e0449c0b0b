"""The works on JEM: an iteration, its chain and its memory, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks import agreement, memory
from benchmarks.apart import Apart
from benchmarks.contenders import FLOORS, JEM, JEMContender, Missing, load_jem
from benchmarks.jem import network
from benchmarks.timing import milliseconds
from benchmarks.works import Row, Say, rows_of

ROUNDS = (5, 5)
QUICK_ROUNDS = (3, 3)
CALLS_TO_AGREE = 2


@dataclass
class JEMWorks:
    """All works on JEM of one run.

    Args:
        threads: of the processor, the same for all.
        quick: fewer rounds, and no floor that has to be compiled.
        say: told what is going on.
    """

    threads: int = 1
    quick: bool = False
    say: Say = print
    _contenders: dict[str, JEMContender] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in JEM:
            if self.quick and name == "bare-compiled":
                continue
            try:
                self._contenders[name] = load_jem(name)
            except Missing as error:
                self.say(str(error))

    def rows(self) -> Iterator[list[Row]]:
        """The rows of one work after the other."""
        chains = {name: each.chain() for name, each in self._contenders.items()}
        self.say("checking that all contenders run the same chain on JEM ...")
        agreement.check(chains, CALLS_TO_AGREE, _values())
        yield self._time("chain", list(chains))
        chains.clear()
        training = [name for name in self._contenders if name not in FLOORS]
        yield self._time("iteration", training)
        self.say("memory of JEM, a process each ...")
        peaks = {name: memory.megabytes("jem", name, self.threads) for name in training}
        for kind, work in (("first-call", "memory-jem-first-call"), ("jem", "memory-jem")):
            figures = {name: peak[kind] for name, peak in peaks.items() if kind in peak}
            if figures:
                yield rows_of(work, "megabytes", figures)

    def _time(self, work: str, names: list[str]) -> list[Row]:
        """Contenders take turns, each in a process of its own."""
        self.say(f"jem-{work}, a process each ...")
        rounds = QUICK_ROUNDS if self.quick else ROUNDS
        with ExitStack() as processes:
            contenders = {
                name: processes.enter_context(Apart(work, name, self.threads)) for name in names
            }
            return rows_of(f"jem-{work}", "milliseconds", milliseconds(contenders, 0.0, rounds))


def _values() -> Callable[[Tensor], Tensor]:
    """Of images (B, ...): energy in float32, mean and mean square of pixels, (B, 3)."""
    net = network().requires_grad_(False)

    def values(x: Tensor) -> Tensor:
        with torch.no_grad():
            energy = -net(x.contiguous()).logsumexp(1)
        return torch.stack([energy, x.mean((1, 2, 3)), x.square().mean((1, 2, 3))], 1)

    return values
