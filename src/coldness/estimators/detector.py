"""Outlier detection with the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from coldness.data.points import Validation
from coldness.estimators.base import Array, Budget, EnergyEstimator
from coldness.evaluation.reasons import explained

AUTO = 0.05
"""With contamination `auto`, the fraction of held-out rows that lie below the threshold: the rate
of false alarms among rows like those that were fitted."""

FOLDS = 5
"""Where no rows are held out, each fifth of the rows is scored by what is fitted to the others."""

CROSS_FITTED = 4000
"""Most rows that are scored so."""


class EnergyDetector(OutlierMixin, EnergyEstimator):
    """Finds unusual rows by their density.

    detector = EnergyDetector(random_state=0).fit(X)
    detector.predict(X_new)             -1 for outliers, 1 for the others
    detector.explain(X_new)             which columns make a row unlikely

    Args:
        contamination: where the threshold lies. `auto`: 5% of the held-out rows are below it; where
            none are held out, 5% of the fitted rows, each scored by a density that was fitted to
            other rows. A fraction in (0, 0.5]: so many of the fitted rows are. It may be changed
            after fit.
        budget: as in `EnergyEstimator`, and so on.
    """

    _purpose = "detection"

    def __init__(
        self,
        contamination: float | Literal["auto"] = "auto",
        budget: Budget = "default",
        iterations: int | None = None,
        members: int | None = None,
        validation: Validation = "auto",
        overrides: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(budget, iterations, members, validation, overrides, random_state, verbose)
        self.contamination = contamination

    def fit(self, X: Any, y: Any = None) -> Self:
        """Trains on rows X (N, D); y is ignored."""
        self._share()
        rows = self._fit_rows(X)
        self._train(rows)
        points, held_out = self._points(rows), torch.from_numpy(self._held_out)
        self._fitted_scores = self._log_p(points)
        self._unseen_scores = self._log_p(held_out) if len(held_out) else self._cross_fitted(points)
        return self

    def score_samples(self, X: Any) -> Array:
        """Scores (N,), higher for usual rows: log p in nats, or -U without a log Z."""
        return self._log_p(self._points(X))

    @property
    def offset_(self) -> float:
        """The threshold: rows with a lower score are outliers."""
        check_is_fitted(self)
        share = self._share()
        if share is not None:
            return float(np.quantile(self._fitted_scores, share))
        return float(np.quantile(self._unseen_scores, AUTO))

    def decision_function(self, X: Any) -> Array:
        """score_samples - offset_, (N,): negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for outliers, 1 for the others, (N,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def percentile(self, X: Any) -> Array:
        """The percentage of held-out rows with a lower score; 0: more unusual than all of them.

        Where none are held out, of the rows that `contamination` names for this case.
        """
        known = np.sort(self._unseen_scores)
        return 100 * np.searchsorted(known, self.score_samples(X)) / len(known)

    def explain(self, X: Any) -> Array:
        """Which columns make rows unlikely, (N, D): the gradient of U in whitened coordinates.

        A large positive number: the value is too high; a large negative one: too low, both in nats
        per standard deviation. Of categories, the largest of their columns counts. Columns that
        were dropped are 0.
        """
        return explained(self._scoring, self._points(X))

    def _cross_fitted(self, points: Tensor) -> Array:
        """Scores of fitted rows, each with a reference density that was fitted to other rows.

        The network is that of all rows: so few rows train it for a few iterations only.
        """
        energy = deepcopy(self._scoring[0].energy)
        if energy.reference is None:
            return self._fitted_scores
        model, found = replace(self._scoring[0], energy=energy), []
        order = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))
        folds = order[:CROSS_FITTED].tensor_split(FOLDS)
        for k, fold in enumerate(folds):
            others = torch.cat([*folds[:k], *folds[k + 1 :]])
            energy.reference.fit(points[others], 0, energy.coordinates.whiten)
            found.append(self._log_p(points[fold], [model]))
        return np.concatenate(found)

    def _share(self) -> float | None:
        """The fraction of outliers among fitted rows; None for `auto`."""
        share = self.contamination
        if share == "auto":
            return None
        if isinstance(share, str) or not 0 < share <= 0.5:
            raise ValueError(f"contamination must be 'auto' or in (0, 0.5], got {share!r}")
        return float(share)
