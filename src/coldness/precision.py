"""Precision of networks: bfloat16 inside of them where the processor has it, float32 elsewhere.

Under autocast, convolutions and matrix products run in bfloat16; chains, sums, losses, weights and
optimisers stay in float32, and the networks of coldness give their outputs in it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

Precision = Literal["float32", "bf16", "auto"]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """In which networks run: `auto` is bf16 where it is fast on this device, else float32."""
    if precision == "float32" or (precision == "auto" and not has_fast_bf16(device)):
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def has_fast_bf16(device: torch.device) -> bool:
    """Whether the device computes in bfloat16 itself."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported())
    return False
