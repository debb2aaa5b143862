"""What `min_own_rows` holds against a liar, and what it costs.

A coordinator and one of three parties steer every split (tests/hostile/steering.py): how many rows
of the honest parties stand alone in their class, and how many of their cells are read? And what
does a forest of honest parties lose? Run: python benchmarks/bench_own_rows.py [--fast]
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from data import SHARED
from harness import arguments, save, table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from hostile.steering import steer  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.verified.simulated import connect_parties

_LEAST = (0, 2, 5, 20)
_TABLES = ("telco_churn", "adult", "spambase")
_MOST_ROWS = 10_000


def attacked(*, fast: bool) -> list[dict[str, Any]]:
    """Return what the liar gets, for each `min_own_rows`."""
    job = {"n_estimators": 4, "max_depth": 8} if fast else {}
    found = []
    for least in _LEAST:
        loot, _ = steer(least, is_masked=False, **job)
        alone, known, cells = loot.shares
        shares = {"rows alone": alone, "or by subtraction": known, "cells read": cells}
        found.append({"min_own_rows": least, **shares})
    return found


def cost(name: str, n_parties: int, seeds: range) -> dict[str, Any]:
    """Return the AUC on held-out rows, and the nodes of a tree, for each `min_own_rows`."""
    found: dict[str, Any] = {"table": name, "parties": n_parties}
    X, y = rows_of(name)
    for least in _LEAST:
        scores, nodes = zip(*(scored(X, y, n_parties, least, seed) for seed in seeds), strict=True)
        found[f"AUC, {least}"] = float(np.mean(scores))
        found[f"nodes, {least}"] = float(np.mean(nodes))
    return found


def rows_of(name: str) -> tuple[Any, Any]:
    """Return a table's cells as numbers, and whether a row has the last class."""
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    frame = frame.sample(min(len(frame), _MOST_ROWS), random_state=0)
    y = frame.pop("target").astype(str)
    codes = {
        column: frame[column].cat.codes.replace(-1, np.nan)
        for column in frame.columns
        if frame[column].dtype == "category"
    }
    return frame.assign(**codes).to_numpy(float), (y == y.max()).to_numpy(int)


def scored(X: Any, y: Any, n_parties: int, least: int, seed: int) -> tuple[float, float]:
    """Grow a forest over parties that count themselves out; return its AUC and nodes a tree."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=y)
    given = fit_input(
        HorizontalForestClassifier(),
        X[train],
        y[train],
        is_classifier=True,
        needs_ranges=True,
        schema=None,
        categorical_features="from_dtype",
    )
    party = np.array([f"party {i}" for i in range(n_parties)])[np.arange(train.size) % n_parties]
    sides = {
        name: horizontal_forest.Party(own, min_own_rows=least)
        for name, own in deal_tables(given.table, party).items()
    }
    settings = horizontal_forest.Settings(
        task="classification",
        criterion="gini",
        n_estimators=100,
        max_depth=10,
        min_samples_leaf=5,
        max_features="sqrt",
        seed=seed,
    )
    training = horizontal_forest.train(connect_parties(sides, is_masked=False), settings)
    forest = training.model.forest
    values = np.zeros((test.size, 2))
    forest.add_predictions(X[test].astype(np.float32), values, seen=None, n_threads=2)
    return float(roc_auc_score(y[test], values[:, 1])), forest.n_nodes / forest.n_trees


def main() -> None:
    """Measure both, and print them."""
    fast = arguments(__doc__ or "").fast
    loot = attacked(fast=fast)
    table("A liar and the coordinator against two honest parties", loot)
    names = _TABLES[:1] if fast else _TABLES
    seeds = range(1 if fast else 3)
    costs = [cost(name, n_parties, seeds) for name in names for n_parties in (3, 10)]
    table("100 trees of depth 10, min_samples_leaf=5, by min_own_rows", costs)
    save("own_rows", "mean of three splits", {"attack": loot, "cost": costs})


if __name__ == "__main__":
    main()
