"""Private boosting beside private forests and trees at equal epsilon: AUC on twelve tables.

Settings were chosen on the five tables of `CHOSEN_ON`; results are those of the other seven. Five
parties, of which three are honest, so that every sum carries the noise of five shares; eight splits
of three quarters against one. Ranges and categories are read off each whole table, as a schema
would declare them. Errors are standard errors of paired differences over splits, then over tables.

Results are kept line by line in a file and not measured again. Peers that hold all rows on one site
(interpret's DP-EBM, diffprivlib) run by themselves in an environment that has them:

Run: python benchmarks/bench_private_boosting.py [--fast] [--peers] [--tables a,b] [--show]
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from data import SHARED

CHOSEN_ON = ("tb_california", "tb_compas", "tb_house_16H_clf", "tb_pol", "nursery")
TABLES = (
    "adult",
    "telco_churn",
    "bank_additional_full",
    "credit_card_default",
    "waveform",
    "tb_eye_movements",
    "spambase",
)
EPSILONS = (1.0, 0.5, 2.0, 5.0)
DELTA = 1e-6
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "boosting, delta": ("PrivateBoostingClassifier", {"delta": DELTA}),
    "boosting, pure": ("PrivateBoostingClassifier", {"delta": None}),
    "forest, delta": ("PrivateForestClassifier", {"delta": DELTA}),
    "forest, pure": ("PrivateForestClassifier", {}),
    "forest 20 x 5": ("PrivateForestClassifier", {"n_estimators": 20, "max_depth": 5}),
    "forest 20 x 8": ("PrivateForestClassifier", {"n_estimators": 20, "max_depth": 8}),
    "forest 100 x 10": ("PrivateForestClassifier", {"n_estimators": 100, "max_depth": 10}),
    "tree noisy_max": ("PrivateTreeClassifier", {"method": "noisy_max"}),
    "tree noisy_max, leaves 1/5": (  # what "auto" took while it trusted the coordinator
        "PrivateTreeClassifier", {"method": "noisy_max", "leaf_share": 0.2},
    ),
    "tree auto": ("PrivateTreeClassifier", {}),
    "tree auto, delta": ("PrivateTreeClassifier", {"delta": DELTA}),
    "boosting, delta, one by one": (
        "PrivateBoostingClassifier", {"delta": DELTA, "batch_trees": 1},
    ),
    "boosting, delta, pairs": ("PrivateBoostingClassifier", {"delta": DELTA, "method": "pairs"}),
}  # fmt: skip
PEERS = ("DP-EBM", "diffprivlib 10 x 5", "diffprivlib 20 x 8", "diffprivlib 100 x 10")


def load(name: str) -> tuple[pd.DataFrame, Any]:
    """Return a table and its labels as text."""
    frame = pd.read_parquet(SHARED / f"{name}.parquet")
    y = frame.pop("target").astype(str).to_numpy()
    for column in frame:
        if frame[column].dtype.name not in ("category", "object"):
            frame[column] = frame[column].astype(float)
    return frame, y


def divided(y: Any, split: int) -> tuple[Any, Any]:
    """Return the rows to train on and to test on."""
    order = np.random.default_rng(1000 + split).permutation(y.size)
    return order[: 3 * y.size // 4], order[3 * y.size // 4 :]


def auc(shares: Any, y: Any, classes: Any) -> float:
    """Return the AUC; of several classes, the mean over those with more than five test rows."""
    if len(classes) == 2:
        return float(roc_auc_score(y == classes[1], shares[:, 1]))
    held = [k for k in range(len(classes)) if (y == classes[k]).sum() > 5]
    return float(np.mean([roc_auc_score(y == classes[k], shares[:, k]) for k in held]))


def ours(name: str, X: pd.DataFrame, y: Any, split: int, epsilon: float) -> float:
    """Return the AUC of one of our learners over five parties."""
    import spinney  # noqa: PLC0415  peers' environments do not have it

    kind, how = OURS[name]
    train, test = divided(y, split)
    site = spinney.deal_rows(y[train], n_parties=5, random_state=split)
    model = getattr(spinney, kind)(epsilon, honest=3, n_jobs=1, **how)
    if "random_state" in model.get_params():
        model.set_params(random_state=split)
    model.fit(X.iloc[train], y[train], party=site)
    return auc(model.predict_proba(X.iloc[test]), y[test], list(model.classes_))


def theirs(name: str, X: pd.DataFrame, y: Any, split: int, epsilon: float) -> float:
    """Return the AUC of a peer that has all rows on one site."""
    train, test = divided(y, split)
    coded = X.apply(lambda c: c.cat.codes if c.dtype.name == "category" else c)
    coded = coded.astype(float).fillna(-1.0)
    low, high = coded.min().to_numpy(), coded.max().to_numpy()
    classes, label = np.unique(y, return_inverse=True)
    if name == "DP-EBM":
        from interpret.privacy import DPExplainableBoostingClassifier  # noqa: PLC0415

        if classes.size > 2:
            return float("nan")  # it takes two classes only
        kinds = ["nominal" if X[c].dtype.name == "category" else "continuous" for c in X]
        bounds = {i: (low[i], high[i]) for i in range(len(low))}
        model = DPExplainableBoostingClassifier(
            epsilon=epsilon,
            delta=DELTA,
            feature_types=kinds,
            privacy_bounds=bounds,
            random_state=split,
            n_jobs=1,
        )
        held = coded.copy()
        for column in X:
            if X[column].dtype.name == "category":
                held[column] = X[column].astype(object).fillna("missing").astype(str)
        model.fit(held.iloc[train], label[train])
        return auc(model.predict_proba(held.iloc[test]), label[test], [0, 1])
    from diffprivlib.models import RandomForestClassifier  # noqa: PLC0415

    trees, depth = (int(word) for word in name.removeprefix("diffprivlib ").split(" x "))
    model = RandomForestClassifier(
        n_estimators=trees,
        max_depth=depth,
        epsilon=epsilon,
        bounds=(low, high),
        classes=np.arange(classes.size),
        random_state=split,
        n_jobs=1,
    )
    model.fit(coded.to_numpy()[train], label[train])
    return auc(model.predict_proba(coded.to_numpy()[test]), label[test], list(range(classes.size)))


def measure(path: Path, names: tuple[str, ...], tables: tuple[str, ...], n_splits: int) -> None:
    """Measure what the file does not hold yet, epsilon 1 first."""
    known = {tuple(json.loads(line)["case"]) for line in read(path)}
    held: dict[str, tuple[pd.DataFrame, Any]] = {}
    for epsilon in EPSILONS:
        for split in range(n_splits):
            for table in tables:
                for name in names:
                    case = (name, table, epsilon, split)
                    if case in known:
                        continue
                    X, y = held.setdefault(table, load(table))
                    begun = time.process_time()
                    run = theirs if name in PEERS else ours
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = run(name, X, y, split, epsilon)
                    spent = time.process_time() - begun
                    line = json.dumps({"case": case, "auc": found, "seconds": round(spent, 2)})
                    with path.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")


def read(path: Path) -> list[str]:
    """Return the lines of a file, if there is one."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def results(path: Path) -> pd.DataFrame:
    """Return all results as a frame."""
    lines = [json.loads(line) for line in read(path)]
    rows = [(*line["case"], line["auc"], line["seconds"]) for line in lines]
    return pd.DataFrame(rows, columns=["learner", "table", "epsilon", "split", "auc", "seconds"])


def show(path: Path, tables: tuple[str, ...]) -> None:
    """Print the mean AUC by learner and epsilon, and by table at epsilon 1."""
    found = results(path)
    found = found[found.table.isin(tables)]
    how = {"index": ["learner", "epsilon"], "columns": "table", "values": "auc"}
    means = found.pivot_table(**how)
    print(means.assign(mean=means.mean(axis=1)).round(4).to_string())
    print(found.groupby(["learner", "epsilon"]).split.nunique().to_string())


def main() -> None:
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="one split")
    parser.add_argument("--peers", action="store_true", help="the peers of this environment")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--learners", default="")
    parser.add_argument("--results", type=Path, default=Path("private_boosting.jsonl"))
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    tables = tuple(given.tables.split(","))
    if given.show:
        show(given.results, tables)
        return
    names = tuple(given.learners.split(";")) if given.learners else tuple(OURS)
    measure(given.results, PEERS if given.peers else names, tables, 1 if given.fast else 8)


if __name__ == "__main__":
    sys.exit(main())
