"""Parties of evolved trees, for tests."""

from typing import Any

from spinney import GeneticTreeClassifier, GeneticTreeRegressor, deal_rows
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_tree.gathered import gather_trees
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.transport.in_process import InProcess

SMALL: dict[str, Any] = {
    "population_size": 8,
    "n_generations": 5,
    "max_depth": 4,
    "n_folds": 3,
    "seed": 1,
}


def settings(label, **changes):
    task: Any = "regression" if label == "amount" else "classification"
    return genetic_tree.Settings(task=task, **(SMALL | changes))


def tables_of(X, y, label, n_parties=4):
    is_amount = label == "amount"
    given = fit_input(
        GeneticTreeRegressor() if is_amount else GeneticTreeClassifier(),
        X,
        y,
        is_classifier=not is_amount,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    )
    return deal_tables(given.table, deal_rows(y, n_parties, random_state=0))


def parties_of(tables, **how):
    return {
        name: genetic_tree.Party(table, name, n_jobs=1, **how) for name, table in tables.items()
    }


def model_of(tables, label, *, connect=InProcess, **changes):
    parties = parties_of(tables)
    evolved = genetic_tree.train(connect(parties), settings(label, **changes))
    return gather_trees(evolved, parties)


def masked(parties):
    return secure_parties(dict(parties), InProcess, genetic_tree.SUMMED, job="test")
