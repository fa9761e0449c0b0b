"""The detector with the conventions of PyOD: high scores are outliers.

Needs PyOD: pip install "coldness[pyod]".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pyod.models.base import BaseDetector
from sklearn.utils.validation import check_is_fitted

from coldness.estimators import detector
from coldness.estimators.base import Array, Budget


class EnergyDetector(BaseDetector):
    """Finds unusual rows by their density.

    Args:
        contamination: fraction of outliers among the fitted rows, in (0, 0.5].
        budget: as in `coldness.estimators.EnergyDetector`, and so on.
    Attributes:
        decision_scores_: -log p of the fitted rows.
        threshold_: rows with a higher score are outliers.
        labels_: 1 for outliers among the fitted rows, 0 for the others.
        detector_: the `coldness.estimators.EnergyDetector` behind it, with `explain`.
    """

    def __init__(
        self,
        contamination: float = 0.1,
        budget: Budget = "default",
        iterations: int | None = None,
        members: int | None = None,
        overrides: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(contamination=contamination)
        self.budget = budget
        self.iterations = iterations
        self.members = members
        self.overrides = overrides
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Trains on rows X (N, D); y is ignored."""
        self._set_n_classes(y)
        self.detector_ = detector.EnergyDetector(
            budget=self.budget,
            iterations=self.iterations,
            members=self.members,
            overrides=self.overrides,
            random_state=self.random_state,
            verbose=self.verbose,
        ).fit(X)
        self.decision_scores_ = self.decision_function(X)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> Array:
        """-log p of rows, (N,): higher for outliers."""
        check_is_fitted(self, "detector_")
        return -self.detector_.score_samples(X)
