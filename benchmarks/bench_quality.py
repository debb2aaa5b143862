"""How good the forests are on real tables, beside scikit-learn's on the same splits.

Eleven tables, five splits, 100 trees, the same depth; ours over five parties. scikit-learn gets
categories as integer codes. Its scores do not depend on our code and are kept in results/cache.
Run: python benchmarks/bench_quality.py [--fast]
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score, root_mean_squared_error
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from data import CLASSIFICATION, REGRESSION, as_codes, shared
from harness import CORES, RESULTS, arguments, save, table
from spinney import HorizontalForestClassifier, HorizontalForestRegressor, deal_rows
from spinney.errors import PrivacyLeakWarning

N_SPLITS = 5
N_TREES = 100
MOST_POINTS_BELOW = 0.5  # of accuracy, in percent
MOST_RMSE_RATIO = 1.02
_cached = joblib.Memory(RESULTS / "cache", verbose=0).cache


@dataclass(frozen=True)
class Task:
    """A table with what both forests are told."""

    name: str
    max_depth: int | None
    n_trees: int = N_TREES

    @property
    def is_classification(self) -> bool:
        return self.name in CLASSIFICATION

    def splits(self, y: pd.Series, n_splits: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return rows for training and for judging, 80 to 20."""
        kind = StratifiedShuffleSplit if self.is_classification else ShuffleSplit
        rows = np.zeros(len(y))
        return kind(n_splits, test_size=0.2, random_state=0).split(rows, y)

    def score(self, truth: pd.Series, predicted: np.ndarray) -> float:
        """Return accuracy in percent, or the root mean squared error."""
        if self.is_classification:
            return 100 * float(accuracy_score(truth, predicted))
        return float(root_mean_squared_error(truth, predicted))


@_cached
def sklearn_scores(task: Task, n_splits: int, version: str) -> list[float]:
    """Return scikit-learn's scores, split by split; `version` is there for the cache."""
    del version
    X, y = shared(task.name)
    codes = as_codes(X)
    kind = RandomForestClassifier if task.is_classification else RandomForestRegressor
    scores = []
    for seed, (train, test) in enumerate(task.splits(y, n_splits)):
        forest = kind(task.n_trees, max_depth=task.max_depth, n_jobs=CORES, random_state=seed)
        forest.fit(codes[train], y.iloc[train])
        scores.append(task.score(y.iloc[test], forest.predict(codes[test])))
    return scores


def our_scores(task: Task, n_splits: int) -> list[float]:
    """Return our scores, split by split, over five parties."""
    X, y = shared(task.name)
    kind = HorizontalForestClassifier if task.is_classification else HorizontalForestRegressor
    scores = []
    for seed, (train, test) in enumerate(task.splits(y, n_splits)):
        forest = kind(task.n_trees, max_depth=task.max_depth, random_state=seed)
        labels = y.iloc[train]
        party = deal_rows(labels, 5, random_state=seed)
        forest.fit(X.iloc[train], labels, party=party)
        scores.append(task.score(y.iloc[test], forest.predict(X.iloc[test])))
    return scores


def compared(task: Task, n_splits: int = N_SPLITS) -> dict[str, Any]:
    """Return both mean scores and whether ours is good enough."""
    ours = our_scores(task, n_splits)
    theirs = sklearn_scores(task, n_splits, sklearn.__version__)
    found = {
        "table": task.name,
        "depth": str(task.max_depth),
        "score": "accuracy %" if task.is_classification else "RMSE",
        "spinney": float(np.mean(ours)),
        "scikit-learn": float(np.mean(theirs)),
        "sd of difference": float(np.std(np.subtract(ours, theirs), ddof=1)),
    }
    if task.is_classification:
        points = found["spinney"] - found["scikit-learn"]
        return {**found, "points": points, "holds": points >= -MOST_POINTS_BELOW}
    rmse_ratio = found["spinney"] / found["scikit-learn"]
    return {**found, "ratio": rmse_ratio, "holds": rmse_ratio <= MOST_RMSE_RATIO}


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__)
    n_splits, n_trees = (2, 20) if asked.fast else (N_SPLITS, N_TREES)
    names = ("waveform", "tb_abalone") if asked.fast else (*CLASSIFICATION, *REGRESSION)
    rows = []
    for name in names:
        for depth in (None, 10):
            rows.append(compared(Task(name, depth, n_trees), n_splits))
            table(f"{name}, depth {depth}", rows[-1:])
    title = f"held-out scores, {n_splits} splits of 80/20, {n_trees} trees, ours over 5 parties"
    table(title, rows)
    save("quality", "mean over splits", {title: rows})


if __name__ == "__main__":
    main()
