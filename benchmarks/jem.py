"""The work of JEM: a wide residual network 10-2 without norm on images of 32 x 32, batch 64.

    x <- x - a dE(x) + s xi,   E = -logsumexp of ten logits, a = 1, s = 0.01, 20 steps

from a bank of 10,000 chains of which 5% start anew from U(-1, 1); then the difference of energies
and the cross-entropy of a labelled batch, and an Adam step of 1e-4. Images are random numbers that
lie in memory: loading and augmenting them is not part of the work.

References:
    Your Classifier is Secretly an Energy Based Model and You Should Treat It Like One
    (Grathwohl et al., 2020), section 5 and Appendix A, at a size for a processor.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from coldness.data.base import Labelled
from coldness.energies.base import DriftNoise

DEPTH, WIDTH, SLOPE = 10, 2, 0.2
SHAPE = (3, 32, 32)
CLASSES = 10
BATCH = 64
STEPS = 20
BANK, RESTARTS = 10_000, 0.05
DATA_NOISE = 0.03
SCALE = DriftNoise(drift=1.0, noise=0.01)
LEARNING_RATE = 1e-4


class Block(nn.Module):
    """lrelu, conv, lrelu, strided conv; a strided 1x1 convolution as shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, 1, 1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, stride, 1)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(leaky_relu(x, SLOPE))
        return self.conv2(leaky_relu(out, SLOPE)) + self.shortcut(x)


class PlainWideResNet(nn.Module):
    """The network as research code has it: its parameters are those of ours, in the same order."""

    def __init__(self) -> None:
        super().__init__()
        widths = [16 * WIDTH, 32 * WIDTH, 64 * WIDTH]
        self.stem = nn.Conv2d(SHAPE[0], 16, 3, 1, 1)
        self.blocks = nn.Sequential(
            *map(Block, [16, *widths[:-1]], widths, (1, 2, 2))  # one block a stage at depth 10
        )
        self.linear = nn.Linear(widths[-1], CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out = leaky_relu(self.blocks(self.stem(x)), SLOPE)
        return self.linear(out.mean((2, 3)))


def network() -> PlainWideResNet:
    """With the same weights at every call; the last layer larger, so that a chain's drift shows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = PlainWideResNet()
    with torch.no_grad():
        net.linear.weight.mul_(100)
    return net


def uniform(count: int) -> Tensor:
    return torch.rand(count, *SHAPE) * 2 - 1


class Images(Labelled):
    """Random images with random classes, the same at every call."""

    classes = tuple(str(k) for k in range(CLASSES))

    def __init__(self, count: int = 1000) -> None:
        generator = torch.Generator().manual_seed(0)
        self.train = torch.rand((count, *SHAPE), generator=generator) * 2 - 1
        self.train_labels = torch.randint(CLASSES, (count,), generator=generator)
        self.test, self.test_labels = self.train[:0], self.train_labels[:0]
        self.validation, self.validation_labels = self.test, self.test_labels
        self.box = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        return SHAPE

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self.sample_labelled(count, generator)[0]

    def sample_labelled(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        picked = torch.randint(len(self.train), (count,), generator=generator)
        return self.train[picked], self.train_labels[picked]

    def noisy(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A batch with the noise that data has in JEM, for loops that add it themselves."""
        x, y = self.sample_labelled(BATCH, generator)
        return x + DATA_NOISE * torch.randn(x.shape, generator=generator), y
