"""An energy is a function of one example: networks that couple a batch, or are random, are refused.

    U(x_i) must not change when x_j does, j != i, nor when it is computed again

Batch norm in train mode is the common case. It makes U(x_i) depend on the batch that x_i happens
to be in, so that exp(-U) is no density; and as chains run in eval mode, on other statistics, the
loss would weigh another energy than the one that was sampled. The same is true of dropout, whose
random numbers no checkpoint holds. Layer norm, group norm and instance norm stay within an example
and pass.

References:
    Your Classifier is Secretly an Energy Based Model and You Should Treat It Like One
    (Grathwohl et al., 2020), section 5: no batch norm, so that outputs are functions of the input.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from coldness.energies.base import Energy

EXAMPLES = 4
OF_SPREAD, OF_SIZE = 1e-3, 1e-5
"""What rounding may change: shares of the spread of energies and of the largest."""


def check_uncoupled(energy: Energy, x: Tensor) -> None:
    """Raises ValueError, with the reason, where U depends on the batch or on chance.

    The energy of each of a few examples must be what it is in a batch of its copies, in train mode,
    where the loss is computed. Where a layer of batch norm is in that mode it is named, whatever
    the energies say. Modes, buffers and random numbers are as before afterwards.

    Args:
        energy: the model, its networks built.
        x: at least two examples (B, ...), of which four are used.
    """
    if len(x) < 2:
        raise ValueError(f"coupling shows on two examples or more, got {len(x)}")
    x = x[:EXAMPLES]
    modes = {part: part.training for part in energy.modules()}
    buffers = [(value, value.clone()) for value in energy.buffers()]
    devices = [x.device] if x.is_cuda else []

    def together(batch: Tensor, seed: int = 0) -> Tensor:
        """U of a batch: with the same buffers at every call, and the same random numbers."""
        for value, before in buffers:
            value.copy_(before)
        torch.manual_seed(seed)
        return energy(batch)

    try:
        energy.train()
        for name, part in energy.named_modules():
            if isinstance(part, _BatchNorm) and part.training:
                raise ValueError(_reason(f"its layer {name}, {type(part).__name__},"))
        with torch.no_grad(), torch.random.fork_rng(devices):
            mixed = together(x)
            again = together(x, seed=1)
            alone = torch.stack([together(one.expand_as(x))[k] for k, one in enumerate(x)])
    finally:
        for part, mode in modes.items():
            part.training = mode
        for value, before in buffers:
            value.copy_(before)
    rounding = OF_SPREAD * (mixed.max() - mixed.min()) + OF_SIZE * mixed.abs().max()
    by_chance = (mixed - again).abs().max()
    if bool(by_chance > rounding):
        raise ValueError(
            f"this is no energy: a potential changes by {float(by_chance):.3g} when it is computed "
            "again, as with dropout; set its probability to 0"
        )
    difference = (mixed - alone).abs().max()
    if bool(difference > rounding):
        change = f"by {float(difference):.3g} with the others of its batch, so the network"
        raise ValueError(_reason(f"an example's potential changes {change}"))


def _reason(who: str) -> str:
    return f"this is no energy: {who} couples the examples of a batch, and exp(-U) is no density"


def check_coordinates(energy: Energy, x: Tensor) -> None:
    """Raises ValueError where `energy` and `energy_at` are not the same function.

    Chains in full coordinates run on `energy_at`; a class that overrides one of the two must
    override the other.
    """
    if energy.coordinates.kind != "full":
        return
    x = x[:EXAMPLES]
    with torch.no_grad():
        in_x, in_y = energy(x), energy.white(energy.coordinates.whiten(x))
    rounding = OF_SPREAD * (in_x.max() - in_x.min()) + OF_SIZE * in_x.abs().max()
    if bool((in_x - in_y).abs().max() > rounding):
        raise ValueError(
            f"energy and energy_at of {type(energy).__name__} disagree: override both or neither"
        )
