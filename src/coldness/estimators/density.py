"""Density estimation with the conventions of scikit-learn."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from coldness.data import TestPoints
from coldness.estimators.base import Array, EnergyEstimator
from coldness.likelihood.bracket import LogZ
from coldness.training.settings import Evaluation
from coldness.trust.judgement import Judgement, judge

JUDGED = Evaluation(samples=500, long_steps=300)
"""How thoroughly `judgement_` looks; coldness.judge looks as thoroughly as it is told to."""


class EnergyDensity(DensityMixin, EnergyEstimator):
    """The density of a table: an energy-based model with its log Z.

    density = EnergyDensity(random_state=0).fit(X)
    density.score_samples(X_new)        log p in nats, per unit of the columns

    Columns may be numbers, integers, categories (in a frame) and have missing values; `notes_` says
    what was done about each. Arguments and attributes are those of `EnergyEstimator`.
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Trains on rows X (N, D); y is ignored."""
        self._train(self._fit_rows(X))
        self.__dict__.pop("_judged", None)
        self._warn_if_loose()
        return self

    def score_samples(self, X: Any) -> Array:
        """log p of rows, (N,), in nats; -U, which is log p up to a constant, without a log Z."""
        return self._log_p(self._points(X))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log p of rows, in nats; y is ignored."""
        return float(self.score_samples(X).mean())

    def sample(
        self, n_samples: int = 1, random_state: Any = None, rounded: bool = False
    ) -> NDArray[Any]:
        """Samples (n_samples, D) in the units of the table; categories are their codes.

        Args:
            n_samples: number of rows.
            random_state: seed, RandomState or None.
            rounded: return integers, and codes of categories, as whole numbers.
        """
        check_is_fitted(self)
        rng = check_random_state(random_state)
        member = rng.randint(len(self.models_), size=n_samples)
        x = np.empty((n_samples, self.n_features_in_))
        for k, model in enumerate(self.models_):
            mine = member == k
            if mine.any():
                x[mine] = model.sample(int(mine.sum()), seed=int(rng.randint(2**31 - 1)))
        return self.models_[0].domain.units.rounded(x) if rounded else x

    @property
    def log_z_(self) -> LogZ | None:
        """log Z of the first member, with `low`, `estimate` and `high`; None if not estimated."""
        return self.model_.log_z

    @property
    def judgement_(self) -> Judgement:
        """What the first member can be trusted with, judged by the held-out rows."""
        check_is_fitted(self)
        return self._judged

    @cached_property
    def _judged(self) -> Judgement:
        model = self.model_
        points = TestPoints(torch.from_numpy(self._held_out), model.domain)
        return judge(model, points, evaluation=JUDGED)
