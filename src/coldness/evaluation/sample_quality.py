"""Sample quality of images in the features of a network: KID, FID, IS.

    KID    MMD^2 with the kernel (x.y / F + 1)^3, the unbiased estimate from all pairs of images
    FID    |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2) of means and covariances
    IS     exp of the mean KL(p(y|x) || p(y)) of the network's own classes

against test images, with equally many of every set. KID is 0 on average for two samples of one
distribution, and may be negative. FID has a bias that grows as images get fewer: with fewer images
than features (1280) most of it is bias, so it is meaningful only relative to its floor.

The floor is the value for equally many training images: what a perfect sampler would get. Two more
sets give KID a scale: training images averaged over 2 x 2 and over 4 x 4 pixels and enlarged again,
`half` and `quarter` of the resolution.

References:
    Demystifying MMD GANs (Binkowski et al., 2018), section 4.
    GANs Trained by a Two Time-Scale Update Rule (Heusel et al., 2017), Eq. 6.
    Improved Techniques for Training GANs (Salimans et al., 2016), section 4.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from coldness.data import HeldOut
from coldness.evaluation.features import (
    LEAST_SIDE,
    Network,
    NoFeatures,
    as_bytes,
    feature_network,
    metric_of,
)
from coldness.training.settings import Features

log = logging.getLogger("coldness")

IMAGES_AT_ONCE = 64
SPLITS = 10
"""Number of parts that IS is averaged over, as in the literature."""


def quality(
    name: Features,
    data: HeldOut,
    x_data: Tensor,
    samples: Mapping[str, Tensor],
    generator: torch.Generator,
) -> dict[str, float]:
    """kid_NAME_SET, fid_NAME_SET and is_NAME_SET of samples, of the floor and of coarse images.

    Empty where images are too small for the network, or where it is not available; a line in the
    log says so.

    Args:
        name: of the feature network.
        data: whose training images are the floor.
        x_data: test images (N, C, H, W).
        samples: sets of images, finite, by name.
        generator: on the CPU.
    """
    if name == "none" or min(x_data.shape[2:]) < LEAST_SIDE:
        return {}
    try:
        network = feature_network(name)
    except NoFeatures as error:
        log.warning("no KID: %s", error)
        return {}
    train = data.pair(len(x_data), generator)[0]
    sets = {**samples, "floor": train, "half": coarse(train, 2), "quarter": coarse(train, 4)}
    return compare(name, network, x_data, sets, int(torch.randint(2**31, (), generator=generator)))


def compare(
    name: str, network: Network, x_data: Tensor, sets: Mapping[str, Tensor], seed: int
) -> dict[str, float]:
    """Metrics of every set, all cut to the length of the shortest."""
    n = min(map(len, (x_data, *sets.values())))
    real, _ = _seen(network, x_data[:n])
    metrics: dict[str, float] = {}
    # The metrics shuffle with the global random generator.
    with torch.random.fork_rng(devices=[]):
        for which, x in sets.items():
            torch.manual_seed(seed)
            features, logits = _seen(network, x[:n])
            metrics[f"kid_{name}_{which}"] = kid(features, real)
            if which not in ("half", "quarter"):
                metrics[f"fid_{name}_{which}"] = fid(features, real)
                metrics[f"is_{name}_{which}"] = inception_score(logits)
    return metrics


def kid(x: Tensor, y: Tensor) -> float:
    """KID of features (N, F) each, from all pairs: a single subset of all images."""
    arguments = {"feature": nn.Identity(), "subsets": 1, "subset_size": len(x)}
    metric = metric_of("kid", "KernelInceptionDistance", **arguments)
    metric.update(y, real=True)
    metric.update(x, real=False)
    return float(metric.compute()[0])


def fid(x: Tensor, y: Tensor) -> float:
    """FID of features (N, F) each."""
    features = nn.Identity()
    features.num_features = x.shape[1]  # type: ignore[assignment]
    metric = metric_of("fid", "FrechetInceptionDistance", feature=features)
    metric.update(y, real=True)
    metric.update(x, real=False)
    return float(metric.compute())


def inception_score(logits: Tensor) -> float:
    """IS of logits (N, K)."""
    splits = min(SPLITS, len(logits))
    metric = metric_of("inception", "InceptionScore", feature=nn.Identity(), splits=splits)
    metric.update(logits)
    return float(metric.compute()[0])


def coarse(x: Tensor, factor: int) -> Tensor:
    """Images averaged over squares of factor x factor pixels, and enlarged again."""
    height, width = x.shape[2:]
    small = adaptive_avg_pool2d(x, (height // factor, width // factor))
    return interpolate(small, (height, width), mode="bilinear")


def _seen(network: Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """Features and logits in float64."""
    seen = [network(as_bytes(part)) for part in x.cpu().split(IMAGES_AT_ONCE)]
    return torch.cat([f for f, _ in seen]).double(), torch.cat([y for _, y in seen]).double()
