"""What a joint forest is worth to each party where classes are dealt unevenly, and fitted at home.

Five parties get shares of each class drawn from a Dirichlet distribution (0.3); the deal of a table
stays, five splits of 70/30 of each party's rows are measured. Each party's own forest is compared
with the joint one, and with the joint one as the party fits it at home (`for_party`): its accuracy,
its F1 (of the second class, or the mean over classes; decided for F1 where there are two) and AUC.
Run: python benchmarks/bench_at_home.py [--fast] [--rows 6000] [--splits 5]
"""

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

import spinney
from data import shared
from harness import arguments, save, table
from spinney.errors import PrivacyLeakWarning

N_PARTIES = 5
N_TREES = 100
CONCENTRATION = 0.3
TABLES = ("spambase", "waveform", "adult", "credit_card_default", "tb_california")
MOST_POINTS_LOST = 1.0
MODELS = ("alone", "joint", "at home")
_LEAST_ROWS = 20  # a party with fewer has nothing to train on
_LEAST_OF_CLASS = 3  # held-out rows without which AUC says nothing


def dealt(y: pd.Series, seed: int) -> np.ndarray:
    """Return the party of each row: of each class, parties get shares drawn from Dirichlet."""
    random = np.random.RandomState(seed)
    party = np.empty(len(y), np.int64)
    for name in sorted(y.unique()):
        rows = random.permutation(np.flatnonzero(y == name))
        shares = random.dirichlet(np.full(N_PARTIES, CONCENTRATION))
        ends = (np.cumsum(shares) * rows.size).round().astype(int)
        party[rows] = np.searchsorted(ends, np.arange(rows.size), side="right")
    return party.clip(0, N_PARTIES - 1)


def scores(
    model: Any, X: pd.DataFrame, y: pd.Series, classes: list[str], for_f1: Any = None
) -> dict[str, float]:
    """Return a model's accuracy, F1 and AUC on a party's held-out rows, in percent."""
    shares = pd.DataFrame(model.predict_proba(X), columns=model.classes_)
    shares = shares.reindex(columns=classes, fill_value=0.0)  # a party may not know some classes
    said = (model if for_f1 is None else for_f1).predict(X)
    held = [name for name in classes if (y == name).sum() >= _LEAST_OF_CLASS]
    aucs = [roc_auc_score(y == name, shares[name]) for name in held]
    is_binary = len(classes) == 2
    how = {"pos_label": classes[1]} if is_binary else {"average": "macro", "labels": held}
    return {
        "accuracy": 100 * float(accuracy_score(y, model.predict(X))),
        "f1": 100 * float(f1_score(y, said, zero_division=0.0, **how)),
        "auc": 100 * float(np.mean(aucs)) if len(held) > 1 else float("nan"),
    }


def measured(name: str, split: int, n_trees: int, most_rows: int) -> list[dict[str, Any]]:
    """Return every party's scores with each model."""
    X, y = shared(name)
    rows = np.random.RandomState(0).permutation(len(y))[:most_rows]
    X, y = X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True).astype(str)
    party = dealt(y, seed=TABLES.index(name))
    is_test = np.random.RandomState(split).random_sample(len(y)) < 0.3
    how = {"random_state": split, "n_jobs": 1}
    train = ~is_test
    joint = spinney.HorizontalForestClassifier(n_trees, **how)
    joint.fit(X[train], y[train], party=party[train])
    found = []
    for number in range(N_PARTIES):
        own, test = train & (party == number), is_test & (party == number)
        if own.sum() < _LEAST_ROWS or y[own].nunique() < 2 or y[test].nunique() < 2:
            continue
        alone = spinney.HorizontalForestClassifier(n_trees, **how).fit(X[own], y[own])
        home = joint.for_party(str(number))
        classes = list(joint.classes_)
        for_f1 = joint.for_party(str(number), metric="f1") if len(classes) == 2 else None
        held_out = (X[test], y[test], classes)
        told = {
            "alone": scores(alone, *held_out),
            "joint": scores(joint, *held_out),
            "at home": scores(home, *held_out, for_f1),
        }
        largest = 100 * float(y[test].value_counts(normalize=True).iloc[0])
        found.append({"table": name, "party": number, "majority": largest, **told})
    return found


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values that there are."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def summed_up(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each party's mean over splits, and whether it loses too much by joining."""
    rows = []
    for name, number in sorted({(one["table"], one["party"]) for one in cells}):
        same = [one for one in cells if (one["table"], one["party"]) == (name, number)]
        row: dict[str, Any] = {"table": name, "party": number}
        row["majority"] = float(np.mean([one["majority"] for one in same]))
        for score in ("accuracy", "f1", "auc"):
            means = {k: mean(one[k][score] for one in same) for k in MODELS}
            row |= {f"{score} {k}": value for k, value in means.items()}
            row[f"{score} gained"] = means["at home"] - means["alone"]
        lost = min(row["accuracy gained"], row["f1 gained"])
        rows.append({**row, "holds": lost >= -MOST_POINTS_LOST})
    return rows


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, rows=6000, splits=5)
    n_splits, n_trees = (1, 10) if asked.fast else (asked.splits, N_TREES)
    names = TABLES[:1] if asked.fast else TABLES
    cells = [
        one
        for name in names
        for split in range(n_splits)
        for one in measured(name, split, n_trees, asked.rows)
    ]
    rows = summed_up(cells)
    title = f"percent, {n_splits} splits, {n_trees} trees, Dirichlet {CONCENTRATION}"
    table(title, rows)
    means = [
        {
            "table": name,
            **{
                f"{score} gained, {k}": mean(
                    row[f"{score} {k}"] - row[f"{score} alone"] for row in same
                )
                for score in ("accuracy", "f1", "auc")
                for k in ("joint", "at home")
            },
        }
        for name in names
        if (same := [row for row in rows if row["table"] == name])
    ]
    table("mean over parties, against their own forests", means)
    save("at_home", "mean over splits", {title: rows, "mean over parties": means})


if __name__ == "__main__":
    main()
