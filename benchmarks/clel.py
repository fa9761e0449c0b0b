"""`python -m benchmarks.clel`: an iteration of cifar10-clel-tiny, beside three others.

    guided     the recipe as it is, after the warm-up of its encoder
    alone      the same without encoder and guidance
    plain      the recipe's work as research code has it: float32, parameters that require
               gradients along the chain, one forward pass each for what enters the loss
    normed     the same with the paper's spectral norms, by one power iteration per forward pass

Images are random numbers in memory; all augment the chains they continue. One thread.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), Algorithm 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cosine_similarity, leaky_relu
from torch.nn.utils.parametrizations import spectral_norm

from benchmarks.timing import milliseconds
from benchmarks.toy import Iteration
from coldness.data import as_data
from coldness.data.augmentation import Compose, Flip
from coldness.data.colour import ColourJitter, Grey
from coldness.data.resized_crop import ResizedCrop
from coldness.machine import keep_freed_memory, threads
from coldness.nets import SmallEncoder
from coldness.objectives.simclr import nt_xent
from coldness.training import build
from coldness.training.recipe import Recipe

WIDTHS = (24, 24, 48, 48)
SIDE, LATENT, HIDDEN, BATCH, STEPS, BANK = 16, 64, 512, 64, 20, 2000
DRIFT, NOISE, GUIDANCE, RESTARTS, TEMPERATURE = 2.0, 0.01, 0.05, 0.05, 0.2

Norm = Callable[[nn.Module], nn.Module]


def images() -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (2000, SIDE, SIDE, 3), dtype=np.uint8)


def ours(guided: bool) -> Iteration:
    changes = {"terms.0.warm_up": 0} if guided else {"terms": ["EnergyL2"]}
    recipe = Recipe.read("cifar10-clel-tiny", changes)
    training = build(recipe.parts(data=as_data(images(), {"dequantise": True})))
    return training.iterate


class Block(nn.Module):
    """lrelu, conv, lrelu, conv beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = norm(nn.Conv2d(inputs, outputs, 3, 1, 1))
        self.conv2 = norm(nn.Conv2d(outputs, outputs, 3, 1, 1))
        narrow = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.shortcut = nn.Identity() if inputs == outputs else norm(narrow)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(leaky_relu(x, 0.2))
        return self.conv2(leaky_relu(out, 0.2)) + self.shortcut(x)


class PlainNet(nn.Module):
    """f and the projector, with the layers of the recipe."""

    def __init__(self, norm: Norm) -> None:
        super().__init__()
        self.stem = norm(nn.Conv2d(3, WIDTHS[0], 3, 1, 1))
        pairs = zip((WIDTHS[0], *WIDTHS[:-1]), WIDTHS, strict=True)
        self.blocks = nn.ModuleList([Block(*pair, norm) for pair in pairs])
        act = nn.LeakyReLU(0.2)
        self.head = nn.Sequential(nn.Linear(WIDTHS[-1], HIDDEN), act, nn.Linear(HIDDEN, LATENT))
        self.projector = nn.Sequential(
            nn.Linear(LATENT, HIDDEN, bias=False), act, nn.Linear(HIDDEN, LATENT, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.stem(x)
        for k, block in enumerate(self.blocks):
            out = block(avg_pool2d(out, 2) if k else out)
        return self.head(leaky_relu(out, 0.2).mean((2, 3)))


def plain(normed: bool) -> Iteration:
    net, encoder = (
        PlainNet(spectral_norm if normed else lambda layer: layer),
        SmallEncoder(LATENT, 16),
    )
    encoder.build((3, SIDE, SIDE))
    data = torch.from_numpy(images()).permute(0, 3, 1, 2).float() / 127.5 - 1
    bank = torch.rand(BANK, 3, SIDE, SIDE) * 2 - 1
    optimisers = (
        torch.optim.Adam(net.parameters(), 2e-3, betas=(0.0, 0.999)),
        torch.optim.SGD(encoder.parameters(), 0.03, momentum=0.9, weight_decay=5e-4),
    )
    views = Compose([ResizedCrop(), ColourJitter(), Grey(), Flip()])
    generator = torch.Generator().manual_seed(0)

    def view(x: Tensor) -> Tensor:
        return views(x, generator)

    def once() -> float:
        x = data[torch.randint(len(data), (BATCH,))]
        slots = torch.randperm(BANK)[:BATCH]
        new = (torch.rand(BATCH) < RESTARTS).float()[:, None, None, None]
        start = new * (torch.rand_like(x) * 2 - 1) + (1 - new) * bank[slots]
        negative = view(start).detach().requires_grad_(True)
        for _ in range(STEPS):
            (slope,) = torch.autograd.grad(net(negative).square().sum() / 2, [negative])
            negative.data += NOISE * torch.randn_like(negative) - DRIFT * slope
            negative.data.clamp_(-1, 1)
        negative = negative.detach()
        bank[slots] = negative
        f_data, f_model = net(x), net(negative)
        e_data, e_model = (f.square().sum(1) / 2 for f in (f_data, f_model))
        z_1, z_2 = encoder(view(x)), encoder(view(x))
        with torch.no_grad():
            target = encoder(view(x))
            further = net.projector(nn.functional.normalize(f_model, dim=1))
        v = net.projector(nn.functional.normalize(f_data, dim=1))
        loss = (e_data - e_model).mean() + (e_data**2 + e_model**2).mean()
        loss = loss - GUIDANCE * cosine_similarity(v, target).mean()
        loss = loss + nt_xent(z_1, z_2, further, TEMPERATURE)
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in optimisers:
            optimiser.step()
        return loss.item()

    return once


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clel")
    parser.add_argument("--seconds", type=float, default=120, help="of all rounds; default 120")
    options = parser.parse_args()
    keep_freed_memory()
    with threads(1):
        works = {
            "guided": ours(True), "alone": ours(False), "plain": plain(False),
            "normed": plain(True),
        }  # fmt: skip
        times = milliseconds(works, options.seconds)
    for name, time in times.items():
        print(f"{name:8} {time:7.1f} ms  {time / times['guided']:.2f}")
    print(f"guidance costs {times['guided'] / times['alone'] - 1:.1%} of an iteration without it")


if __name__ == "__main__":
    main()
