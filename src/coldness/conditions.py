"""Conditions of samples: what `Model.sample` is asked for, as one tensor that the energy reads.

    label     a class, by name or number                     the class itself, or its latent
    like      images                                         their encodings, summed and normalised
    all_of    attributes and classes, some of them negated   sum_a w_a z_a          (CLEL, Eq. 15)
    given     latents, or classes, as an array               as they are

Latents may be given more or less weight than in training: E(x, z) = |f|^2 / 2 - b v . z is linear
in z, so a guidance of b' is the condition z b' / b.

References:
    Guiding Energy-Based Models via Contrastive Latent Variables (Lee et al., 2023), sections 4.3
    and 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from coldness.data import in_model, tensor_of
from coldness.domain import Domain
from coldness.energies import Energy, Kept
from coldness.objectives.teachers import encoded
from coldness.signatures import nearest

Label = str | int | Sequence[int]
Wanted = str | Sequence[str] | Mapping[str, float]


def condition_of(
    energy: Energy,
    domain: Domain,
    kept: Kept,
    n: int,
    *,
    label: Label | None = None,
    like: Any = None,
    all_of: Wanted | None = None,
    given: Any = None,
    guidance: float | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Conditions (n, ...) of n samples, or None for p(x); and their labels (n,), if they have any.

    Raises:
        ValueError: the model cannot be asked for this, or it is asked for several things.
    """
    asked = {"label": label, "like": like, "all_of": all_of, "given": given}
    named = [name for name, value in asked.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"give one of {' and '.join(named)}, not both")
    if guidance is not None and not (named and energy.latent):
        raise ValueError("guidance needs a model with latents, and a condition such as label")
    if not named:
        return None, None
    if energy.latent and not energy.guidance > 0:
        raise ValueError("this model was trained without guidance: its latents have no effect")
    labels = None
    if label is not None:
        labels = labels_of(label, n, domain, kept, energy)
        found = energy.class_condition(labels, kept)
    elif like is not None:
        x = in_model(like, domain).float()
        found = normalize(encoded(encoder_of(kept), x).sum(0), dim=0)
    elif all_of is not None:
        found = _sum_of(all_of, _named_latents(domain, kept))
    else:
        found = _checked(tensor_of(given), n, energy)
    if guidance is not None:
        found = found * (guidance / energy.guidance)
    return found.expand(n, *found.shape[found.dim() - bool(energy.latent) :]), labels


def labels_of(label: Label, count: int, domain: Domain, kept: Kept, energy: Energy) -> Tensor:
    """Classes (count,): one by its name or number, all in turn for `all`, or one per sample."""
    classes = domain.classes
    if not (energy.classes or "class_latents" in kept):
        raise ValueError("labels need a model with classes, such as digits-jem or digits-clel")
    if isinstance(label, str) and label == "all":
        return torch.arange(count) % len(classes)
    if isinstance(label, (str, int)):
        known = {**{str(k): k for k in range(len(classes))}, **_numbers(classes)}
        if str(label) not in known:
            raise ValueError(f"there is no class {label!r}; there are {', '.join(classes)}")
        return torch.full((count,), known[str(label)])
    given = torch.as_tensor(label)
    if given.shape != (count,) or not bool(((given >= 0) & (given < len(classes))).all()):
        raise ValueError(f"labels must be {count} numbers in 0 ... {len(classes) - 1}")
    return given.long()


def encoder_of(kept: Kept) -> nn.Module:
    """The encoder that a model keeps.

    Raises:
        ValueError: there is none.
    """
    encoder = kept.get("encoder")
    if not isinstance(encoder, nn.Module):
        raise ValueError("this model has no encoder: train one with Guidance, as digits-clel does")
    return encoder


def _named_latents(domain: Domain, kept: Kept) -> dict[str, Tensor]:
    """Latents (d,) of classes and attributes by their names; attributes come first."""
    found: dict[str, Tensor] = {}
    for key, names in (("class_latents", domain.classes), ("attribute_latents", domain.attributes)):
        latents = kept.get(key)
        if isinstance(latents, Tensor):
            found |= dict(zip(names, latents, strict=True))
    if not found:
        raise ValueError("this model has no latents of classes or attributes to combine")
    return found


def _sum_of(wanted: Wanted, known: Mapping[str, Tensor]) -> Tensor:
    """sum_a w_a z_a, (d,)."""
    if isinstance(wanted, str):
        wanted = [part.strip() for part in wanted.split(",") if part.strip()]
    weights = dict(wanted) if isinstance(wanted, Mapping) else dict(map(_weighted, wanted))
    if not weights:
        raise ValueError("all_of names nothing")
    for name in weights:
        if name not in known:
            raise ValueError(
                f"there is no attribute or class {name!r}{nearest(name, known)}; "
                f"there are {', '.join(known)}"
            )
    return torch.stack([weight * known[name] for name, weight in weights.items()]).sum(0)


def _weighted(text: str) -> tuple[str, float]:
    """Name and weight of `young`, `-young`, `not young` or `young:2`."""
    name, _, number = text.strip().partition(":")
    sign = -1.0 if name.startswith(("-", "not ")) else 1.0
    try:
        weight = float(number) if number else 1.0
    except ValueError:
        raise ValueError(f"{text!r} must be an attribute, or attribute:weight") from None
    return name.removeprefix("-").removeprefix("not ").strip(), sign * weight


def _checked(given: Tensor, n: int, energy: Energy) -> Tensor:
    """Latents (d,) or (n, d), or classes () or (n,)."""
    own = (energy.latent,) if energy.latent else ()
    if not (energy.latent or energy.classes):
        raise ValueError(f"{type(energy).__name__} has nothing to condition on")
    if tuple(given.shape) not in (own, (n, *own)):
        shapes = " or ".join(str(shape) for shape in (own, (n, *own)))
        raise ValueError(f"given must have the shape {shapes}, got {tuple(given.shape)}")
    return given.float() if energy.latent else given.long()


def _numbers(names: Sequence[str]) -> dict[str, int]:
    return {name: k for k, name in enumerate(names)}
