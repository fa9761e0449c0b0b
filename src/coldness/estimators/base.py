"""What all estimators share: training the recipe `table`, and scores in float64.

    log p(x) = log mean_k exp(-U_k(x)) / Z_k          over members k, trainings with different seeds

Rows are scored in float64, so that a row has the same score in any subset of rows.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from coldness.data import Table, in_model
from coldness.data.points import Validation
from coldness.data.table import LEAST_ROWS
from coldness.likelihood.potential import potential
from coldness.model import Model
from coldness.progress import console, silent_bar, silent_stages, stages, training_bar
from coldness.trainer import Outcome, carry_out
from coldness.training.adapting import TableRules
from coldness.training.recipe import Recipe
from coldness.training.table_rules import Decisions

Budget = Literal["fast", "default", "best"]
Array = NDArray[np.float64]


@lru_cache(maxsize=64)
def _decided(overrides: str, changes: str) -> tuple[Recipe, list[str]]:
    """The recipe with overrides and decisions, both as JSON; reading one takes a while.

    Also a sentence about the decisions that overrides replace.
    """
    recipe, found = Recipe.read("table", json.loads(overrides)), Decisions(json.loads(changes), ())
    return recipe.decided(found), recipe.overruled(found)


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy, which grids of settings are made of, as JSON takes them."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"settings must be numbers, text or lists of them, got {type(value)}")


class EnergyEstimator(BaseEstimator):
    """Base class of the estimators.

    Args:
        budget: work that training may be: `fast`, `default` (about a minute on one core up to 5,000
            rows and 40 columns) or `best`. The work is counted, not timed, so results repeat.
        iterations: number of updates of the network; None for what the budget and the table say.
        members: number of trainings with different seeds that are averaged; None for what the
            budget says.
        validation: fraction of the rows that are held out, to stop training in time and to choose
            thresholds. `auto`: a tenth, at most 1,000 rows, and none if that is fewer than 20.
        overrides: other fields of the recipe `table` by their paths: {"data_noise": 0.2}.
        random_state: seed, RandomState or None, of everything random.
        verbose: 1 to show progress and what is done to the data; 0 for silence.
    Attributes:
        models_: the trained models, one per member.
        notes_: what was done to the columns and decided about settings, one sentence each.
        loss_curve_: loss of every iteration, of the first member.
        n_iter_: number of iterations that were made, of the first member.
    """

    _purpose: Literal["density", "detection"] = "density"

    def __init__(
        self,
        budget: Budget = "default",
        iterations: int | None = None,
        members: int | None = None,
        validation: Validation = "auto",
        overrides: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.budget = budget
        self.iterations = iterations
        self.members = members
        self.validation = validation
        self.overrides = overrides
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def model_(self) -> Model:
        """The trained model; the first of several members."""
        check_is_fitted(self)
        return self.models_[0]

    # Training.

    def _own_overrides(self) -> dict[str, Any]:
        """Fields of the recipe that the estimator sets."""
        return {}

    def _train(self, X: Any, labels: Any = None) -> None:
        if self.budget not in get_args(Budget):
            raise ValueError(
                f"budget must be one of {', '.join(get_args(Budget))}, got {self.budget!r}"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        data = Table.of(X, labels, held_out=0.0, split_seed=seed, validation=self.validation)
        found = TableRules(self.budget, self._purpose).decide(data)
        own = {} if self.iterations is None else {"iterations": self.iterations}
        given = {**self._own_overrides(), **(self.overrides or {}), **own}
        recipe, instead = _decided(json.dumps(given, default=_plain), json.dumps(found.changes))
        self.notes_ = [*data.notes, *found.said, *instead]
        if self.verbose:
            console.print("\n".join(self.notes_), markup=False)
        members = found.members if self.members is None else self.members
        if members < 1:
            raise ValueError(f"members must be >= 1, got {members}")
        outcomes = [self._one(recipe.seeded(seed + k), data) for k in range(members)]
        self.models_ = [outcome.model for outcome in outcomes]
        first = outcomes[0]
        self.n_iter_ = first.iterations
        columns = {} if first.history is None else first.history.columns
        self.loss_curve_ = np.array(columns.get("loss", []))
        self._held_out = data.validation.double().numpy()
        self._held_out_labels = data.validation_labels.numpy()
        self._scoring = [_in_float64(model) for model in self.models_]

    def _one(self, recipe: Recipe, data: Table) -> Outcome:
        shown = bool(self.verbose)
        outcome = carry_out(
            recipe,
            data=data,
            bar=training_bar if shown else silent_bar,
            stage=stages if shown else silent_stages,
        )
        if outcome.diverged is not None:
            warnings.warn(
                f"training was given up: {outcome.diverged}; the last good model is kept",
                ConvergenceWarning,
                stacklevel=3,
            )
        return outcome

    # Rows.

    def _fit_rows(self, X: Any, **check: Any) -> Any:
        """Rows to train on, checked; a frame stays a frame."""
        return self._rows(X, reset=True, ensure_min_samples=LEAST_ROWS, **check)

    def _rows(self, X: Any, **check: Any) -> Any:
        if hasattr(X, "categories") and hasattr(X, "names"):  # a Sheet, checked where it was read
            self.n_features_in_ = len(X.names)
            return X
        if hasattr(X, "iloc") and any(getattr(t, "kind", "O") not in "iuf" for t in X.dtypes):
            validate_data(self, X, skip_check_array=True, **_only(check, "reset"))
            return X
        numbers = validate_data(
            self, X, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan", **check
        )
        return X if hasattr(X, "iloc") else numbers

    def _points(self, X: Any) -> Tensor:
        """Rows (N, D) in the units of the model."""
        check_is_fitted(self)
        return in_model(self._rows(X, reset=False), self.models_[0].domain)

    # Scores.

    @property
    def normalised_(self) -> bool:
        """Whether scores are log p; otherwise they are -U, which is log p up to a constant."""
        check_is_fitted(self)
        return all(model.z is not None for model in self.models_)

    def _log_p(self, points: Tensor, models: Sequence[Model] = ()) -> Array:
        """log p of rows in the units of the model, (N,), per unit of the table; of all members."""
        domain = self.models_[0].domain
        found = []
        for model in models or self._scoring:
            z = model.z.estimate if model.z is not None and self.normalised_ else 0.0
            found.append(-potential(model.energy, points) - z)
        together = torch.logsumexp(torch.stack(found), 0) - math.log(len(found))
        return (together - domain.log_scale - domain.units.log_stretch(points)).numpy()

    def _warn_if_loose(self) -> None:
        z = self.models_[0].log_z
        if z is not None and not z.tight:
            warnings.warn(
                f"log Z is only known to lie between {z.low:.4g} and {z.high:.4g}: differences of "
                "log p are exact, its level is not",
                ConvergenceWarning,
                stacklevel=3,
            )


def _only(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _in_float64(model: Model) -> Model:
    """A copy that scores in float64."""
    return replace(model, energy=deepcopy(model.energy).double())
