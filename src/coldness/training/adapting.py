"""Rules that decide settings by the data: how a recipe adapts.

    adapt: {class_path: TableRules, init_args: {budget: default}}

A recipe that names rules leaves settings open that depend on the number of rows and columns. Before
a run is built, the rules decide them (`Recipe.adapted`). What the user overrides is never changed.
The decided recipe names no rules any more: it is the one that config.yaml holds, so that a resumed
run decides nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Literal

from coldness.data import Data
from coldness.training.table_rules import Decisions, decide


class Rules(ABC):
    """Decides settings by the data."""

    @abstractmethod
    def decide(self, data: Data) -> Decisions:
        """The settings for this data, and a sentence about each."""


@dataclass(frozen=True)
class TableRules(Rules):
    """Rules for tables, by their number of rows and columns (table_rules.py).

    Args:
        budget: how much work the training may be: `fast`, `default` (about a minute on one core up
            to 5,000 rows and 40 columns) or `best`. The work is counted, not timed, so results
            repeat.
        purpose: what the model is for: `density` (log-likelihoods) or `detection` (anomalies).
    """

    budget: Literal["fast", "default", "best"] = "default"
    purpose: Literal["density", "detection"] = "density"

    def decide(self, data: Data) -> Decisions:
        if data.finite is None:
            raise ValueError("rules for tables need finite data, such as a file of rows")
        rows, columns = len(data.finite.train), data.domain.dimensions
        found = decide(rows, columns, self.budget, self.purpose)
        if len(data.finite.validation) or found.changes.get("stop", "") is None:
            return found
        told = "There is no validation part, so training does not stop early."
        return replace(found, changes={**found.changes, "stop": None}, said=(*found.said, told))
