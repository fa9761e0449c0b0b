"""The loop of the Anatomy paper's code, in our own words: what most research code looks like.

Examples are images of one pixel (B, 2, 1, 1), layers are 1x1 convolutions, the gradient is plain
autograd with parameters that require gradients too, noise is drawn at every step, and the mean
gradient norm r is gathered along the chain.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from benchmarks.toy import LEARNING_RATE, SCALE, STEPS, Chain, Iteration, data, network


class PointwiseNet(nn.Module):
    """The toy network as 1x1 convolutions."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for layer in network():
            if isinstance(layer, nn.Linear):
                convolution = nn.Conv2d(layer.in_features, layer.out_features, 1, 1, 0)
                with torch.no_grad():
                    convolution.weight.copy_(layer.weight[:, :, None, None])
                    convolution.bias.copy_(layer.bias) if convolution.bias is not None else None
                layers.append(convolution)
            else:
                layers.append(layer)
        self.f = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.f(x).squeeze()


def _langevin(net: nn.Module, x: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_(True)
    r = torch.zeros(1)
    for _ in range(steps):
        gradient = torch.autograd.grad(net(x).sum(), [x])[0]
        x.data += -gradient + SCALE.noise * torch.randn_like(x)
        r += gradient.view(len(x), -1).norm(dim=1).mean()
    return x.detach(), r.squeeze() / steps


def chain(batch: int, steps: int) -> Chain:
    net = PointwiseNet()
    return lambda: _langevin(net, torch.randn(batch, 2, 1, 1), steps)[0][:, :, 0, 0]


def iteration() -> Iteration:
    net, draw = PointwiseNet(), data()
    optimiser = torch.optim.Adam(net.parameters(), LEARNING_RATE)
    record: list[tuple[float, float]] = []

    def once() -> object:
        x_data = draw()[:, :, None, None]
        x_model, r = _langevin(net, torch.randn_like(x_data), STEPS)
        d = (net(x_data).mean() - net(x_model).mean()) * SCALE.coldness
        optimiser.zero_grad()
        d.backward()
        optimiser.step()
        record.append((d.item(), r.item()))
        return record

    return once
