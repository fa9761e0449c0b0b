"""Precision of networks: bfloat16 inside networks if the device supports it, float32 elsewhere.

Under autocast, convolutions and matrix products run in bfloat16. Chains, sums, losses, weights and
optimisers stay in float32, and the networks of coldness return float32.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

Precision = Literal["float32", "bf16", "auto"]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """The context in which networks run; `auto` is bf16 if it is native to the device."""
    if precision == "float32" or (precision == "auto" and not has_fast_bf16(device)):
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def has_fast_bf16(device: torch.device) -> bool:
    """Whether the device computes in bfloat16 natively."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported())
    return False
