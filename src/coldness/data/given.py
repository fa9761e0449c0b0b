"""Data that is given in Python: an array or tensor of points or of images, or data itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from coldness.data.base import Data
from coldness.data.image_readers import pictures_of
from coldness.data.images import ImageData
from coldness.data.points import Points


def as_data(given: Any, options: Mapping[str, Any] | None = None) -> Data:
    """Data for training.

    Args:
        given: `Data`; or points (N, D) or (N,); or images (N, H, W), (N, H, W, C) or
            (N, C, H, W), of bytes or of floats in [0, 1]; as anything that NumPy takes.
        options: of `Points`, such as held_out and split_seed, for points; of `ImageData` for
            images.
    """
    if isinstance(given, Data):
        return given
    x = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if x.ndim in (1, 2):
        return Points.of(x, **(options or {}))
    return ImageData(pictures_of(x), **(options or {}))
