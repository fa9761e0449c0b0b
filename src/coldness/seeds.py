"""Independent streams of random numbers from one seed.

Two generators with the same seed give the same numbers. If data and chain noise were drawn from
such a pair, they would not be independent; therefore every use has its own stream.
"""

from __future__ import annotations

import numpy as np
import torch

MOST_SEED = 2**63 - 1
"""The largest seed that every generator of PyTorch takes."""


def check_seed(seed: int, name: str = "seed") -> None:
    """Raises ValueError for a seed that a generator refuses, maybe only after training."""
    if not 0 <= seed <= MOST_SEED:
        raise ValueError(f"{name} must be >= 0 and <= {MOST_SEED}, got {seed}")


def generators(
    seed: int, device: torch.device | str = "cpu", attempt: int = 0
) -> tuple[torch.Generator, torch.Generator]:
    """The generators of the data (on the CPU) and of the chains (on the device).

    Args:
        seed: of the run.
        device: of the chains.
        attempt: number of the attempt after rollbacks; each attempt has its own streams.
    """
    entropy = [seed, attempt] if attempt else seed
    of_data, of_chains = np.random.SeedSequence(entropy).generate_state(2, np.uint64).tolist()
    return (
        torch.Generator().manual_seed(of_data >> 1),
        torch.Generator(device).manual_seed(of_chains >> 1),
    )


STREAMS = {"walkers": 1, "validation": 2}
"""Uses with a stream of their own, which takes no numbers from those of data and chains."""


def own_generator(seed: int, use: str, device: torch.device | str = "cpu") -> torch.Generator:
    """The generator of one of the uses in STREAMS.

    Args:
        seed: of the run.
        use: name of the use.
        device: of the random numbers.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(STREAMS[use],))
    (state,) = sequence.generate_state(1, np.uint64).tolist()
    return torch.Generator(device).manual_seed(state >> 1)
