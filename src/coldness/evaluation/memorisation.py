"""Are samples copies of training images? Nearest training images by pixel distance.

    nearest_ratio = median distance of a sample to its nearest training image,
                    over that of a test image

About 1 for samples that are as new as test images; near 0 for copies. Above 1, samples are farther
from all data than test images are, for example because of noise: they are not memorised, but that
does not make them good.
"""

from __future__ import annotations

import torch
from torch import Tensor

from coldness.data import HeldOut

LOOKED_UP = 200
"""Number of samples and of test images: enough for medians to a tenth of the spread."""

ROWS_AT_ONCE = 4096


def nearest(x: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """Index (N,) of the nearest of `among` (M, ...) and the distance to it (N,), in float64.

    The nearest one is found by matrix products in float32; its distance is then exact.
    """
    flat = x.flatten(1)
    best = torch.full((len(flat),), torch.inf)
    index = torch.zeros(len(flat), dtype=torch.int64)
    for first in range(0, len(among), ROWS_AT_ONCE):
        rows = among[first : first + ROWS_AT_ONCE].flatten(1)
        # |x - y|^2 without |x|^2, which is the same for all y.
        squares, at = (rows.square().sum(1) - 2 * flat @ rows.T).min(1)
        index = torch.where(squares < best, first + at, index)
        best = torch.minimum(squares, best)
    found = among[index].flatten(1).double()
    return index, (flat.double() - found).norm(dim=1)


def memorisation(
    data: HeldOut, x_short: Tensor, x_data: Tensor
) -> tuple[dict[str, float], dict[str, Tensor]]:
    """The metric nearest_ratio; arrays x_nearest, nearest_distance, nearest_distance_test.

    Args:
        data: whose training images are searched.
        x_short: finite samples, of which the first are looked up.
        x_data: test images, likewise.
    """
    train = data.train
    index, distance = nearest(x_short[:LOOKED_UP].cpu(), train)
    _, of_test = nearest(x_data[:LOOKED_UP], train)
    arrays = {
        "x_nearest": train[index],
        "nearest_distance": distance,
        "nearest_distance_test": of_test,
    }
    yardstick = float(of_test.median())
    if not yardstick:  # half of the test images or more are training images
        return {}, arrays
    return {"nearest_ratio": float(distance.median()) / yardstick}, arrays
