"""The floor: a bare chain, written by hand for this network alone and compiled whole.

Parameters are frozen once, nothing is gathered, nothing is checked. Chains longer than 20 steps
call the compiled 20 steps again, for unrolling more takes minutes to compile.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.toy import SCALE, STEPS, Chain, network


def chain(batch: int, steps: int) -> Chain:
    net = network().requires_grad_(False).eval()
    unrolled = min(steps, STEPS)
    if steps % unrolled:
        raise ValueError(f"steps must be at most {STEPS} or a multiple of it, got {steps}")

    def energy(x: Tensor) -> Tensor:
        return net(x).sum()

    def walk(x: Tensor, noise: Tensor) -> Tensor:
        for k in range(unrolled):
            x = x - SCALE.drift * torch.func.grad(energy)(x) + SCALE.noise * noise[k]
        return x

    compiled = torch.compile(walk, fullgraph=True, dynamic=False, options={"cpp_wrapper": True})

    @torch.no_grad()
    def once() -> Tensor:
        x = torch.randn(batch, 2)
        for _ in range(steps // unrolled):
            x = compiled(x, torch.randn(unrolled, batch, 2))
        return x

    return once


def iteration() -> None:
    """A bare chain does not train."""
