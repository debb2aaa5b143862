"""How good forests and extra-trees are on real tables, beside scikit-learn's on the same splits.

All tables of ../shared/data, five splits of 70/30, 100 trees, without a depth limit and at depth
12; ours over five parties. Tables with more rows are cut to `--rows` drawn ones. scikit-learn gets
categories as integer codes. Every finished cell is a line of results/quality_cells.jsonl, so that a
run that breaks off goes on where it was; delete the file to measure anew.
Run: python benchmarks/bench_quality.py [--fast] [--rows 6000] [--publish 1]
"""

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import ensemble
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

import spinney
from data import SHARED, as_codes, shared
from harness import RESULTS, arguments, save, table
from spinney.errors import PrivacyLeakWarning

N_SPLITS = 5
N_TREES = 100
MOST_POINTS_BELOW = 0.3  # of accuracy, AUC or log loss, in percent
MOST_RMSE_RATIO = 1.003
ERRORS_BELOW = 2.0  # standard errors; a table holds if it is behind by less than either
CELLS = RESULTS / "quality_cells.jsonl"
PUBLISHED = Path(__file__).parents[1] / "docs" / "results" / "quality.json"
TABLES = tuple(sorted(path.stem for path in SHARED.glob("*.parquet")))
OURS = {
    ("forest", True): spinney.HorizontalForestClassifier,
    ("forest", False): spinney.HorizontalForestRegressor,
    ("extra-trees", True): spinney.ExtraTreesClassifier,
    ("extra-trees", False): spinney.ExtraTreesRegressor,
}
THEIRS = {
    ("forest", True): ensemble.RandomForestClassifier,
    ("forest", False): ensemble.RandomForestRegressor,
    ("extra-trees", True): ensemble.ExtraTreesClassifier,
    ("extra-trees", False): ensemble.ExtraTreesRegressor,
}


@dataclass(frozen=True)
class Task:
    """A table with what both forests are told."""

    name: str
    max_depth: int | None
    kind: str = "forest"
    n_trees: int = N_TREES
    most_rows: int = 6000

    def table(self) -> tuple[pd.DataFrame, pd.Series]:
        """Return the table, cut to the rows that are measured."""
        X, y = shared(self.name)
        if len(y) > self.most_rows:
            rows = np.random.RandomState(0).permutation(len(y))[: self.most_rows]
            X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
        if isinstance(y.dtype, pd.CategoricalDtype):  # a split needs two rows of a class
            kept = y.map(y.value_counts()).astype(int) >= 2 * N_SPLITS
            X, y = X[kept].reset_index(drop=True), y[kept].reset_index(drop=True).astype(str)
        return X, y

    def splits(self, y: pd.Series) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return rows for training and for judging, 70 to 30."""
        kind = ShuffleSplit if y.dtype.kind == "f" else StratifiedShuffleSplit
        return kind(N_SPLITS, test_size=0.3, random_state=0).split(np.zeros(len(y)), y)


def scores(forest: Any, X: Any, y: pd.Series) -> dict[str, float]:
    """Return accuracy, AUC and log loss in percent, or the root mean squared error."""
    if y.dtype.kind == "f":
        return {"rmse": float(root_mean_squared_error(y, forest.predict(X)))}
    shares = forest.predict_proba(X)
    classes = list(forest.classes_)
    binary = len(classes) == 2
    auc = roc_auc_score(
        y, shares[:, 1] if binary else shares, multi_class="ovr", labels=None if binary else classes
    )
    return {
        "accuracy": 100 * float(accuracy_score(y, forest.classes_[shares.argmax(axis=1)])),
        "auc": 100 * float(auc),
        "log_loss": 100 * float(log_loss(y, np.clip(shares, 1e-3, 1), labels=classes)),
    }


def measured(task: Task, split: int) -> dict[str, Any]:
    """Return both forests' scores on a split, and whether all training rows are fitted."""
    X, y = task.table()
    train, test = list(task.splits(y))[split]
    key = (task.kind, y.dtype.kind != "f")
    how = {"max_depth": task.max_depth, "random_state": split, "n_jobs": 1}
    ours = OURS[key](task.n_trees, **how)
    ours.fit(
        X.iloc[train], y.iloc[train], party=spinney.deal_rows(y.iloc[train], 5, random_state=split)
    )
    codes = as_codes(X)
    theirs = THEIRS[key](task.n_trees, **how).fit(codes[train], y.iloc[train])
    return {
        **asdict(task),
        "split": split,
        "rounds": ours.report_.rounds - int(ours.model_.forest.depths.max()),
        "ours": scores(ours, X.iloc[test], y.iloc[test]),
        "theirs": scores(theirs, codes[test], y.iloc[test]),
    }


def cell(task: Task, split: int, path: Path = CELLS) -> dict[str, Any]:
    """Return a cell from the file, or measure it and add it there."""
    wanted = {**asdict(task), "split": split}
    path.parent.mkdir(exist_ok=True)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    for line in lines:
        known = json.loads(line)
        if all(known[name] == value for name, value in wanted.items()):
            return known
    found = measured(task, split)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")
    return found


def compared(task: Task, n_splits: int = N_SPLITS, path: Path = CELLS) -> dict[str, Any]:
    """Return mean differences, with their standard errors, and whether ours is good enough."""
    cells = [cell(task, split, path) for split in range(n_splits)]
    found: dict[str, Any] = {"table": task.name, "kind": task.kind, "depth": str(task.max_depth)}
    holds = True
    for name in cells[0]["ours"]:
        ours, theirs = (np.array([one[side][name] for one in cells]) for side in ("ours", "theirs"))
        ahead = 100 * (1 - ours / theirs) if name == "rmse" else ours - theirs
        ahead = -ahead if name == "log_loss" else ahead
        error = float(ahead.std(ddof=1) / np.sqrt(n_splits)) if n_splits > 1 else 0.0
        found |= {
            name: float(ours.mean()),
            f"{name} ahead": float(ahead.mean()),
            f"{name} se": error,
        }
        worst = 100 * (MOST_RMSE_RATIO - 1) if name == "rmse" else MOST_POINTS_BELOW
        holds &= float(ahead.mean()) >= -max(worst, ERRORS_BELOW * error)
    return {**found, "holds": bool(holds)}


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, rows=6000, publish=0, splits=N_SPLITS)
    n_splits, n_trees = (2, 10) if asked.fast else (asked.splits, N_TREES)
    names = ("waveform", "tb_abalone") if asked.fast else TABLES
    path = RESULTS / "quality_fast.jsonl" if asked.fast else CELLS
    tasks = [
        Task(name, depth, kind, n_trees, asked.rows)
        for kind in ("forest", "extra-trees")
        for depth in (None, 12)
        for name in names
    ]
    for split in range(n_splits):  # all tables first, so that a run that breaks off shows them all
        for task in tasks:
            cell(task, split, path)
    rows = [compared(task, n_splits, path) for task in tasks]
    title = (
        f"held-out scores in percent, {n_splits} splits of 70/30 of at most {asked.rows} rows, "
        f"{n_trees} trees, ours over 5 parties; ahead of scikit-learn, with standard errors"
    )
    table(title, rows)
    save("quality", "mean over splits", {title: rows})
    if asked.publish:
        PUBLISHED.write_text(json.dumps({"title": title, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
