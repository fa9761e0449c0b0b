"""Checks of models that were guided by an encoder: latents, and what samples follow of them.

    alignment            mean of cos(v(x), h(x)) on held-out images: how well the model's direction
                         v follows the encoder h
    knn_accuracy         of the class of the nearest training images by the encoder's features
    probe_accuracy       of logistic regression on these features
    direction_accuracy   of the class whose latent is nearest to v(x)
    like_agreement       fraction of samples like one image that are of the class of that image,
                         over many images
    attribute_judge_accuracy  of the classifiers that judge attributes, the least of all properties
    attribute_agreement  fraction of samples with an attribute asked for; _2 and _3 where two and
                         three attributes were asked for, and all must be there; _not of those that
                         lack an attribute which was negated

Whether a sample shows a class or an attribute is decided by classifiers that are independent of the
model (class_samples.py, attribute_judge.py). Cosines between different held-out images are kept for
f, v and h: f has few directions, h many, and the projector is between them (Fig. 6).

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), sections 4.3,
    4.4, appendix E.
    SimCLR (Chen et al., 2020), section 4.2, for the linear probe.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from coldness.batching import parts
from coldness.conditions import encoder_of
from coldness.data import Attributed, Data, Labelled
from coldness.evaluation.attribute_judge import fit_judge
from coldness.evaluation.class_samples import JUDGE_ACCURACY, fit_class_judge
from coldness.kernels.run import frozen
from coldness.model import Model
from coldness.objectives.teachers import encoded
from coldness.precision import autocast
from coldness.seeds import generators
from coldness.training.settings import Evaluation

PAIRS = 2000
"""Cosines that are kept of each kind."""

NEIGHBOURS = 20
PROBE_EXAMPLES = 5000
"""Training images of the probe and of nearest neighbours, at most."""

INSTANCES = 10
"""Images that samples are shown like; the agreement is over `class_samples` times as many."""

COMBINATIONS = 12
"""Combinations of two and of three attributes that are tried, at most."""

Found = tuple[dict[str, float], dict[str, Tensor]]


def check_latents(
    model: Model, data: Data, how: Evaluation, on_stage: Callable[[str], None]
) -> Found:
    """Metrics and arrays of a model with an encoder; empty for others."""
    if not model.energy.latent or "encoder" not in model.kept or data.finite is None:
        return {}, {}
    on_stage("latents")
    metrics, arrays = _directions(model, data)
    labelled = data.labelled
    if labelled is not None and len(labelled.classes) > 1:
        metrics |= _representation(model, labelled, how)
    if model.sampler is None or not how.class_samples or not model.energy.guidance > 0:
        return metrics, arrays
    for found in (_like(model, data, how, on_stage), _composed(model, data, how, on_stage)):
        metrics, arrays = {**metrics, **found[0]}, {**arrays, **found[1]}
    return metrics, arrays


def _directions(model: Model, data: Data) -> Found:
    """Alignment, and cosines between different images."""
    assert data.finite is not None
    x = data.finite.test
    f, v = outputs_of(model, x)
    h = encoded(encoder_of(model.kept), x)
    metrics = {"alignment": float((v * h).sum(1).mean())}
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(len(x), (PAIRS,), generator=generator) for _ in range(2))
    different = a != b
    arrays = {
        f"cosines_{name}": (z[a] * z[b]).sum(1)[different]
        for name, z in (("f", normalize(f, dim=1)), ("v", v), ("h", h))
    }
    return metrics, arrays


def outputs_of(model: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    """f and v, (N, d) each, in float32 on the CPU."""
    own = next(model.energy.parameters())
    with frozen(list(model.energy.modules())), torch.no_grad():
        outputs = [model.energy.outputs(part.to(own)) for part in parts(x)]
        directions = [model.energy.direction(part) for part in outputs]
    return torch.cat(outputs).float().cpu(), torch.cat(directions).float().cpu()


def _representation(model: Model, data: Labelled, how: Evaluation) -> dict[str, float]:
    """What a simple classifier reads off the encoder's features and off the model's direction."""
    train, labels, test, right = _probed(encoder_of(model.kept), data, how.seed)
    centre, spread = train.mean(0), train.std(0) + 1e-6
    if len(labels.unique()) < 2:  # the other classes are too rare to be among them
        return {}
    probe = import_module("sklearn.linear_model").LogisticRegression(max_iter=500)
    probe.fit(((train - centre) / spread).numpy(), labels.numpy())
    metrics = {
        "knn_accuracy": _by_neighbours(train, labels, test, right),
        "probe_accuracy": float(probe.score(((test - centre) / spread).numpy(), right.numpy())),
    }
    latents = model.kept.get("class_latents")
    if isinstance(latents, Tensor):
        _, v = outputs_of(model, data.test)
        found = (v @ latents.cpu().T).argmax(1)
        metrics["direction_accuracy"] = float((found == right).float().mean())
    return metrics


def knn_accuracy(encoder: nn.Module, data: Labelled, seed: int = 12345) -> float:
    """Accuracy of the class of the nearest training images by the encoder's features.

    Args:
        encoder: in eval mode.
        data: at most 5,000 of its training images are used, and all of its test images.
        seed: of the choice of training images; that of an evaluation by default.
    """
    return _by_neighbours(*_probed(encoder, data, seed))


def _probed(encoder: nn.Module, data: Labelled, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features and labels of training images, and of test images."""
    generator, _ = generators(seed + 20)
    some = torch.randperm(len(data.train), generator=generator)[:PROBE_EXAMPLES]
    train, test = _features(encoder, data.train[some]), _features(encoder, data.test)
    return train, data.train_labels[some], test, data.test_labels


def _by_neighbours(train: Tensor, labels: Tensor, test: Tensor, right: Tensor) -> float:
    """Accuracy of the vote of the nearest training images, by the cosine of features."""
    count = min(NEIGHBOURS, len(train))
    nearest = (normalize(test, dim=1) @ normalize(train, dim=1).T).topk(count, dim=1).indices
    votes = nn.functional.one_hot(labels[nearest]).sum(1).argmax(1)
    return float((votes == right).float().mean())


@torch.no_grad()
def _features(encoder: nn.Module, x: Tensor) -> Tensor:
    device = next(encoder.parameters()).device
    features: Callable[[Tensor], Tensor] = encoder.features  # type: ignore[assignment]
    return torch.cat([features(part.to(device)).float().cpu() for part in parts(x)])


def _drawn(model: Model, how: Evaluation, condition: Tensor, seed: int) -> Tensor:
    with autocast(model.precision, model.device):
        return model.draw(len(condition), seed=seed, condition=condition)[0].cpu()


def _like(model: Model, data: Data, how: Evaluation, on_stage: Callable[[str], None]) -> Found:
    """Samples like single held-out images, beside these images, and how many are of their class.

    The pictures are of few images; the fraction is over many, with one sample each, for samples
    like the same image tend to be right or wrong together.
    """
    assert data.finite is not None
    on_stage("samples like an image")
    generator, _ = generators(how.seed + 21)
    order = torch.randperm(len(data.finite.test), generator=generator)
    x = data.finite.test[order[:INSTANCES]]
    arrays = {
        "x_instance": x,
        "x_like": _alike(model, x.repeat_interleave(how.class_samples, 0), how),
    }
    labelled = data.labelled
    judge = None if labelled is None else fit_class_judge(labelled, generators(how.seed + 6)[0])
    if labelled is None or judge is None or judge.accuracy < JUDGE_ACCURACY:
        return {}, arrays
    some = order[: INSTANCES * how.class_samples]
    samples = _alike(model, data.finite.test[some], how)
    return {"like_agreement": judge.agreement(samples, labelled.test_labels[some])}, arrays


def _alike(model: Model, x: Tensor, how: Evaluation) -> Tensor:
    """One sample like every image."""
    z = encoded(encoder_of(model.kept), x)
    condition, _ = model.condition(len(z), given=z, guidance=how.guidance)
    assert condition is not None
    return _drawn(model, how, condition, how.seed)


def _composed(model: Model, data: Data, how: Evaluation, on_stage: Callable[[str], None]) -> Found:
    """Samples of one attribute, of combinations of two and three, and without one."""
    attributed = data.attributed
    if attributed is None or "attribute_latents" not in model.kept:
        return {}, {}
    judge = fit_judge(attributed, generators(how.seed + 22)[0])
    if judge is None:
        return {}, {}
    names, found = attributed.attribute_names, dict[str, list[float]]()
    pictures, asked = [], []
    wanted = _combinations(attributed, generators(how.seed + 23)[0])
    for k, combination in enumerate(wanted):
        on_stage(f"samples of attributes, {k + 1} of {len(wanted)}")
        condition, _ = model.condition(
            how.class_samples,
            all_of={names[abs(a) - 1]: 1.0 if a > 0 else -1.0 for a in combination},
            guidance=how.guidance,
        )
        assert condition is not None
        x = _drawn(model, how, condition, how.seed + k)
        has = judge(x)
        right = torch.stack([has[:, abs(a) - 1] == (a > 0) for a in combination], 1).all(1)
        size = "" if len(combination) == 1 else f"_{len(combination)}"
        key = "_not" if min(combination) < 0 else size
        found.setdefault(f"attribute_agreement{key}", []).append(float(right.float().mean()))
        pictures.append(x)
        row = torch.zeros(len(names), dtype=torch.int64)
        for a in combination:
            row[abs(a) - 1] = 1 if a > 0 else -1
        asked.append(torch.cat([row.double(), has.double().mean(0)]))
    metrics = {key: sum(values) / len(values) for key, values in found.items()}
    metrics["attribute_judge_accuracy"] = min(judge.accuracy.values())
    return metrics, {"x_attributes": torch.cat(pictures), "attribute_table": torch.stack(asked)}


def _combinations(data: Attributed, generator: torch.Generator) -> list[tuple[int, ...]]:
    """Attributes to ask for, as numbers from 1 on, negative ones negated.

    Every single one; negations of one; and at random pairs and triples of different groups.
    """
    count = len(data.attribute_names)
    of_group = {a: group for group, names in data.attribute_groups.items() for a in names}
    group = [of_group.get(name, name) for name in data.attribute_names]
    single = [(a,) for a in range(1, count + 1)]
    negated = [(-a,) for a in range(1, count + 1)]
    combined: list[tuple[int, ...]] = []
    for size in (2, 3):
        tries = [torch.randperm(count, generator=generator)[:size].tolist() for _ in range(200)]
        fitting = {tuple(sorted(a + 1 for a in t)) for t in tries
                   if len({group[a] for a in t}) == size}  # fmt: skip
        combined += sorted(fitting)[:COMBINATIONS]
    return [*single, *negated, *combined]
