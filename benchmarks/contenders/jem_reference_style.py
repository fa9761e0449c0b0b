"""JEM's loop in our own words: float32, one forward pass each for what enters the loss.

The chain runs in eval mode with parameters that require gradients too; positives, negatives and
the labelled batch go through the network one after the other.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks import jem
from benchmarks.jem import SCALE, Images, PlainWideResNet, network, uniform
from benchmarks.toy import Chain, Iteration


class Buffer:
    """Chains that go back to the slots they were drawn from."""

    def __init__(self) -> None:
        self.x = uniform(jem.BANK)

    def draw(self) -> tuple[Tensor, Tensor]:
        slots = torch.randint(jem.BANK, (jem.BATCH,))
        new = (torch.rand(jem.BATCH) < jem.RESTARTS).float()[:, None, None, None]
        return new * uniform(jem.BATCH) + (1 - new) * self.x[slots], slots


def _sgld(net: PlainWideResNet, buffer: Buffer) -> Tensor:
    net.eval()
    start, slots = buffer.draw()
    x = start.clone().requires_grad_(True)
    for _ in range(jem.STEPS):
        gradient = torch.autograd.grad(net(x).logsumexp(1).sum(), [x])[0]
        x.data += SCALE.drift * gradient + SCALE.noise * torch.randn_like(x)
    net.train()
    x = x.detach()
    buffer.x[slots] = x
    return x


def chain() -> Chain:
    net, buffer = network(), Buffer()
    return lambda: _sgld(net, buffer)


def iteration() -> Iteration:
    net, buffer = network(), Buffer()
    images, generator = Images(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), jem.LEARNING_RATE)
    record: list[tuple[float, float]] = []

    def once() -> object:
        x_data, _ = images.noisy(generator)
        x_labelled, labels = images.noisy(generator)
        x_model = _sgld(net, buffer)
        f_data = net(x_data).logsumexp(1).mean()
        f_model = net(x_model).logsumexp(1).mean()
        of_labels = cross_entropy(net(x_labelled), labels)
        loss = f_model - f_data + of_labels
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        record.append(((f_data - f_model).item(), of_labels.item()))
        return record

    return once
