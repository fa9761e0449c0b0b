"""The plain ConvNet of the Anatomy and short-run papers: strided convolutions, no pooling, no norm.

    conv 3x3           C -> n           S x S
    conv 4x4 stride 2  n -> 2n          S/2
    ...                                 down to 4 x 4
    conv 4x4           -> outputs       1 x 1

Images of 32 x 32 have three strided convolutions, to 2n, 4n and 8n channels; images of 16 x 16 have
two, and images of 8 x 8 one. n = 32 with slope 0.05 is the network of the Anatomy paper's
non-convergent image experiments, n = 64 with slope 0.2 that of the short-run paper, and n = 128
that of Revisiting Contrastive Divergence.

The last paper reports that "attention layers" help, but not which ones or where. Here `attention`
adds one non-local block, as in the code of the Anatomy paper, after the activation of the feature
map with that side. With 16 on images of 32 x 32 this is the place of the first block of the
non-local network.

References:
    On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models
    (Nijkamp et al., 2020), section 4.2 and its code.
    Learning Non-Convergent Non-Persistent Short-Run MCMC Toward Energy-Based Model
    (Nijkamp et al., 2019), its code.
    Revisiting Contrastive Divergence for Density Estimation and Sample Generation
    (Abdulsalam, Makin), section 4.2.
"""

from __future__ import annotations

from torch import nn

from coldness.nets.base import Activation, Convolutional, activation, check_square
from coldness.nets.non_local import NonLocal


class ConvNet(Convolutional):
    """Strided convolutions with activations between them.

    Args:
        width: n, the number of channels of the first convolution.
        activation: `leaky_relu` or `silu`.
        slope: of the leaky ReLU, for negative inputs.
        attention: side of the feature map that gets a non-local block, such as 16; None for no
            block.
    Shapes: x (B, C, S, S) with S = 8, 16, 32, ...; result (B, 1), or (B, K).
    """

    def __init__(
        self,
        width: int = 32,
        activation: Activation = "leaky_relu",
        slope: float = 0.05,
        attention: int | None = None,
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be >= 1, got {width}")
        self.width, self.activation, self.slope = width, activation, slope
        self.attention = attention

    def layers(self, shape: tuple[int, int, int], outputs: int) -> tuple[nn.Module, nn.Module]:
        size, channels = shape[1], self.width
        check_square(shape, "ConvNet", "8, 16, 32, 64, ...", size >= 8 and size & (size - 1) == 0)
        body: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, 1, 1), self._activation()]
        sides = []
        while True:
            sides.append(size)
            if size == self.attention:
                body.append(NonLocal(channels))
            if size == 4:
                break
            body += [nn.Conv2d(channels, 2 * channels, 4, 2, 1), self._activation()]
            size, channels = size // 2, 2 * channels
        if self.attention is not None and self.attention not in sides:
            raise ValueError(f"attention must be one of {sides}, got {self.attention}")
        return nn.Sequential(*body), nn.Conv2d(channels, outputs, 4)

    def _activation(self) -> nn.Module:
        return activation(self.activation, self.slope, inplace=True)
