"""Jobs of forests over three parties, for tests of their protocols."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import extra_trees, horizontal_forest
from spinney.protocols.extra_trees.messages import CutsAsk
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess


@dataclass(frozen=True)
class Forest:
    """A protocol that grows a forest by sums over parties."""

    protocol: Any
    level_ask: type
    """The question that asks for the counts of a level."""
    facts: dict[str, Any] = field(default_factory=dict)

    def job(self, label, **changes):
        """Return settings of a small forest."""
        is_amount = label == "amount"
        facts: dict[str, Any] = {
            "task": "regression" if is_amount else "classification",
            "criterion": "squared_error" if is_amount else "gini",
            "n_estimators": 5,
            "seed": 1,
        }
        return self.protocol.Settings(**(facts | self.facts | changes))

    def connected(self, tables, **how):
        """Return a channel to a party for each table."""
        parties = {name: self.protocol.Party(table) for name, table in tables.items()}
        return InProcess(parties, **how)

    def masked(self, tables):
        """Return a channel whose sums are masked."""
        parties = {name: self.protocol.Party(table) for name, table in tables.items()}
        return secure_parties(parties, InProcess, self.protocol.SUMMED, job="test")


HORIZONTAL = Forest(horizontal_forest, LevelAsk)
EXTRA = Forest(
    extra_trees, CutsAsk, {"bootstrap": False, "binning": "magnitudes", "thresholds": "public"}
)
job, connected, masked = HORIZONTAL.job, HORIZONTAL.connected, HORIZONTAL.masked


def tables_of(X, y, party, label):
    is_amount = label == "amount"
    estimator = HorizontalForestRegressor() if is_amount else HorizontalForestClassifier()
    given_input = fit_input(
        estimator,
        X,
        y,
        is_classifier=not is_amount,
        needs_ranges=True,
        schema=None,
        categorical_features="from_dtype",
    )
    return deal_tables(given_input.table, party)


def small_table(names=("a", "b"), label=None, classes=("no", "yes"), n=20, bounds=(-9.0, 9.0)):
    """Return a table of two columns of noise and a label that alternates."""
    random = np.random.RandomState(0)
    columns = tuple(Column(name, "number", range=bounds) for name in names)
    schema = Schema(columns, label or Label("y", "class", classes))
    matrix = random.standard_normal((n, len(names)))
    is_class = schema.label.kind == "class"
    target = np.arange(n) % 2 if is_class else random.standard_normal(n)
    return MemoryTable(
        schema, MatrixColumns(matrix), target.astype(np.int32 if is_class else np.float64)
    )
