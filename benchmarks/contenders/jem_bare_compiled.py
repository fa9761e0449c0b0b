"""The floor on JEM, compiled: one step at a time, for unrolling more takes minutes to compile."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.contenders import jem_bare_autocast
from benchmarks.contenders.jem_bare_autocast import Step, iteration
from benchmarks.jem import SCALE
from benchmarks.toy import Chain

__all__ = ["chain", "iteration"]


def _compiled(net: torch.nn.Module) -> Step:
    def log_density(x: Tensor) -> Tensor:
        return net(x).logsumexp(1).sum()

    def step(x: Tensor, noise: Tensor) -> Tensor:
        return x + SCALE.drift * torch.func.grad(log_density)(x) + SCALE.noise * noise

    return torch.compile(step, fullgraph=True, dynamic=False, options={"cpp_wrapper": True})


def chain() -> Chain:
    once = jem_bare_autocast.chain(_compiled)

    def without_gradients() -> Tensor:
        with torch.no_grad():
            return once()

    return without_gradients
