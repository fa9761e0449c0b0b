"""Fabricated run folders of images, for tests of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from coldness.cards import MARK

Arrays = dict[str, np.ndarray]

FIGURES = {
    "accuracy": 0.9,
    "ece": 0.05,
    "accuracy_refined": 0.92,
    "ece_refined": 0.02,
    "kid_effnet_short": 0.03,
    "kid_effnet_floor": 0.001,
    "auroc_logp_svhn": 0.4,
    "auroc_maxp_svhn": 0.8,
    "samples": 100,
}


def image_arrays(
    shape: tuple[int, int, int] = (3, 4, 4), count: int = 70, classes: int = 3
) -> Arrays:
    """All that an evaluation of images may leave; every pixel is another number in [-1, 1]."""
    rng = np.random.default_rng(0)

    def images(n: int) -> np.ndarray:
        return rng.uniform(-1, 1, (n, *shape)).astype(np.float32)

    arrays = {f"x_{kind}": images(count) for kind in ("data", "short", "long", "bank")}
    arrays |= {"x_class": images(classes * 2), "x_class_labels": np.arange(classes * 2) % classes}
    arrays |= {"x_nearest": images(5), "nearest_distance": np.arange(1.0, 6.0)}
    arrays["nearest_distance_test"] = np.array([2.0, 7.0, 9.0])
    share = np.where(np.arange(15) < 5, 0, 0.1)
    middles = (np.arange(15) + 0.5) / 15
    for name in ("reliability", "reliability_refined"):
        arrays |= {f"{name}_confidence": middles, f"{name}_share": share}
        arrays[f"{name}_accuracy"] = np.where(share > 0, 0.9 * middles, middles)
    arrays |= {"u_data": 1e5 + rng.normal(size=50), "u_long": 1e5 + rng.normal(size=50)}
    arrays |= {"u_ood_svhn": 1e5 + 100 + rng.normal(size=50), "u_ood_dtd": np.full(50, 9e9)}
    arrays |= {"maxp_data": rng.uniform(size=50), "maxp_ood_svhn": rng.uniform(size=50)}
    return arrays


def latent_arrays(
    shape: tuple[int, int, int] = (3, 4, 4), each: int = 4, classes: int = 3, attributes: int = 3
) -> Arrays:
    """What an evaluation of a model with latents adds to these.

    Attributes are asked for one by one, negated one by one, and in pairs of neighbours.
    """
    rng = np.random.default_rng(2)

    def images(n: int) -> np.ndarray:
        return rng.uniform(-1, 1, (n, *shape)).astype(np.float32)

    single, pairs = np.eye(attributes), np.eye(attributes)[:-1] + np.eye(attributes)[1:]
    asked = np.concatenate([single, -single, pairs])
    found = np.round(np.where(asked > 0, 0.9, 0.2) + 0.1 * rng.uniform(size=asked.shape), 2)
    return {
        "cosines_f": np.clip(rng.normal(0.8, 0.05, 400), -1, 1),
        "cosines_v": np.clip(rng.normal(0.1, 0.2, 400), -1, 1),
        "cosines_h": np.clip(rng.normal(0.0, 0.25, 400), -1, 1),
        "confusion": 0.9 * np.eye(classes) + 0.1 * np.roll(np.eye(classes), 1, 1),
        "x_instance": images(2),
        "x_like": images(2 * each),
        "x_attributes": images(len(asked) * each),
        "attribute_table": np.concatenate([asked, found], 1),
    }


def moments(shape: tuple[int, int, int] = (3, 4, 4), times: int = 3) -> Arrays:
    """What grids.npz holds."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (times, 9, *shape)).astype(np.uint8)
    return {"iterations": 1000 * np.arange(times), "x": x}


def image_run(
    folder: Path,
    arrays: Arrays | None = None,
    grids: Arrays | None = None,
    metrics: dict[str, float] | None = None,
    data: Any = None,
    card: Any = None,
) -> Path:
    """Writes a run folder; grids.npz and the model's card only where they are given."""
    folder.mkdir(parents=True)
    settings = {"data": data or {"class_path": "coldness.data.Digits"}, "iterations": 3}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "metrics.csv").write_text("iteration,d\n0,1\n1,0.5\n2,0.2\n")
    (folder / "metrics.json").write_text(json.dumps(FIGURES if metrics is None else metrics))
    np.savez(folder / "evaluation.npz", **(image_arrays() if arrays is None else arrays))
    if grids is not None:
        np.savez(folder / "grids.npz", **grids)
    if card is not None:
        (folder / "model").mkdir()
        (folder / "model" / "model.yaml").write_text(f"{MARK}\n{yaml.safe_dump(card)}")
    return folder
