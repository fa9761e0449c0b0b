"""Further checks of models of images and of models with classes.

    check_classes    accuracy, calibration, samples by class (classification.py, class_samples.py)
    check_images     KID and the like of every kind of chain (sample_quality.py), nearest training
                     images (memorisation.py)

Each check draws random numbers of its own, so that leaving one out changes no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from coldness.data import Data
from coldness.evaluation.bank_checks import Banks, bank_samples
from coldness.evaluation.class_samples import by_class, judged
from coldness.evaluation.classification import probabilities, refined, reliability
from coldness.evaluation.memorisation import memorisation
from coldness.evaluation.noisy import noisy
from coldness.evaluation.sample_quality import quality
from coldness.model import Model
from coldness.precision import autocast
from coldness.seeds import generators
from coldness.training.settings import Evaluation

KEPT = 256
"""Images of each kind kept in evaluation.npz, to keep it small; metrics use all images."""

CHAINS = {"short": "x_short", "long": "x_long", "from_data": "x_from_data", "bank": "x_bank"}

PICTURES = ("x_data", "x_nearest", "x_mala")
"""Arrays of images other than those of chains."""

Found = tuple[dict[str, float], dict[str, Tensor]]


def check_classes(
    model: Model, data: Data, how: Evaluation, x_data: Tensor, on_stage: Callable[[str], None]
) -> Found:
    """Metrics of models with classes; empty for others."""
    metrics: dict[str, float] = {}
    arrays: dict[str, Tensor] = {}
    labelled, energy = data.labelled, model.energy
    if labelled is None:
        return metrics, arrays
    if energy.classifies:
        on_stage("accuracy and calibration")
        generator = generators(how.seed + 5, model.device)[1]
        x = noisy(model, labelled.test, generator)
        metrics, arrays = reliability(probabilities(energy, x), labelled.test_labels)
        if how.refine_steps and model.sampler is not None:
            on_stage(f"accuracy and calibration after {how.refine_steps} steps")
            with autocast(model.precision, model.device):
                x = refined(energy, model.sampler, x, how.refine_steps, generator, model.step_scale)
            lost = int((~x.isfinite().flatten(1).all(1)).sum())
            if lost:
                metrics["lost_chains_refined"] = lost
            else:
                after, bins = reliability(probabilities(energy, x), labelled.test_labels)
                metrics |= {f"{name}_refined": value for name, value in after.items()}
                arrays |= {k.replace("y_", "y_refined_", 1): values for k, values in bins.items()}
    if model.has_classes and how.class_samples and model.sampler is not None:
        on_stage("samples by class")
        of_judge, generator = generators(how.seed + 6, model.device)
        with autocast(model.precision, model.device):
            x, labels = by_class(model, x_data, how.class_samples, generator, how.guidance)
        of_classes, table = judged(labelled, x, labels, of_judge)
        metrics |= of_classes
        arrays |= {"x_class": x, "x_class_labels": labels, **table}
    return metrics, arrays


def check_images(
    data: Data,
    how: Evaluation,
    arrays: Mapping[str, Tensor],
    banks: Banks,
    on_stage: Callable[[str], None],
) -> Found:
    """Metrics of images, and all arrays with images cut to KEPT of each kind.

    Args:
        data: what the model is compared with.
        how: settings of the evaluation.
        arrays: of the evaluation so far.
        banks: replay buffers of the run; may be empty.
        on_stage: as in `evaluate`.
    """
    x_data = arrays["x_data"]
    generator, _ = generators(how.seed + 7)
    found = dict(arrays)
    if banks:
        slots = bank_samples(banks, how.samples, generator)
        found |= {} if slots is None else {"x_bank": slots}
    samples = {name: found[key] for name, key in CHAINS.items() if key in found}
    samples = {name: x for name, x in samples.items() if bool(x.isfinite().all())}
    metrics: dict[str, float] = {}
    if data.finite is not None:
        on_stage(f"images in features of {how.features}")
        metrics = quality(how.features, data.finite, x_data, samples, generator)
        if "short" in samples and data.finite.has_training_part:
            on_stage("nearest training images")
            of_nearest, nearest = memorisation(data.finite, samples["short"], x_data)
            metrics, found = {**metrics, **of_nearest}, {**found, **nearest}
    pictures = {k: found[k][:KEPT] for k in (*PICTURES, *CHAINS.values()) if k in found}
    return metrics, {**found, **pictures}
