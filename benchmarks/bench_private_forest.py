"""Private forests of the chosen size beside fixed ones, on real tables: AUC, accuracy, log loss.

Every forest spends the same epsilon on the same rows; means over some draws of trees and noise.
"before" is what the default was: 20 trees of depth 5, not sharpened. Calibration error: the mean
distance between score and share of the class, over ten groups of rows with similar scores. "at
home" is the chosen forest, calibrated by a party with some of its own rows (`for_party`).
Run: python benchmarks/bench_private_forest.py [--fast] [--draws 3]
"""

import logging
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from data import absent, shared
from harness import arguments, save, table
from spinney import PrivateForestClassifier

TABLES = (
    "adult",
    "bank_additional_full",
    "credit_card_default",
    "letter",
    "nursery",
    "spambase",
    "tb_california",
    "tb_compas",
    "tb_eye_movements",
    "waveform",
)
FACTS = ((1000, 0.3), (1000, 1.0), (4000, 1.0), (12_000, 1.0), (12_000, 4.0))
SIZES: dict[str, dict[str, Any]] = {
    "before": {"n_estimators": 20, "max_depth": 5},
    "20 x 8": {"n_estimators": 20, "max_depth": 8},
    "100 x 10": {"n_estimators": 100, "max_depth": 10},
    "not sharp": {"sharpness": 1.0},
    "chosen": {},
}
AT_HOME = "at home"
_TEST_ROWS, _HOME_ROWS, _FEWEST = 3000, 600, 200


def rows_of(name: str) -> tuple[pd.DataFrame, Any]:
    """Return a table with its classes as numbers; classes with few rows are left out."""
    X, target = shared(name)
    y = pd.factorize(target.astype(str), sort=True)[0]
    kept = np.flatnonzero(np.bincount(y)[y] >= _FEWEST)
    kept = np.random.RandomState(0).permutation(kept)
    return X.iloc[kept].reset_index(drop=True), pd.factorize(y[kept], sort=True)[0]


def scores(shares: Any, y: Any) -> dict[str, float]:
    k = shares.shape[1]
    classes = [1] if k == 2 else range(k)
    return {
        "auc": float(np.mean([roc_auc_score(y == c, shares[:, c]) for c in classes])),
        "accuracy": float(np.mean(shares.argmax(axis=1) == y)),
        "log loss": float(log_loss(y, np.clip(shares, 1e-6, 1), labels=range(k))),
        "calibration": float(np.mean([_calibration(shares[:, c], y == c) for c in classes])),
    }


def _calibration(score: Any, own: Any) -> float:
    parts = np.array_split(np.argsort(score, kind="stable"), 10)
    return float(np.mean([abs(score[part].mean() - own[part].mean()) for part in parts]))


def compared(name: str, n_rows: int, epsilon: float, n_draws: int) -> list[dict[str, Any]]:
    X, y = rows_of(name)
    if len(X) < n_rows + 500:
        return []
    n_home = min(_HOME_ROWS, (len(X) - n_rows) // 3)
    home = slice(n_rows, n_rows + n_home)
    test = slice(n_rows + n_home, n_rows + n_home + _TEST_ROWS)
    found = []
    for called, size in (*SIZES.items(), (AT_HOME, {})):
        told = []
        for draw in range(n_draws):
            forest = PrivateForestClassifier(epsilon, random_state=draw, **size)
            forest.fit(X[:n_rows], y[:n_rows])
            if called == AT_HOME:
                forest = forest.for_party(forest.report_.parties[0], X[home], y[home])
            told.append(scores(forest.predict_proba(X[test]), y[test]))
        shape = forest.report_
        means = {key: float(np.mean([one[key] for one in told])) for key in told[0]}
        grown = f"{shape.n_trees} x {shape.depth}"
        facts = {"table": name, "rows": n_rows, "epsilon": epsilon, "size": called, "grown": grown}
        found.append(facts | means)
    return found


def main() -> None:
    asked = arguments(__doc__, draws=3)
    warnings.simplefilter("ignore")  # public facts are read from the rows
    logging.getLogger("spinney.party").setLevel(logging.ERROR)
    names = [name for name in TABLES if absent(name) is None]
    if not names:
        sys.exit(f"no tables: {absent(TABLES[0])}")
    facts, n_draws = (FACTS[:1], 1) if asked.fast else (FACTS, asked.draws)
    lines = [
        line
        for n_rows, epsilon in facts
        for name in names
        for line in compared(name, n_rows, epsilon, n_draws)
    ]
    keys = ("auc", "accuracy", "log loss", "calibration")
    means = [
        {"rows": n, "epsilon": e, "size": size}
        | {key: float(np.mean([one[key] for one in part])) for key in keys}
        for n, e in facts
        for size in (*SIZES, AT_HOME)
        if (part := [x for x in lines if (x["rows"], x["epsilon"], x["size"]) == (n, e, size)])
    ]
    table("By table", lines)
    table("Means over the tables", means)
    save("private_forest", "means over draws", {"tables": lines, "means": means})


if __name__ == "__main__":
    main()
