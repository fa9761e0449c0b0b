"""Wide residual network without normalisation, as in JEM.

    stem    conv 3x3, C -> 16
    stages  three of (depth - 4) / 6 blocks, widths 16k, 32k, 64k, strides 1, 2, 2
    block   y = conv 3x3 (a(conv 3x3 (a(x)))) + x        stride in the second convolution
            if the shape changes, a strided 1x1 convolution of x replaces x
    head    a, mean over positions, linear

Convolutions have biases and PyTorch's default initialisation. There is no dropout and no norm:
batch norm would make the energy of an example depend on the rest of its batch. Depth 28 with width
10 is the reference, with 36.5 million parameters; depth 10 with width 2 (channels 16, 32, 64, 128)
suits a CPU.

References:
    Wide Residual Networks (Zagoruyko, Komodakis, 2016), Table 1.
    Your Classifier is Secretly an Energy Based Model and You Should Treat It Like One
    (Grathwohl et al., 2020), section 5 and its code.
"""

from __future__ import annotations

from torch import Tensor, nn

from coldness.nets.base import Activation, Convolutional, MeanOverPositions, activation


class WideResNet(Convolutional):
    """Residual blocks in three stages.

    Args:
        depth: 10, 16, 22, 28, ...; each stage has (depth - 4) / 6 blocks.
        width: k >= 1, the factor of the widths 16, 32, 64.
        activation: `leaky_relu` or `silu`.
        slope: of the leaky ReLU, for negative inputs.
    Shapes: x (B, C, H, W) of at least 4 x 4; result (B, 1), or (B, K).
    """

    def __init__(
        self,
        depth: int = 28,
        width: int = 10,
        activation: Activation = "leaky_relu",
        slope: float = 0.2,
    ) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be one of 10, 16, 22, 28, ..., got {depth}")
        if width < 1:
            raise ValueError(f"width must be >= 1, got {width}")
        self.depth, self.width, self.activation, self.slope = depth, width, activation, slope

    def layers(self, shape: tuple[int, int, int], outputs: int) -> tuple[nn.Module, nn.Module]:
        if min(shape[1:]) < 4:
            raise ValueError(
                f"WideResNet needs images of at least 4 x 4, got {shape[1]} x {shape[2]}"
            )
        body: list[nn.Module] = [nn.Conv2d(shape[0], 16, 3, 1, 1)]
        channels = 16
        for stage in range(3):
            wider = 16 * 2**stage * self.width
            for k in range((self.depth - 4) // 6):
                stride = 2 if stage and k == 0 else 1
                body.append(Residual(channels, wider, stride, self.activation, self.slope))
                channels = wider
        body.append(activation(self.activation, self.slope, inplace=True))
        head = nn.Sequential(MeanOverPositions(), nn.Flatten(), nn.Linear(channels, outputs))
        return nn.Sequential(*body), head


class Residual(nn.Module):
    """One residual block.

    Args:
        inputs: number of input channels.
        outputs: number of output channels.
        stride: of the second convolution.
        name: of the activation.
        slope: of the leaky ReLU.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, name: Activation, slope: float):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, 1, 1)
        self.second = nn.Conv2d(outputs, outputs, 3, stride, 1)
        changes = inputs != outputs or stride != 1
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride) if changes else nn.Identity()
        # The first must not overwrite x, which the shortcut needs; nothing else reads the second's
        # input.
        self.before, self.between = activation(name, slope), activation(name, slope, inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(self.first(self.before(x)))) + self.shortcut(x)
