"""A judge of attributes: which of them do samples show?

It is independent of every model: one support vector machine per property (a group of attributes of
which every example has exactly one), or per attribute that is in no group, fitted to training
images. It sees pixels, which tell colour and place, and the amplitudes of their Fourier transform

    |F(x - mean x)|,

which are the same wherever a shape is and so tell what it is. Both are standardised and reduced to
COMPONENTS principal components. Samples of energy-based models carry the noise of their last step,
so the judge is fitted to images with Gaussian noise of a standard deviation drawn from
U(0, LARGEST_NOISE) for every image, in the units of the model.

    accuracy    on test images without noise: the mean over values of a property of the fraction
                of images of that value that are judged right (balanced accuracy)

What an inaccurate judge says means nothing: compare `accuracy` with a limit before using it. A
judge always answers, also on images that show nothing. So compare what it says of samples drawn for
attributes with what it says of samples drawn for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from coldness.data import Attributed

LARGEST_SIDE = 32
"""Largest side of images that are judged."""

EXAMPLES = 5000
"""Most training images of the judge: its cost grows with the square of their number."""

COMPONENTS = 150
LARGEST_NOISE = 0.2


@dataclass(frozen=True)
class AttributeJudge:
    """A fitted judge of A attributes.

    names: of the A attributes. accuracy: per property, or attribute in no group, by name; NaN if
    the training examples or the test part do not show all of its values. columns: of the
    attributes of every property. features, machines: fitted parts of scikit-learn.
    """

    names: tuple[str, ...]
    accuracy: Mapping[str, float]
    columns: Mapping[str, Sequence[int]]
    features: Any
    machines: Mapping[str, Any]

    def __call__(self, x: Tensor) -> Tensor:
        """Returns bool (N, A) of images (N, C, H, W) in the units of the model.

        Exactly one attribute of every property is True.

        Raises:
            ValueError: if an image is not finite.
        """
        if not bool(x.isfinite().all()):
            raise ValueError("images must be finite numbers, got NaN or infinite values")
        found = torch.zeros(len(x), len(self.names), dtype=torch.bool)
        seen = self.features.transform(_seen(x))
        for name, columns in self.columns.items():
            values = torch.from_numpy(self.machines[name].predict(seen))
            found[:, list(columns)] = _one_hot(values, len(columns))
        return found


def judge_attributes(data: Attributed, x: Tensor, generator: torch.Generator) -> Tensor:
    """Returns the attributes, bool (N, A), that samples x (N, C, H, W) show.

    To judge several sets of samples, or to learn how accurate the judge is, use `fit_judge`.

    Raises:
        ValueError: if there is no judge for this data, or x is not finite.
    """
    judge = fit_judge(data, generator)
    if judge is None:
        raise ValueError(f"only images of at most {LARGEST_SIDE} pixels per side can be judged")
    return judge(x)


def fit_judge(data: Attributed, generator: torch.Generator) -> AttributeJudge | None:
    """Returns a judge fitted to training images; None if examples are not small images."""
    if not data.domain.is_images or max(data.shape[1:]) > LARGEST_SIDE:
        return None
    some = torch.randperm(len(data.train_attributes), generator=generator)[:EXAMPLES]
    x, attributes = data.train[some], data.train_attributes[some]
    std = LARGEST_NOISE * torch.rand(len(x), 1, 1, 1, generator=generator)
    noisy = _seen(x + std * torch.randn(x.shape, generator=generator))
    features = _reduction(min(COMPONENTS, *noisy.shape), generator)
    seen, columns = features.fit_transform(noisy), _properties(data)
    machines = {
        name: _machine(seen, _values(attributes, of).numpy()) for name, of in columns.items()
    }
    tested = features.transform(_seen(data.test))
    accuracy = {
        name: _balanced(
            torch.from_numpy(machines[name].predict(tested)),
            _values(data.test_attributes, of),
            _values(attributes, of),
            max(2, len(of)),
        )
        for name, of in columns.items()
    }
    return AttributeJudge(data.attribute_names, accuracy, columns, features, machines)


def _seen(x: Tensor) -> Any:
    """Returns what the judge sees of images: pixels as they are shown, and amplitudes."""
    shown = x.float().clamp(-1, 1)
    waves = torch.fft.rfft2(shown - shown.mean((2, 3), keepdim=True), norm="ortho").abs()
    return torch.cat([shown.flatten(1), waves.flatten(1)], 1).numpy()


def _reduction(components: int, generator: torch.Generator) -> Any:
    """Standardises, and keeps principal components by a randomised method, for speed."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    # Imported here, because scikit-learn is slow to import.
    return import_module("sklearn.pipeline").make_pipeline(
        import_module("sklearn.preprocessing").StandardScaler(),
        import_module("sklearn.decomposition").PCA(
            components, svd_solver="randomized", random_state=seed
        ),
    )


def _properties(data: Attributed) -> dict[str, list[int]]:
    """Returns columns by property; an attribute in no group is a property of its own."""
    names, groups = data.attribute_names, data.attribute_groups
    grouped = {name for of in groups.values() for name in of}
    alone = {name: (name,) for name in names if name not in grouped}
    return {name: [names.index(a) for a in of] for name, of in (*groups.items(), *alone.items())}


def _values(attributes: Tensor, columns: Sequence[int]) -> Tensor:
    """Returns the number of the value (N,) of a property; 0 or 1 for an attribute alone."""
    own = attributes[:, list(columns)].long()
    return own[:, 0] if len(columns) == 1 else own.argmax(1)


def _one_hot(values: Tensor, count: int) -> Tensor:
    """Inverse of `_values`: bool (N, count)."""
    return values[:, None] == (torch.arange(count) if count > 1 else torch.ones(1))


def _machine(seen: Any, values: Any) -> Any:
    if len(set(values.tolist())) == 1:  # nothing to tell apart
        return import_module("sklearn.dummy").DummyClassifier().fit(seen, values)
    machine = import_module("sklearn.svm").SVC(C=10.0, class_weight="balanced")
    return machine.fit(seen, values)


def _balanced(found: Tensor, true: Tensor, trained: Tensor, count: int) -> float:
    """Mean over `count` values of the fraction judged right; NaN if one of them is missing."""
    if not count == len(trained.unique()) == len(true.unique()):
        return float("nan")
    right = (found == true).double()
    return float(torch.stack([right[true == value].mean() for value in range(count)]).mean())
