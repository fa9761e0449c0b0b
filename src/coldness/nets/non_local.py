"""The non-local network of the Anatomy paper, and its self-attention block.

    y = x + W softmax(theta(x) phi(x)^T) g(x)

over the positions of one image. theta, phi, g and W are 1x1 convolutions, the first three to half
the channels; phi and g are max-pooled by 2; the softmax is not scaled. W is initialised to zero, so
that a new block is the identity.

The network consists of three times [convolution 3x3, activation, max-pooling by 2] with widths n,
2n, 4n and a block before the second and the third convolution, followed by a linear layer of width
8n, the activation, and a linear layer. With n = 32 and slope 0.05 on 32 x 32 it is the network of
the paper's convergent image experiments.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 4.2 and its code.
    Non-local Neural Networks (Wang et al., 2018), Eq. 6, embedded Gaussian, section 3.3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coldness.nets.base import Activation, Convolutional, activation, check_square


class NonLocal(nn.Module):
    """The residual block above: every position of an image attends to all others.

    Args:
        channels: C, even.
    Shapes: x and result (B, C, H, W), H and W even.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        if channels < 2 or channels % 2:
            raise ValueError(f"a non-local block needs an even number of channels, got {channels}")
        half = channels // 2
        self.theta = nn.Conv2d(channels, half, 1)
        self.phi = nn.Conv2d(channels, half, 1)
        self.g = nn.Conv2d(channels, half, 1)
        self.out = nn.Conv2d(half, channels, 1)
        self.pool = nn.MaxPool2d(2)
        nn.init.zeros_(self.out.weight)
        if self.out.bias is not None:
            nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.theta(x).flatten(2).transpose(1, 2)  # (B, HW, C/2)
        phi = self.pool(self.phi(x)).flatten(2)  # (B, C/2, HW/4)
        g = self.pool(self.g(x)).flatten(2).transpose(1, 2)  # (B, HW/4, C/2)
        scores = theta @ phi
        # Not in bfloat16, in which the attention weights of many positions do not sum to 1.
        shares = scores.softmax(2, dtype=torch.promote_types(scores.dtype, torch.float32))
        y = (shares.to(g.dtype) @ g).transpose(1, 2).unflatten(2, x.shape[2:])
        return x + self.out(y.contiguous(memory_format=torch.channels_last))


class NonLocalNet(Convolutional):
    """Convolutions with non-local blocks between them.

    Args:
        width: n, the number of channels of the first convolution; even.
        activation: `leaky_relu` or `silu`.
        slope: of the leaky ReLU, for negative inputs.
    Shapes: x (B, C, S, S) with S a multiple of 8; result (B, 1), or (B, K).
    """

    def __init__(
        self, width: int = 32, activation: Activation = "leaky_relu", slope: float = 0.05
    ) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise ValueError(f"width must be even and >= 2, got {width}")
        self.width, self.activation, self.slope = width, activation, slope

    def layers(self, shape: tuple[int, int, int], outputs: int) -> tuple[nn.Module, nn.Module]:
        channels, size, n = shape[0], shape[1], self.width
        check_square(shape, "NonLocalNet", "8, 16, 24, 32, ...", size % 8 == 0)
        body: list[nn.Module] = []
        for wider in (n, 2 * n, 4 * n):
            body += [NonLocal(channels)] if body else []
            body += [nn.Conv2d(channels, wider, 3, 1, 1), self._activation(), nn.MaxPool2d(2)]
            channels = wider
        head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * (size // 8) ** 2, 8 * n),
            self._activation(),
            nn.Linear(8 * n, outputs),
        )
        return nn.Sequential(*body), head

    def _activation(self) -> nn.Module:
        return activation(self.activation, self.slope, inplace=True)
