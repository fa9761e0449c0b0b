"""Checks that an energy is a deterministic function of one example.

    U(x_i) must not change when x_j changes, j != i, nor when it is computed again

Batch norm in train mode is the most common violation. It makes U(x_i) depend on the other examples
of the batch, so that exp(-U) is not a density. Chains run in eval mode, with other statistics, so
the loss would use a different energy from the one that was sampled. The same is true of dropout,
whose random numbers are in no checkpoint. Layer norm, group norm and instance norm use one example
only and pass.

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
"""Tolerance for rounding, as a fraction of the range of the energies and of the largest energy."""


def check_uncoupled(energy: Energy, x: Tensor) -> None:
    """Raises ValueError, with the reason, if U depends on the batch or on random numbers.

    In train mode, in which the loss is computed, the energy of an example in a mixed batch must
    equal its energy in a batch of copies of itself. A batch norm layer in train mode is refused by
    name in any case. Modes, buffers and random number generators are restored afterwards.

    Args:
        energy: the model, with networks already built.
        x: at least two examples (B, ...), of which at most four are used.
    """
    if len(x) < 2:
        raise ValueError(f"the check for coupling needs at least two examples, got {len(x)}")
    x = x[:EXAMPLES]
    modes = {part: part.training for part in energy.modules()}
    buffers = [(value, value.clone()) for value in energy.buffers()]
    devices = [x.device] if x.is_cuda else []

    def together(batch: Tensor, seed: int = 0) -> Tensor:
        """Returns U of a batch, with the same buffers at every call and seeded random numbers."""
        for value, before in buffers:
            value.copy_(before)
        torch.manual_seed(seed)
        return energy(batch)

    try:
        energy.train()
        for name, part in energy.named_modules():
            if isinstance(part, _BatchNorm) and part.training:
                raise ValueError(_reason(f"the layer {name}, {type(part).__name__},"))
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
            f"this is not an energy: U changes by {float(by_chance):.3g} when it is computed "
            "again, as with dropout; set the dropout probability to 0"
        )
    difference = (mixed - alone).abs().max()
    if bool(difference > rounding):
        change = f"by {float(difference):.3g} with the rest of its batch, so the network"
        raise ValueError(_reason(f"U of an example changes {change}"))


def _reason(who: str) -> str:
    return (
        f"this is not an energy: {who} couples the examples of a batch, so that exp(-U) is not a "
        "density; layer norm, group norm and instance norm are possible"
    )


def check_coordinates(energy: Energy, x: Tensor) -> None:
    """Raises ValueError if `energy` and `energy_at` are not the same function.

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
