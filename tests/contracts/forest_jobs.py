"""Jobs of a forest over three parties, for tests of the protocol."""

from typing import Any

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.estimators.inputs import dealt_tables, fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest import Party
from spinney.transport.in_process import InProcess


def job(label, **changes):
    is_amount = label == "amount"
    facts: dict[str, Any] = {
        "task": "regression" if is_amount else "classification",
        "criterion": "squared_error" if is_amount else "gini",
        "n_estimators": 5,
        "seed": 1,
    }
    return horizontal_forest.Settings(**(facts | changes))


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
    return dealt_tables(given_input.table, party)


def connected(tables, **how):
    return InProcess({name: Party(table) for name, table in tables.items()}, **how)
