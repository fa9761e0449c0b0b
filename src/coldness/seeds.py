"""Independent streams of random numbers from one seed.

Two generators with the same seed give the same numbers, and a sampler of data and one of noise that
draw the same numbers are not independent: every use has a stream of its own.
"""

from __future__ import annotations

import numpy as np
import torch


def generators(
    seed: int, device: torch.device | str = "cpu", attempt: int = 0
) -> tuple[torch.Generator, torch.Generator]:
    """Of the data, on the CPU, and of the chains, on the device; others for every attempt."""
    entropy = [seed, attempt] if attempt else seed
    of_data, of_chains = np.random.SeedSequence(entropy).generate_state(2, np.uint64).tolist()
    return (
        torch.Generator().manual_seed(of_data >> 1),
        torch.Generator(device).manual_seed(of_chains >> 1),
    )
