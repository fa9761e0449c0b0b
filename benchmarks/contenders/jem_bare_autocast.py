"""The floor on JEM: 20 steps under bfloat16 autocast, channels last, and nothing beside them.

Freed memory is kept and parameters are frozen once; there is no bank, nothing is gathered, nothing
is checked.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks import jem
from benchmarks.jem import SCALE, network, uniform
from benchmarks.toy import Chain
from coldness.machine import keep_freed_memory

Step = Callable[[Tensor, Tensor], Tensor]


def eager(net: torch.nn.Module) -> Step:
    def step(x: Tensor, noise: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad(net(leaf).logsumexp(1).sum(), leaf)
        return x + SCALE.drift * gradient + SCALE.noise * noise

    return step


def chain(make_step: Callable[[torch.nn.Module], Step] = eager) -> Chain:
    keep_freed_memory()
    net = network().requires_grad_(False).eval()
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    step = make_step(net)

    def once() -> Tensor:
        x = uniform(jem.BATCH).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            for _ in range(jem.STEPS):
                x = step(x, torch.randn_like(x))
        return x

    return once


def iteration() -> None:
    """A bare chain does not train."""
