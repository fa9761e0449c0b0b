"""Spectral normalisation of convolutions: each weight is divided by its largest singular value.

    W_SN = W / sigma(W),     sigma(W) = u^T W v        W as a matrix (outputs, inputs * k * k)

    u <- W v / |W v|,        v <- W^T u / |W^T u|      one power iteration

u and v are buffers, so that a checkpoint holds them. Gradients flow through sigma to W with u and v
held fixed, as in Eqs. 9 to 11 of the paper.

The forward pass never changes u and v. `updated` makes one power iteration; training calls it once
after each step of the optimiser. All chains of an iteration and its loss therefore use one energy.
In the reference code of CLEL the network is in train mode while it samples, so that every Langevin
step makes a power iteration, 60 and more per update, and the energy changes along the chain. One
iteration per update is what the paper on spectral normalisation does, and suffices since weights
change little between updates.

sigma bounds the gain of W as a matrix on patches. The convolution as a map of images may exceed it,
by a factor of up to k for k x k kernels.

References:
    Spectral Normalization for Generative Adversarial Networks (Miyato et al., 2018), Eqs. 8 to 11
    and Algorithm 1.
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), appendix B and
    its code.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

FIRST_ITERATIONS = 100
"""At construction. The largest singular values of random weights are close to each other: 15
iterations, as in PyTorch, leave sigma up to 5% too small; 100 leave less than 1%."""


class SpectralConv2d(nn.Module):
    """A convolution whose weight is divided by its largest singular value.

    Args:
        conv: the convolution, with weights already initialised; its weight is W.
    Shapes: those of the convolution.
    """

    u: Tensor
    v: Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        self.conv = conv
        rows, columns = conv.weight.flatten(1).shape
        self.register_buffer("u", conv.weight.new_zeros(rows))
        self.register_buffer("v", normalize(torch.randn(columns).to(conv.weight), dim=0))
        self.updated(FIRST_ITERATIONS)

    def sigma(self) -> Tensor:
        """u^T W v, (), in the dtype of the weights also under autocast."""
        weight = self.conv.weight
        with torch.autocast(weight.device.type, enabled=False):
            return torch.dot(self.u, torch.mv(weight.flatten(1), self.v))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.conv.weight / self.sigma()
        return self.conv._conv_forward(x, weight, self.conv.bias)

    @torch.no_grad()
    def updated(self, iterations: int = 1) -> None:
        """Power iterations for changed weights; to be called outside of autocast."""
        weight = self.conv.weight.flatten(1)
        u, v = self.u, self.v
        for _ in range(iterations):
            u = normalize(torch.mv(weight, v), dim=0)
            v = normalize(torch.mv(weight.T, u), dim=0)
        # In place: compiled chains read these tensors.
        self.u.copy_(u)
        self.v.copy_(v)
