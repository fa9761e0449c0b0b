"""What is asked of models of images, and of models with classes, beside what is asked of all.

    check_classes    accuracy, calibration, samples by class (classification.py, class_samples.py)
    check_images     KID and the like of every kind of chain (sample_quality.py), nearest training
                     images (memorisation.py)

Each draws random numbers of its own, so that leaving one out changes no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from coldness.data import HeldOut, Labelled
from coldness.energies import ClassifierEnergy, Conditional
from coldness.evaluation.bank_checks import bank_samples
from coldness.evaluation.class_samples import by_class, judged
from coldness.evaluation.classification import probabilities, refined, reliability
from coldness.evaluation.memorisation import memorisation
from coldness.evaluation.noisy import noisy
from coldness.evaluation.sample_quality import quality
from coldness.precision import autocast
from coldness.schedules import value_at
from coldness.seeds import generators

if TYPE_CHECKING:
    from coldness.training.settings import Settings

KEPT = 256
"""Images of each kind in evaluation.npz: the metrics are of all, and files stay small."""

CHAINS = {"short": "x_short", "long": "x_long", "from_data": "x_from_data", "bank": "x_bank"}

Found = tuple[dict[str, float], dict[str, Tensor]]


def check_classes(settings: Settings, x_data: Tensor, on_stage: Callable[[str], None]) -> Found:
    """Of models with classes; nothing of others."""
    how, data, energy = settings.evaluation, settings.data, settings.energy
    metrics: dict[str, float] = {}
    arrays: dict[str, Tensor] = {}
    if not isinstance(data, Labelled):
        return metrics, arrays
    device = next(energy.parameters(), torch.empty(0)).device
    source = settings.sampling
    scale = value_at(source.step_scale, settings.iterations - 1, settings.iterations)
    if isinstance(energy, ClassifierEnergy):
        on_stage("accuracy and calibration")
        generator = generators(how.seed + 5, device)[1]
        x = noisy(settings, data.test, generator)
        metrics, arrays = reliability(probabilities(energy, x), data.test_labels)
        if how.refine_steps:
            on_stage(f"the same after {how.refine_steps} steps")
            with autocast(settings.precision, device):
                x = refined(energy, source, x, how.refine_steps, generator, scale)
            lost = int((~x.isfinite().flatten(1).all(1)).sum())
            if lost:
                metrics["lost_chains_refined"] = lost
            else:
                after, bins = reliability(probabilities(energy, x), data.test_labels)
                metrics |= {f"{name}_refined": value for name, value in after.items()}
                arrays |= {k.replace("y_", "y_refined_", 1): values for k, values in bins.items()}
    if isinstance(energy, Conditional) and how.class_samples:
        on_stage("samples by class")
        of_judge, generator = generators(how.seed + 6, device)
        with autocast(settings.precision, device):
            x, labels = by_class(energy, source, x_data, how.class_samples, generator, scale)
        metrics |= judged(data, x, labels, of_judge)
        arrays |= {"x_class": x, "x_class_labels": labels}
    return metrics, arrays


def check_images(
    settings: Settings,
    arrays: Mapping[str, Tensor],
    banks: Sequence[Mapping[str, Any]],
    on_stage: Callable[[str], None],
) -> Found:
    """Metrics of images, and all arrays with images cut to KEPT of each kind.

    Args:
        settings: of the run.
        arrays: of the evaluation so far.
        banks: `state_dict` of every source; may be missing.
        on_stage: as in `evaluate`.
    """
    how, data, x_data = settings.evaluation, settings.data, arrays["x_data"]
    generator, _ = generators(how.seed + 7)
    found = dict(arrays)
    if banks:
        slots = bank_samples(settings, banks, how.samples, generator)
        found |= {} if slots is None else {"x_bank": slots}
    samples = {name: found[key] for name, key in CHAINS.items() if key in found}
    samples = {name: x for name, x in samples.items() if bool(x.isfinite().all())}
    metrics: dict[str, float] = {}
    if isinstance(data, HeldOut):
        on_stage(f"images in features of {how.features}")
        metrics = quality(how.features, data, x_data, samples, generator)
        if "short" in samples:
            on_stage("nearest training images")
            of_nearest, nearest = memorisation(data, samples["short"], x_data)
            metrics, found = {**metrics, **of_nearest}, {**found, **nearest}
    pictures = {k: x[:KEPT] for k, x in found.items() if x.dim() == 4 and k != "x_class"}
    return metrics, {**found, **pictures}
